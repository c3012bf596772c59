package supervise

import (
	"errors"
	"syscall"

	"rlminit/supervise/machine"
	"rlminit/supervise/process"
	"rlminit/wire"
)

// run is the loop, which owns every unit. It ends when PID 1 is gone, and never waits for
// anything but the next thing to do.
func (s *Supervisor) run(gone <-chan error) error {
	for {
		s.timers.arm(boottime())
		select {
		case f := <-s.letters:
			s.excuse()
			f()
		case <-s.timers.clock.C:
			s.excuse()
			s.timers.rang()
			s.fire()
		case err := <-gone:
			return err
		}
		s.rest()
	}
}

// excuse gives everybody the time back in which nobody ran, before anything else
// of that time is heard.
func (s *Supervisor) excuse() {
	lost := s.timers.lost(boottime())
	if lost == 0 {
		return
	}
	for _, u := range s.timers.running() {
		s.step(u, machine.Event{Kind: machine.Stalled, Within: lost})
	}
}

// fire delivers every timer that is due.
func (s *Supervisor) fire() {
	for now := boottime(); ; {
		u := s.timers.due(now)
		if u == nil {
			return
		}
		s.step(u, machine.Event{Kind: machine.TimerFired, Generation: u.timer.generation})
	}
}

// hear takes a message of tier 1 to whom it concerns.
func (s *Supervisor) hear(m wire.Message, fds []int) {
	wire.CloseAll(fds)
	switch m.(type) {
	case *wire.Ping, *wire.Shutdown, *wire.Reload:
	default:
		if !s.restored {
			s.early = append(s.early, m)
			return
		}
	}
	if s.hearOwned(m) {
		return
	}
	switch m := m.(type) {
	case *wire.Spawned:
		s.about(m.ID, machine.Event{Kind: machine.Spawned, PID: int(m.PID), StartTime: m.StartTime})
	case *wire.SpawnFailed:
		s.spawnFailed(m)
	case *wire.SpawnStuck:
		s.about(m.ID, machine.Event{Kind: machine.SpawnStuck, Reason: "its working directory or program lies on a file system that does not answer"})
	case *wire.Exited:
		event := exitEvent(machine.ExitedEvent, m.Exit)
		s.memoryOf(s.byID[m.ID], m.Exit, &event)
		s.about(m.ID, event)
	case *wire.Signalled:
		if m.Scope == wire.ScopeLeftover {
			s.about(m.ID, machine.Event{Kind: machine.Swept, Remaining: int(m.Count)})
		}
	case *wire.Ping:
		s.pinged(m)
	case *wire.Shutdown:
		if s.awaited = m.Deadline; s.restored {
			s.beginShutdown()
		}
	case *wire.Reload:
		go s.registry.ReloadAndSay()
	}
}

// catchUp hears what tier 1 has said since its snapshot, now that every unit
// knows its processes: an exit that nobody knows of would be acknowledged, and
// its service be taken for alive.
func (s *Supervisor) catchUp() {
	s.restored = true
	early := s.early
	s.early = nil
	for _, m := range early {
		s.hear(m, nil)
	}
}

// about steps the unit of a spawn. An exit that no unit knows of is
// acknowledged, or tier 1 would keep it for ever.
func (s *Supervisor) about(id uint64, e machine.Event) {
	e.ID = id
	u := s.byID[id]
	if u == nil {
		s.dismissing(id, e)
		if e.Kind == machine.ExitedEvent {
			s.link.Send(&wire.Acknowledge{ID: id}, nil, nil)
		}
		return
	}
	s.step(u, e)
}

// spawnFailed finds out why, which may mean to read the program's file, and
// tells whom it concerns.
func (s *Supervisor) spawnFailed(m *wire.SpawnFailed) {
	u := s.byID[m.ID]
	if u == nil {
		s.about(m.ID, machine.Event{Kind: machine.SpawnFailed, Reason: "cannot be started"})
		s.link.Send(&wire.Acknowledge{ID: m.ID}, nil, nil)
		return
	}
	command, program, dir := u.definition.Command, u.program, u.definition.WorkingDir
	definition := u.definition
	go func() {
		_, user := s.recordedUser(definition)
		reason, retry := process.ExplainSpawn(user, command, program, dir, m)
		s.do(func() {
			if m.Step == wire.StepExec {
				u.unrunnable = process.Unrunnable(syscall.Errno(m.Errno))
			}
			s.about(m.ID, machine.Event{Kind: machine.SpawnFailed, Reason: reason, Temporary: retry})
			delete(s.byID, m.ID)
			s.link.Send(&wire.Acknowledge{ID: m.ID}, nil, nil)
		})
	}()
}

// memoryOf adds to an exit what is known of memory, if it was killed by KILL: by
// its own cgroup, where it has one, and else by the container's.
func (s *Supervisor) memoryOf(u *unit, e wire.Exit, event *machine.Event) {
	const killedInShell = 128 + int(syscall.SIGKILL)
	memory := s.memory.Struck()
	if event.Signal != syscall.SIGKILL && event.Code != killedInShell {
		return
	}
	switch {
	case e.OutOfMemory && u != nil:
		memory = s.memory.Certain(u.definition.Limits.Memory)
	case s.leaves.Enforces("memory"):
		memory = ""
	}
	if event.Memory = memory; u != nil && memory != "" {
		s.records.chronicle.oomSeen(u.name, memory)
	}
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
	s.do(func() { s.hear(failed, nil) })
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
