package loop

import (
	"cmp"
	"time"

	"rlminit/control"
	"rlminit/supervise/order"
	"rlminit/supervise/verdict"
)

// judge tells hooks and readers of events that a unit came to be ill, or well again, or
// that it restarts again and again. A unit that is pending is neither: it stays as it was
// told. Nothing is told before the boot has found every service, for until then services
// wait for others that are yet to be registered.
func (r *Records) judge(u *unit) {
	if u.life.Node() == order.None || !r.fleet.set.Booted() || r.fleet.set.Stopping() {
		return
	}
	now := boottime()
	is, code := u.life.Verdict(now)
	was, told := u.kept.told, u.kept.told
	told.Flapping = verdict.IsFlapping(u.state, now)
	switch is {
	case verdict.Ill:
		told.Ill = true
	case verdict.OK, verdict.Off:
		told.Ill = false
	}
	if told == was {
		return
	}
	u.kept.told = told
	r.keepState(u)
	cause := u.life.Condition()
	switch {
	case told.Ill && !was.Ill:
		r.tellVerdict(u, control.ToIll, cmp.Or(u.fault, cause))
	case was.Ill && !told.Ill:
		r.tellVerdict(u, control.ToWell, cause)
	}
	if told.Flapping && !was.Flapping {
		r.tellVerdict(u, control.ToFlapping, "three restarts within ten minutes that nobody asked for; it is "+cause+" ("+string(code)+")")
	}
	r.publishStatus(u)
}

// tellVerdict publishes one event about a unit's verdict.
func (r *Records) tellVerdict(u *unit, to, cause string) {
	event := control.Event{Service: u.name, Profile: u.definition.Profile, At: time.Now(), From: u.state.Public(), To: to, Cause: cause}
	if pid := u.state.PID; u.state.Alive() {
		event.PID = &pid
	}
	r.volume.Journal.Note(r.events.Publish(event))
}

// judgeAll is judge for every unit.
func (r *Records) judgeAll() {
	for _, u := range r.fleet.all() {
		r.judge(u)
	}
}
