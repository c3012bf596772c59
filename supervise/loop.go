package supervise

import (
	"log/slog"

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
		var f func()
		select {
		case f = <-s.loop.letters:
		case <-s.fleet.alarm.clock.C:
			f = s.due
		case err := <-gone:
			return err
		}
		s.loop.at.Lock()
		s.giveTimeBack()
		f()
		s.spawner.Turn()
		s.loop.at.Unlock()
	}
}

// due tells the core that the time which was armed has come.
func (s *Supervisor) due() {
	s.fleet.alarm.rings = 0
	s.apply(core.Input{Kind: core.Due})
}

// giveTimeBack gives everybody the time back in which nobody ran, before anything else
// of that time is heard.
func (s *Supervisor) giveTimeBack() {
	if lost := s.fleet.alarm.lost(boottime()); lost != 0 {
		s.apply(core.Input{Kind: core.Lost, Event: machine.Event{Within: lost}})
	}
}

// hear takes a message of tier 1 to whom it concerns.
func (s *Supervisor) hear(m wire.Message, fds []int) {
	wire.CloseAll(fds)
	switch m := m.(type) {
	case *wire.Ping:
		s.pinged(m)
	case *wire.Shutdown:
		if e := s.spawner.Exit(machine.ExitedEvent, wire.Exit{Code: m.Main}, 0); e.Memory != "" {
			s.records.volume.Journal.OOMSeen("main", e.Memory)
			s.records.volume.Journal.Fatal.Store(true)
		}
		if s.shutdown.awaited = m.Deadline; s.takeover.restored {
			s.shutdown.begin()
		}
	case *wire.Reload:
		go s.registry.ReloadAndSay()
	default:
		if !s.takeover.restored {
			s.takeover.early = append(s.takeover.early, m)
			return
		}
		s.spawner.Hear(m)
	}
}

// pinged answers that we are alive, unless that alone is true: one whom nobody can ask for
// anything is to be replaced.
func (s *Supervisor) pinged(m *wire.Ping) {
	if s.unfit != nil {
		if err := s.unfit(); err != nil {
			slog.Error("the supervisor is of no use: PID 1 is to replace it", "err", err)
			return
		}
	}
	s.tier1.Send(&wire.Pong{Seq: m.Seq}, nil, nil)
	s.prep.volume.LookAtLock() // now that we are awake
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
