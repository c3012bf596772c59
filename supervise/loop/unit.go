package loop

import (
	"cmp"

	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/supervise/serve"
)

// unit is one supervised service. Only the loop changes it.
type unit struct {
	name        string
	definition  *service.Definition
	starts      service.Start // of definition: the fields that act at the start
	fingerprint string        // of the service.yaml that definition was decoded from
	ours        bool          // its definition is ours, so it may grant what only configuration grants
	recorded    bool          // the configuration or the volume has it; false: put into the service directory by hand
	shadowed    bool          // a service of the configuration has its profile's name, which means that one
	forgotten   bool          // its profile is being deleted: nothing is recorded of it any more
	tag         uint32        // of its processes; 0: it has had none yet
	fault       string        // why there is no usable definition; "" if there is one. The registry's word

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
// of one that has failed: it keeps no pipe, socket or file open, but for the page's socket.
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

// published makes a transition known: on tmpfs, on the volume, in the log, and to
// readers of events.
func (l *Loop) published(u *unit, e *core.Effect) {
	before, state := e.Before, e.After
	l.logging.mark(u, before, state)
	l.Records.tell(u, before, state)
	if endedBy(before, state) && state.LastExit.Memory != "" {
		l.Records.volume.Journal.OOMSeen(u.name, state.LastExit.Memory)
	}
	was, is := before.Public(), state.Public()
	if was != is || before.Health != state.Health {
		l.Records.recordSeen(u)
	}
	if e.Remembered {
		l.Records.publishStatus(u)
	}
	l.Records.happened(u, was, before, state)
	l.Records.judge(u)
	if was != is {
		l.ending.outlived(u)
	}
	if state.Want == machine.WantDown {
		l.spawner.Abandon(state.ID)
	}
	if state.Phase == machine.Failed && before.Phase != machine.Failed {
		l.logging.quote(u)
	}
	if u.rests() && !l.fleet.set.Stopping() {
		if !l.prep.IsPage(u.definition) { // of which the address is held while it is stopped too
			l.opened.Close(e.Node)
		}
		if u.state.Phase != machine.Failed { // of that the end is quoted first
			l.logging.rest(u)
		}
	}
	if state.Phase == machine.Gone {
		l.fleet.remove(u, e.Node)
		l.probes.Forget(e.Node)
		l.opened.Close(e.Node)
		l.Services.forget(u)
	}
}

// older says why u's process is older than its definition; "" if it is not.
func (u *unit) older() string {
	if !u.active() {
		return ""
	}
	return u.kept.started.Older(u.state.ID, u.starts)
}

// view is u as others than the loop read it; nil: there is no u.
func (u *unit) view() *serve.View {
	if u == nil {
		return nil
	}
	at := boottime()
	judged, code := u.life.Verdict(at)
	return &serve.View{
		Name: u.name, Title: u.title(), Definition: u.definition, Fault: u.fault, Ours: u.ours, Shadowed: u.shadowed, Life: u.life,
		State: *u.state, At: at, Verdict: judged, Code: code, Desired: u.desired(), Wanted: u.wanted(), Older: u.older(), Started: u.kept.started,
		Tag: u.tag, UID: u.process.uid, Secrets: &u.process.secrets, Logged: u.output.slot != nil, Written: u.output.stats(), Unsent: u.output.left(), Lines: u.output.lines,
	}
}
