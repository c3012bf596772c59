package supervise

import (
	"cmp"
	"strings"
	"sync"
	"time"

	"rlminit/control"
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
	definition  *service.Definition
	fingerprint string // of the service.yaml that definition was decoded from
	ours        bool   // its definition is ours, so it may grant what only configuration grants
	recorded    bool   // the configuration or the volume has it; false: put into the service directory by hand
	shadowed    bool   // a service of the configuration has its profile's name, which means that one
	forgotten   bool   // its profile is being deleted: nothing is recorded of it any more
	tag         uint32 // of its processes; 0: it has had none yet
	fault       string // why there is no usable definition; "" if there is one. The registry's word

	state   machine.State
	desired service.Intent // Invariant: never IntentNone once it is adopted or started
	timer   timerSlot
	waiters waiters

	// What each part has of it.
	order   ordered   // fleet
	process launched  // launcher
	probes  probes    // prober
	open    endpoints // descriptors
	output  output    // logging
	kept    kept      // records
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
func (u *unit) active() bool { return active(u.state) }

func active(state machine.State) bool {
	switch state.Phase {
	case machine.Spawning, machine.Parked, machine.Starting, machine.Running, machine.Stopping, machine.Sweeping:
		return true
	}
	return false
}

// wanted tells whether u is to run, after a stop that has yet to begin too.
func (u *unit) wanted() bool {
	return u.state.Want == machine.WantUp && u.order.turn < order.Stop
}

// pid is that of u's process; 0: there is none.
func (u *unit) pid() int {
	if u.state.Alive() {
		return u.state.PID
	}
	return 0
}

// step feeds one event to u's machine, keeps the new state, does what it asks
// for and tells everybody who wants to know.
func (s *Supervisor) step(u *unit, e machine.Event) {
	e.Now = boottime()
	e.Wall = time.Now().UnixNano()
	e.NextID = s.tier1.nextID
	e.Rand = s.random()
	before := u.state
	next, actions := machine.Step(u.state, u.policy(), e)
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
		u.kept.ended = append(u.kept.ended, a.ID)
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
		u.open.formerPID = before.PID
	}
	s.logging.mark(u, before)
	s.records.tell(u, before)
	was, is := u.kept.seen, u.state.Public()
	u.kept.seen = is
	if was != is || before.Health != u.state.Health {
		s.records.recordSeen(u)
	}
	s.records.acknowledge(u)
	if digest(before) != digest(u.state) {
		s.records.publishStatus(u)
	}
	s.records.happened(u, was, before)
	if was != is {
		s.purpose.outlived(u)
	}
	if u.process.launch != nil && u.state.Want == machine.WantDown {
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
		s.fleet.order.set.Retell(u.order.node)
	}
	s.fleet.follow()
	u.waiters.answer(u)
	s.commands.rolls.stir(u)
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

// status is u as status shows it: a copy, for others than the loop read it.
func (u *unit) status() control.Service { return u.statusAt(boottime()) }

// statusAt is status for who asks many units at one time.
func (u *unit) statusAt(boottime int64) control.Service {
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
	if u.output.slot != nil {
		st.LogLostBytes = u.output.slot.Stats().LostBytes
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

// unhealthy tells whether it runs, and its health probe fails.
func (u *unit) unhealthy() bool {
	return u.state.Phase == machine.Running && u.state.Health == machine.Unhealthy
}

// reasonMax bounds a reason within a reason, which has one in it in its turn.
const reasonMax = 200

// plight is a state in words, for what waits on u.
func (u *unit) plight() string {
	state, reason := u.state.Public(), u.state.Reason
	if u.fault != "" && !u.active() {
		state, reason = "failed", u.fault
	}
	if u.unhealthy() {
		state = control.Unhealthy
	}
	if len(reason) > reasonMax {
		reason = strings.ToValidUTF8(reason[:reasonMax], "") + "…"
	}
	if reason != "" && (state == "failed" || state == "waiting") {
		return state + " (" + reason + ")"
	}
	return state
}
