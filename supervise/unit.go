package supervise

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"rlminit/control"
	"rlminit/internal/redact"
	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
	"rlminit/supervise/process"
	"rlminit/wire"
)

// unit is one supervised service. Only the loop touches it, but for commands.
type unit struct {
	commands    sync.Mutex // held by whoever records and gives a command; the rest is the loop's
	name        string
	definition  service.Definition
	fingerprint string // of the service.yaml that definition was decoded from
	ours        bool   // its definition is ours, so it may grant what only configuration grants
	recorded    bool   // the configuration or the volume has it; false: put into the service directory by hand
	forgotten   bool   // its profile is being deleted: nothing is recorded of it any more
	fault       string // why there is no usable definition; "" if there is one. The registry's word

	policy machine.Policy
	state  machine.State
	seen   string // the public state that was published last

	desired service.Intent // Invariant: never IntentNone once it is adopted or started
	changed bool           // desired is newer than the state that a predecessor left
	tag     uint32
	timer   timerSlot
	node    order.Node
	turn    order.Turn    // Invariant: as s.order has it
	command machine.Event // what it is given in its turn
	stuck   bool          // what it waits for will not come up by itself
	waiters waiters
	launch  *launch // a spawn that was not handed to tier 1 yet
	probes  probes

	outdated   outdated                 // what of its run is older than the definition
	unsaved    bool                     // a successor would not know what is true of it
	ended      []uint64                 // exits to be acknowledged once a successor and the log would know of them
	marks      map[uint64]chan struct{} // closed when the log knows of an exit
	program    string                   // what execve(2) was given last
	uid        uint32                   // of its processes, of a profile with its own user; 0: the services' user's
	unrunnable int32                    // exit code of a last start that found no program to execute; 0: another
	secrets    redact.Set               // what of its process's texts is shown to nobody
	lastLine   string                   // what its process wrote last before it ended
	unheard    uint64                   // the run whose last line is still to come; 0: none
	lastLines  []string                 // the end of its log, of a failed service

	log       serviceLog
	formerPID int       // of the run before this one
	open      endpoints // beyond its stdio
}

func byName(a, b *unit) int { return cmp.Compare(a.name, b.name) }

// active tells whether a process of u may exist, or is about to.
func (u *unit) active() bool { return active(u.state) }

func active(state machine.State) bool {
	switch state.Phase {
	case machine.Spawning, machine.Parked, machine.Starting, machine.Running, machine.Stopping, machine.Sweeping:
		return true
	}
	return false
}

// step feeds one event to u's machine, keeps the new state, does what it asks
// for and tells everybody who wants to know.
func (s *Supervisor) step(u *unit, e machine.Event) {
	e.Now = boottime()
	e.Wall = time.Now().UnixNano()
	e.NextID = s.tier1.nextID
	e.Rand = s.random()
	before := u.state
	next, actions := machine.Step(u.state, u.policy, e)
	u.state = next
	if digest(before) != digest(next) {
		s.records.keepState(u)
	}
	for _, a := range actions {
		s.act(u, a)
	}
	s.published(u, before)
}

// act carries out one action.
func (s *Supervisor) act(u *unit, a machine.Action) {
	switch a.Kind {
	case machine.Spawn:
		s.tier1.nextID = max(s.tier1.nextID, a.ID+1)
		s.tier1.byID[a.ID] = u
		s.launcher.beginLaunch(u, a.ID)
	case machine.Signal:
		scope := wire.ScopeGroup
		if a.Scope == machine.ScopeMain {
			scope = wire.ScopeMain
		}
		s.tier1.link.Send(&wire.Signal{ID: a.ID, Signal: int32(a.Signal), Scope: scope}, nil, nil)
	case machine.Sweep:
		s.tier1.link.Send(&wire.Signal{ID: a.ID, Signal: int32(a.Signal), Scope: wire.ScopeLeftover}, nil, nil)
	case machine.Acknowledge:
		delete(s.tier1.byID, a.ID)
		u.ended = append(u.ended, a.ID)
	case machine.Arm:
		u.timer.generation = a.Generation
		s.fleet.timers.set(u, max(a.At, 1))
	case machine.Disarm:
		s.fleet.timers.set(u, 0)
	case machine.StartProbe:
		s.prober.startProbe(u, a)
	case machine.StopProbe:
		s.prober.stopProbe(u, a.Probe)
	}
}

