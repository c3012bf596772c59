package supervise

import (
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
)

// follow does what follows from all that was told.
func (s *Supervisor) follow() {
	if s.order.held > 0 {
		return
	}
	s.order.held++ // what is done leads to more being told, and is done here in its turn
	defer func() { s.order.held-- }()
	for {
		a, more := s.order.set.Next()
		if !more {
			return
		}
		u := s.order.units[a.Node]
		switch {
		case u == nil:
		case a.Turn == order.NoTurn:
			s.hold(u, a.Decision)
		default:
			e := u.command
			u.turn, u.command = order.NoTurn, machine.Event{}
			if e.Kind == machine.Start && s.stopping {
				continue
			}
			s.step(u, e)
		}
	}
}

// hold tells u what keeps it from starting, or that nothing does.
func (s *Supervisor) hold(u *unit, d order.Decision) {
	reason := s.reason(u, d)
	stuck := d.Held == order.Stuck
	changed := stuck != u.stuck
	u.stuck = stuck
	switch {
	case reason == u.state.Blocked:
		if changed {
			s.answer(u)
		}
	case reason == "":
		s.step(u, machine.Event{Kind: machine.DependenciesMet})
	default:
		s.step(u, machine.Event{Kind: machine.DependenciesUnmet, Reason: reason})
	}
}

// command gives units a turn, each with the event that it is given then, and what
// goes along a restart.
func (s *Supervisor) command(t order.Turn, units, along []*unit, event func(*unit) machine.Event) {
	events := make(map[*unit]machine.Event, len(units))
	for _, u := range units {
		events[u] = event(u)
	}
	for _, n := range s.order.set.Command(t, nodesOf(units), nodesOf(along)) {
		u := s.order.units[n]
		was := u.turn
		u.turn = s.order.set.Fact(n).Turn
		e, named := events[u]
		switch {
		case u.turn == order.NoTurn:
			u.command = machine.Event{}
		case u.turn == t && named:
			u.command = e
		case u.turn != was: // it goes along
			u.command = event(u)
			u.command.Kind = machine.Restart
			if u.turn == order.Start {
				u.command.Kind = machine.Start
			}
		}
	}
	s.follow()
}

// Announce has names waited for that are yet to be registered, and will be started
// then; Withdraw takes that back from those that were not.
func (s services) Announce(names []string) {
	s.ask(func() {
		for _, name := range names {
			if n := s.order.node(name); s.order.units[n] == nil && !s.stopping {
				s.order.set.Command(order.Start, []order.Node{n}, nil)
			}
		}
		s.follow()
	})
}

// Withdraw is for what was announced, whatever became of it.
func (s services) Withdraw(names []string) {
	s.ask(func() {
		for _, name := range names {
			if n, ok := s.order.nodes[name]; ok && s.order.units[n] == nil {
				s.order.set.Withdraw(n)
				s.order.drop(n)
			}
		}
		s.follow()
	})
}

// Together has what f tells taken for one thing: nothing is decided before its
// end. f runs beside the loop.
func (s services) Together(f func()) {
	s.ask(func() { s.order.held++ })
	f()
	s.ask(func() {
		s.order.held--
		s.follow()
	})
}
