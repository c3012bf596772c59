package supervise

import (
	"context"
	"log/slog"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
	"rlminit/supervise/registry"
	"rlminit/wire"
)

// services is the supervisor as its registry knows it: registry.Services.
type services struct{ *Supervisor }

// Define takes a proposal into force: a new unit, or an update of one.
func (s services) Define(p registry.Proposal) {
	s.ask(func() { s.define(p) })
}

func (s *Supervisor) define(p registry.Proposal) *unit {
	u := s.units[p.Name]
	if u == nil {
		u = s.newUnit(p)
	} else {
		s.redefine(u, p)
	}
	s.records.keepState(u)
	s.records.publishStatus(u)
	return u
}

// newUnit registers a service that is stopped, and starts it if that is wanted.
func (s *Supervisor) newUnit(p registry.Proposal) *unit {
	u := s.bare(p)
	if u.desired == service.IntentNone {
		u.desired = intentOf(p.Start)
	}
	u.seen = u.state.Public()
	_ = s.launcher.allotTag(u) // without one it is tried again at each start
	if p.Fault != "" {
		slog.Error("a service cannot be run", "service", p.Name, "err", p.Fault)
	}
	// What the container is for is started once a boot, whatever is recorded of it.
	purposed := s.purpose.isFor(p.Name) && !s.work.Done(handover.Fulfilled)
	if purposed {
		u.desired = service.Running
	}
	if p.Fault == "" && (p.Start || purposed) && !s.stopping {
		s.start(u, machine.Event{Cause: p.Cause, Actor: p.Actor})
	} else {
		s.order.set.Withdraw(u.node) // it may have been announced
		s.follow()
	}
	return u
}

// bare makes a unit from a proposal, without a state or a process.
func (s *Supervisor) bare(p registry.Proposal) *unit {
	u := &unit{
		name: p.Name, fingerprint: p.Fingerprint, ours: p.Ours, recorded: p.Recorded, fault: p.Fault, desired: p.Desired,
		probes: probes{running: map[machine.Probe]context.CancelFunc{}},
		timer:  timerSlot{index: -1},
		marks:  map[uint64]chan struct{}{},
	}
	u.definition = service.Default(p.Name)
	u.definition.Profile = p.Profile
	if p.Fault == "" {
		u.definition = p.Value
	}
	u.uid, _ = s.recordedUser(u.definition)
	u.policy = machine.PolicyOf(u.definition)
	s.units[p.Name] = u
	s.tie(u)
	s.jobs.reschedule(u)
	return u
}

// redefine brings a changed definition into force, and restarts what runs if it
// cannot follow.
func (s *Supervisor) redefine(u *unit, p registry.Proposal) {
	u.ours = p.Ours
	u.recorded = u.recorded || p.Recorded
	if p.Fault != "" {
		if u.fault != p.Fault {
			slog.Error("a changed definition is refused; the one before stays in force", "service", u.name, "err", p.Fault)
		}
		u.fault = p.Fault
		return
	}
	wasBroken := u.fault != ""
	u.fault = ""
	if u.fingerprint == p.Fingerprint && !wasBroken {
		return
	}
	restart, why := service.NeedsRestart(u.definition, p.Value)
	if !restart {
		why = ""
	}
	u.outdated = u.outdated.redefined(u.state.ID, u.fingerprint, p.Fingerprint, why)
	s.jobs.reschedule(u)
	u.definition, u.fingerprint = p.Value, p.Fingerprint
	s.jobs.reschedule(u)
	u.policy = machine.PolicyOf(p.Value)
	s.linkUp(u)
	s.descriptors.closeSockets(u, p.Value.Sockets)
	if u.log != nil {
		s.reconfigureLog(u)
	}
	s.observe(u) // its policy may be another
	s.follow()
	update := machine.Event{Kind: machine.Update, NeedsRestart: restart && !p.Later, Cause: "definition changed: " + why, Actor: p.Actor}
	switch {
	case u.turn.Stops(): // what runs ends anyway
		update.NeedsRestart = false
		s.step(u, update)
	case restart && !p.Later && u.active() && u.state.Want == machine.WantUp && !u.state.Removed:
		s.command(order.Restart, []*unit{u}, nil, func(*unit) machine.Event { return update })
	default:
		s.step(u, update)
	}
	if wasBroken && p.Start && !s.stopping {
		s.start(u, machine.Event{Cause: "its definition was mended"})
	}
}