// published makes a transition known: on tmpfs, on the volume, in the log, to
// readers of events, to what depends on u, and to whoever waits.
func (s *Supervisor) published(u *unit, before machine.State) {
	if was, is := active(before), u.active(); was != is {
		if is {
			s.fleet.active++
		} else {
			s.fleet.active--
		}
	}
	if before.PID > 0 && u.state.PID != before.PID {
		u.formerPID = before.PID
	}
	s.logging.mark(u, before)
	s.records.tell(u, before)
	was, is := u.seen, u.state.Public()
	u.seen = is
	if was != is || before.Health != u.state.Health {
		s.records.recordSeen(u)
	}
	s.records.acknowledge(u)
	if digest(before) != digest(u.state) {
		s.records.publishStatus(u)
	}
	if was != is {
		event := control.Event{
			At: time.Unix(0, u.state.Since), Service: u.name, From: was, To: is,
			Cause: cmp.Or(u.state.Cause, u.state.Reason), Actor: u.state.Actor,
		}
		if pid := u.state.PID; pid > 0 && u.state.Alive() {
			event.PID = &pid
		}
		s.records.chronicle.note(s.records.events.publish(event))
		s.purpose.outlived(u)
	}
	if u.launch != nil && u.state.Want == machine.WantDown {
		s.launcher.abandonLaunch(u)
	}
	if u.state.Phase == machine.Failed && before.Phase != machine.Failed {
		s.logging.quote(u)
	}
	if u.state.Want == machine.WantDown && was != is && !u.active() && !s.fleet.stopping {
		s.descriptors.closeSockets(u, nil)
		s.descriptors.dropStored(u, func(process.StoredFile) bool { return true })
	}
	if u.state.Phase == machine.Gone {
		s.services.forget(u)
	}
	s.fleet.observe(u)
	if u.state.Phase == machine.Waiting && before.Reason != u.state.Reason {
		s.fleet.order.set.Retell(u.node)
	}
	s.fleet.follow()
	u.waiters.answer(u)
	s.commands.stirRolls(u)
	s.ending.checkStopped()
}

// digested is what of a state is worth telling a successor and a new status file: not the watchdog's
// last ping, nor a timer that was armed anew.
type digested struct {
	want                           machine.Want
	phase                          machine.Phase
	id                             uint64
	pid, fails, restarts, leftover int
	health                         machine.Health
	reason, text, blocked          string
	again, removed                 bool
	exit                           *machine.Exit
}

func digest(s machine.State) digested {
	return digested{
		s.Want, s.Phase, s.ID, s.PID, s.Fails, s.Restarts, s.Leftovers,
		s.Health, s.Reason, s.Text, s.Blocked, s.Again, s.Removed, s.LastExit,
	}
}

// mark writes into the service's own log what happened to it, after all that
// its process wrote before.
func (l *logging) mark(u *unit, before machine.State) {
	failed := u.state.Phase != before.Phase && (u.state.Phase == machine.Failed || u.state.Phase == machine.Backoff)
	if u.log == nil && failed && l.openLog(u) != nil { // before its first run: a secret that is missing, a directory
		return
	}
	if u.log == nil {
		return
	}
	if u.state.Phase == machine.Stopping && before.Phase != machine.Stopping && u.state.StopBy != machine.StopCommand {
		u.log.Mark(u.state.StopReason)
	}
	if e := u.state.LastExit; e != nil && (before.LastExit == nil || *before.LastExit != *e) {
		marked := make(chan struct{})
		if !e.Lost {
			u.marks[before.ID] = marked
		}
		said := l.lastWords(u, before.ID)
		u.log.MarkExit(before.ID, e.String(), func(last string) {
			close(marked)
			go said(last)
		})
	}
	if failed {
		u.log.Mark(u.state.Public() + ": " + u.state.Reason)
	}
}

// lastWords holds answers that tell of a failure back until it is called with
// what the run said last, which may still be in its pipe, or until that takes
// too long.
func (l *logging) lastWords(u *unit, run uint64) func(last string) {
	u.lastLine, u.unheard = "", run
	said := func(last string) {
		l.loop.do(func() {
			if u.unheard == run {
				u.lastLine, u.unheard = u.secrets.Text(last), 0
				u.waiters.answer(u)
			}
		})
	}
	late := time.AfterFunc(flushPatience, func() { said("") })
	return func(last string) {
		late.Stop()
		said(last)
	}
}

