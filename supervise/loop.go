package supervise

import (
	"errors"
	"syscall"

	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/wire"
)

// run is the loop, which owns every unit. It ends when PID 1 is gone, and never waits for
// anything but the next thing to do.
func (s *Supervisor) run(gone <-chan error) error {
	for {
		next, _ := s.fleet.set.Next()
		s.fleet.alarm.arm(next, boottime())
		select {
		case f := <-s.loop.letters:
			s.excuse()
			f()
		case <-s.fleet.alarm.clock.C:
			s.excuse()
			s.fleet.alarm.rang()
			s.apply(core.Input{Kind: core.Due})
		case err := <-gone:
			return err
		}
		s.loop.rest()
	}
}

// excuse gives everybody the time back in which nobody ran, before anything else
// of that time is heard.
func (s *Supervisor) excuse() {
	if lost := s.fleet.alarm.lost(boottime()); lost != 0 {
		s.apply(core.Input{Kind: core.Lost, Event: machine.Event{Within: lost}})
	}
}

// hear takes a message of tier 1 to whom it concerns.
func (s *Supervisor) hear(m wire.Message, fds []int) {
	wire.CloseAll(fds)
	switch m.(type) {
	case *wire.Ping, *wire.Shutdown, *wire.Reload:
	default:
		if !s.succession.restored {
			s.succession.early = append(s.succession.early, m)
			return
		}
	}
	if s.tier1.hearOwned(m) {
		return
	}
	switch m := m.(type) {
	case *wire.Spawned:
		s.launcher.about(m.ID, machine.Event{Kind: machine.Spawned, PID: int(m.PID), StartTime: m.StartTime})
	case *wire.SpawnFailed:
		s.launcher.spawnFailed(m)
	case *wire.SpawnStuck:
		s.launcher.about(m.ID, machine.Event{Kind: machine.SpawnStuck, Reason: "its working directory or program lies on a file system that does not answer"})
	case *wire.Exited:
		event := exitEvent(machine.ExitedEvent, m.Exit)
		s.launcher.memoryOf(s.fleet.ofSpawn(m.ID), m.Exit, &event)
		s.launcher.about(m.ID, event)
	case *wire.Signalled:
		if m.Scope == wire.ScopeLeftover {
			s.launcher.about(m.ID, machine.Event{Kind: machine.Swept, Remaining: int(m.Count)})
		}
	case *wire.Ping:
		s.tier1.pinged(m)
	case *wire.Shutdown:
		if s.ending.awaited = m.Deadline; s.succession.restored {
			s.ending.beginShutdown()
		}
	case *wire.Reload:
		go s.registry.ReloadAndSay()
	}
}

// notified takes to the core what a service has said of itself, and returns when what
// follows is decided. Its secrets are shown to nobody.
func (s *Supervisor) notified(in core.Input) {
	s.loop.ask(func() {
		u := s.fleet.byNode[in.Node]
		for i, e := range in.Events {
			if e.Kind == machine.StatusText && u != nil {
				in.Events[i].Reason = u.process.secrets.Text(e.Reason)
			}
		}
		s.apply(in)
	})
}

// unsent answers a spawn that could not even be asked for: too large, say.
func (s *Supervisor) unsent(m wire.Message, why error) {
	spawn, ok := m.(*wire.Spawn)
	if !ok {
		return
	}
	failed := &wire.SpawnFailed{ID: spawn.ID, Step: wire.StepMessage, Reason: why.Error()}
	if errno, ok := errors.AsType[syscall.Errno](why); ok {
		failed.Step, failed.Errno = wire.StepDescriptors, int32(errno)
	}
	s.loop.do(func() { s.hear(failed, nil) })
}

// exitEvent is an exit as the machine takes it.
func exitEvent(kind machine.EventKind, e wire.Exit) machine.Event {
	event := machine.Event{Kind: kind, Leftovers: int(e.Leftovers)}
	if e.Signal != 0 {
		event.Signal = syscall.Signal(e.Signal)
	} else {
		event.Code = int(e.Code)
	}
	return event
}
