package supervise

import (
	"cmp"
	"time"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
)

// unit is one supervised service. Only the loop changes it.
type unit struct {
	name        string
	definition  *service.Definition
	fingerprint string // of the service.yaml that definition was decoded from
	ours        bool   // its definition is ours, so it may grant what only configuration grants
	recorded    bool   // the configuration or the volume has it; false: put into the service directory by hand
	shadowed    bool   // a service of the configuration has its profile's name, which means that one
	forgotten   bool   // its profile is being deleted: nothing is recorded of it any more
	tag         uint32 // of its processes; 0: it has had none yet
	fault       string // why there is no usable definition; "" if there is one. The registry's word

	life  *core.Life
	state *machine.State // life's; the core alone changes it

	// What each part has of it.
	process launched
	output  output // logging
	kept    kept   // records
}

func byName(a, b *unit) int { return cmp.Compare(a.name, b.name) }

// title is how a person names the unit: a gateway by its profile, unless that name
// means a service.
func (u *unit) title() string {
	if u.definition.Profile != "" && !u.shadowed {
		return u.definition.Profile
	}
	return u.name
}

// onlyScheduled tells whether nothing that is wanted of u outlives the container: it
// is a service that its schedule runs. Of a profile that is part of what it is.
func (u *unit) onlyScheduled() bool {
	return u.definition.Schedule != nil && u.definition.Profile == ""
}

// policy is what of u's definition decides its lifecycle.
func (u *unit) policy() machine.Policy { return machine.PolicyOf(u.definition) }

// active tells whether a process of u may exist, or is about to.
func (u *unit) active() bool { return core.Active(u.state) }

// rests tells whether u has no process and comes by none without a command or the retry
// of one that has failed: it keeps no pipe, socket or file open.
func (u *unit) rests() bool {
	switch u.state.Phase {
	case machine.Stopped, machine.Exited, machine.Failed:
		return u.state.ID == 0
	}
	return false
}

// wanted tells whether u is to run, after a stop that has yet to begin too.
func (u *unit) wanted() bool { return u.life.Wanted() }

// desired is what is wanted of u. Invariant: never IntentNone once it is adopted or
// started.
func (u *unit) desired() service.Intent { return u.life.Wants().Desired }

// pid is that of u's process; 0: there is none.
func (u *unit) pid() int {
	if u.state.Alive() {
		return u.state.PID
	}
	return 0
}

// published makes a transition known: on tmpfs, on the volume, in the log, and to
// readers of events.
func (s *Supervisor) published(u *unit, e *core.Effect) {
	before, state := e.Before, e.After
	s.logging.mark(u, before, state)
	s.records.tell(u, before, state)
	if endedBy(before, state) && state.LastExit.Memory != "" {
		s.records.volume.Journal.OOMSeen(u.name, state.LastExit.Memory)
	}
	was, is := before.Public(), state.Public()
	if was != is || before.Health != state.Health {
		s.records.recordSeen(u)
	}
	if e.Remembered {
		s.records.publishStatus(u)
	}
	s.records.happened(u, was, before, state)
	if was != is {
		s.purpose.outlived(u)
	}
	if state.Want == machine.WantDown {
		s.spawner.Abandon(state.ID)
	}
	if state.Phase == machine.Failed && before.Phase != machine.Failed {
		s.logging.quote(u)
	}
	if u.rests() && !s.fleet.set.Stopping() {
		s.opened.Close(e.Node)
		if u.state.Phase != machine.Failed { // of that the end is quoted first
			s.logging.rest(u)
		}
	}
	if state.Phase == machine.Gone {
		s.fleet.remove(u, e.Node)
		s.probes.Forget(e.Node)
		s.opened.Close(e.Node)
		s.services.forget(u)
	}
}

// status is u as status shows it: a copy, for others than the loop read it.
func (u *unit) status() control.Service { return u.statusAt(boottime()) }

// statusAt is status for who asks many units at one time.
func (u *unit) statusAt(boottime int64) control.Service {
	st := control.Service{
		Name: u.name, Type: string(u.definition.Type), State: u.state.Public(),
		Desired: string(u.desired()), Restarts: u.state.Restarts,
	}
	if profile := u.definition.Profile; profile != "" {
		st.Profile = &profile
	}
	if port := u.definition.Port; port != 0 {
		st.Port = &port
	}
	if uid := u.process.uid; uid != 0 {
		st.UID = &uid
	}
	if u.state.Since != 0 {
		since := time.Unix(0, u.state.Since).UTC()
		st.Since = &since
	}
	if u.state.Alive() {
		pid := u.state.PID
		st.PID = &pid
		uptime := max(0, float64(boottime-u.state.StartedAt)/1e9)
		st.UptimeS = &uptime
		if u.policy().Ready != machine.ReadyAtOnce {
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
	st.LogLostBytes = u.output.stats().LostBytes
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
		st.LastLines = u.output.lines
	}
	return st
}

// worthTelling is how long a run that is well tells of the one before it, at
// least: for somebody who comes to see what has happened.
const worthTelling = 10 * time.Minute

// lastWords is how the run before the current one ended, as long as that may
// happen again, or is news: an immediate restart would hide it.
func (u *unit) lastWords() string {
	long := int64(max(u.policy().ResetAfter, worthTelling))
	if u.state.LastWords == "" || !u.active() || u.state.Phase == machine.Running && boottime()-u.state.ReadyAt >= long {
		return ""
	}
	return "before: " + u.state.LastWords
}

// plight is a state in words, for what waits on u.
func (u *unit) plight() string { return u.life.Plight() }