// tell says in our own log what befell u though nobody asked for it.
func (r *records) tell(u *unit, before machine.State) {
	is := u.state
	if is.Phase == before.Phase || r.fleet.stopping {
		return
	}
	level, what, cause := slog.LevelWarn, "", is.Reason
	switch is.Phase {
	case machine.Spawning: // at once, after a run that was healthy
		if is.Restarts > before.Restarts && before.Phase != machine.Backoff {
			what, cause = "a service ended and is started again", before.StopReason
			if e := is.LastExit; before.Phase == machine.Failed {
				what, cause = "a failed service is tried again", before.Reason
			} else if e != nil && (before.LastExit == nil || *before.LastExit != *e) {
				cause = cmp.Or(is.LastWords, e.String())
			}
		}
	case machine.Backoff:
		what = "a service ended and will be started again"
	case machine.Failed:
		level, what = slog.LevelError, "a service failed"
	case machine.Exited:
		if is.Verdict != machine.VerdictSuccess {
			what = "a service ended"
		}
	}
	if what == "" {
		return
	}
	args := []any{"service", u.name}
	if pid := cmp.Or(before.PID, u.formerPID); pid > 0 && before.ID != 0 {
		args = append(args, "pid", pid)
	}
	slog.Log(context.Background(), level, what, append(args, "cause", cause)...)
}

// quote has the end of a failed service's log shown in its status.
func (l *logging) quote(u *unit) {
	slot := u.log
	if slot == nil {
		return
	}
	go func() {
		lines, err := slot.Tail(5, time.Second)
		if err != nil {
			return
		}
		l.loop.do(func() {
			u.lastLines = lines
			for i, line := range lines {
				lines[i] = u.secrets.Text(line)
			}
			l.records.publishStatus(u)
		})
	}()
}

// status is u as status shows it: a copy, for others than the loop read it.
func (u *unit) status() control.Service {
	st := control.Service{
		Name: u.name, Type: string(u.definition.Type), State: u.state.Public(),
		Desired: string(u.desired), Restarts: u.state.Restarts,
	}
	if profile := u.definition.Profile; profile != "" {
		st.Profile = &profile
	}
	if port := u.definition.Port; port != 0 {
		st.Port = &port
	}
	if uid := u.uid; uid != 0 {
		st.UID = &uid
	}
	if u.state.Since != 0 {
		since := time.Unix(0, u.state.Since).UTC()
		st.Since = &since
	}
	if u.state.Alive() {
		pid := u.state.PID
		st.PID = &pid
		uptime := max(0, float64(boottime()-u.state.StartedAt)/1e9)
		st.UptimeS = &uptime
		if u.policy.Ready != machine.ReadyAtOnce {
			ready := u.state.Phase == machine.Running
			st.Ready = &ready
		}
		if u.state.Health != machine.HealthUnknown {
			healthy := u.state.Health == machine.Healthy
			st.Healthy = &healthy
		}
		if text := u.state.Text; text != "" {
			st.StatusText = &text
		}
	}
	if e := u.state.LastExit; e != nil && !e.Lost {
		st.LastExit = &control.Exit{At: time.Unix(0, e.Wall).UTC()}
		if e.Signal != 0 {
			name := service.SignalName(e.Signal)
			st.LastExit.Signal = &name
		} else {
			st.LastExit.Code = &e.Code
		}
	}
	if u.log != nil {
		st.LogLostBytes = u.log.Stats().LostBytes
	}
	reason := cmp.Or(u.fault, u.state.Reason, u.lastWords())
	if st.State == "stopped" {
		reason = u.fault // how its last run ended is in last_exit
	}
	if reason != "" {
		st.Reason = &reason
	}
	if u.fault != "" && !u.active() {
		st.State = "failed"
	}
	if st.State == "failed" && u.fault == "" {
		st.LastLines = u.lastLines
	}
	return st
}

// worthTelling is how long a run that is well tells of the one before it, at
// least: for somebody who comes to see what has happened.
const worthTelling = 10 * time.Minute

// lastWords is how the run before the current one ended, as long as that may
// happen again, or is news: an immediate restart would hide it.
func (u *unit) lastWords() string {
	long := int64(max(u.policy.ResetAfter, worthTelling))
	if u.state.LastWords == "" || !u.active() || u.state.Phase == machine.Running && boottime()-u.state.ReadyAt >= long {
		return ""
	}
	return "before: " + u.state.LastWords
}

// reasonMax bounds a reason within a reason, which has one in it in its turn.
const reasonMax = 200

// plight is a state in words, for what waits on u.
func (u *unit) plight() string {
	state, reason := u.state.Public(), u.state.Reason
	if u.fault != "" && !u.active() {
		state, reason = "failed", u.fault
	}
	if len(reason) > reasonMax {
		reason = strings.ToValidUTF8(reason[:reasonMax], "") + "…"
	}
	if reason != "" && (state == "failed" || state == "waiting") {
		return state + " (" + reason + ")"
	}
	return state
}