// Remove stops a service for good. Of one that is forgotten nothing is recorded
// any more.
func (s services) Remove(name, cause string, actor *uint32, forgotten bool) {
	s.ask(func() {
		u := s.units[name]
		if u == nil {
			s.registry.Gone(name, nil)
			return
		}
		u.forgotten = forgotten
		s.remove(u, cause, actor)
	})
}

// Renew has what runs make way for what the proposal says: its directory was
// removed by hand, and it belongs to the one before.
func (s services) Renew(p registry.Proposal) {
	s.ask(func() {
		u := s.units[p.Name]
		if u == nil {
			return
		}
		u.desired = p.Desired
		s.records.keepState(u)
		e, turn := machine.Event{Kind: machine.Stop, Cause: p.Cause, Actor: p.Actor}, order.Stop
		if p.Start {
			e.Kind, turn = machine.Restart, order.Restart
		}
		s.command(turn, []*unit{u}, nil, func(*unit) machine.Event { return e })
	})
}

// Alive is every service of which a process may exist.
func (s services) Alive() map[string]bool {
	alive := map[string]bool{}
	s.ask(func() {
		for name, u := range s.units {
			alive[name] = u.active()
		}
	})
	return alive
}

// Status is a service as status shows it.
func (s services) Status(name string) (st control.Service, ok bool) {
	s.ask(func() {
		if u := s.units[name]; u != nil {
			st, ok = u.status(), true
		}
	})
	return st, ok
}

// Plan says what an update to a definition would do to a service.
func (s services) Plan(name string, to service.Definition) (c control.Change) {
	s.ask(func() {
		if u := s.units[name]; u != nil {
			c = registry.PlanUpdate(name, u.definition, to, u.active())
		} else {
			c = control.Change{Service: name, Action: "add", Why: "its definition is new"}
		}
	})
	return c
}

// Recorded has what is seen of a service written to the volume again.
func (s services) Recorded(name string) {
	s.ask(func() {
		if u := s.units[name]; u != nil {
			s.records.recordSeen(u)
		}
	})
}

// Find is the service that a person means by name.
func (s services) Find(name string) (string, error) {
	u, err := s.directory.lookUp(name)
	if err != nil {
		return "", err
	}
	return u.name, nil
}

// Await is the outcome of what was just defined: at once without wait, else when
// it is known, and files show it.
func (s services) Await(ctx context.Context, name string, changed bool, wait *control.Wait) (outcome control.Outcome) {
	var u *unit
	var w *waiter
	s.ask(func() {
		if u = s.units[name]; u == nil {
			outcome.Problem = control.NewProblem(control.KindNoSuchName, name+" was removed")
			return
		}
		if wait == nil {
			outcome = control.Outcome{Service: u.status(), Changed: changed}
			return
		}
		over := started
		if u.desired != service.Running {
			over = func(*unit) (bool, *control.Problem) { return true, nil }
		}
		w = u.waiters.add(u, changed, over)
	})
	if w != nil {
		outcome = s.commands.await(ctx, u, w, wait)
		s.records.written(flushPatience)
	}
	return outcome
}

// remove stops a unit for good: its definition is gone.
func (s *Supervisor) remove(u *unit, cause string, actor *uint32) {
	e := machine.Event{Kind: machine.Remove, Cause: cause, Actor: actor}
	s.command(order.Remove, []*unit{u}, nil, func(*unit) machine.Event { return e })
}

// forget lets go of a unit that is gone, and of all that was kept for it.
func (s *Supervisor) forget(u *unit) {
	if s.units[u.name] != u {
		return
	}
	delete(s.units, u.name)
	s.jobs.reschedule(u)
	s.tags.Free(u.tag)
	s.untie(u)
	s.timers.set(u, 0)
	s.descriptors.closeSockets(u, nil)
	s.descriptors.closeNotify(u)
	var closed <-chan struct{}
	if u.log != nil {
		u.log.Close()
		closed = u.log.Closed()
		s.link.Send(&wire.Release{Key: logKey(u.name)}, nil, nil)
	}
	s.registry.Gone(u.name, closed)
}

func intentOf(start bool) service.Intent {
	if start {
		return service.Running
	}
	return service.Stopped
}
