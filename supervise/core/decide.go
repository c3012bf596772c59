package core

import (
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
)

// decide does what follows from all that was told, until nothing does.
func (s *Set) decide() {
	for s.holds == 0 {
		if a, more := s.order.Next(); more {
			s.act(a)
			continue
		}
		if len(s.adopted) == 0 {
			if !s.scheduler.runNext() {
				return
			}
			continue
		}
		l := s.adopted[0]
		if s.adopted = s.adopted[1:]; l.node != order.None {
			s.hold(l, s.order.Decided(l.node))
		}
	}
}

// act carries out what order has decided for one service. What holds it is told before
// it is given a command: the name's former holder may have been told, and not this one.
func (s *Set) act(a order.Action) {
	s.touched++
	l := s.lives[a.Node]
	if l == nil {
		return
	}
	if a.Turn == order.NoTurn || a.Decision.Held != order.Free {
		s.hold(l, a.Decision)
	}
	if e := l.command; a.Turn != order.NoTurn {
		if l.turn, l.command = order.NoTurn, nil; e != nil {
			s.transition(l, *e)
		}
		s.scheduler.recheckAll(l)
	}
}

// hold tells a life what keeps it from starting, or that nothing does.
func (s *Set) hold(l *Life, d order.Decision) {
	reason := s.reason(l, d)
	stuck := d.Held == order.Stuck
	changed := stuck != l.stuck
	l.stuck, l.blocker = stuck, s.blockerOf(d)
	switch {
	case reason == l.state.Blocked:
		if changed {
			is := s.outbox.copy(&l.state)
			s.outbox.effect(Effect{Kind: Changed, Node: l.node, Before: is, After: is})
			s.scheduler.recheckAll(l)
		}
	case reason == "":
		s.transition(l, machine.Event{Kind: machine.DependenciesMet})
	default:
		s.transition(l, machine.Event{Kind: machine.DependenciesUnmet, Reason: reason})
	}
}

// command gives services a turn, each with the event that it is given then, and what
// goes along with a restart or a stop. Once the container ends nothing is started any
// more.
func (s *Set) command(t order.Turn, nodes, along []order.Node, event func(*Life) machine.Event) {
	if s.stopping && (t == order.Start || t == order.Restart) {
		return
	}
	members := make(map[order.Node]bool, len(nodes))
	nodes, along = s.present(nodes), s.present(along)
	for _, n := range nodes {
		members[n] = true
	}
	for _, n := range s.order.Command(t, nodes, along) {
		l := s.lives[n]
		was := l.turn
		if l.turn = s.order.Fact(n).Turn; l.turn != was {
			s.scheduler.recheckAll(l)
		}
		switch {
		case l.turn == order.NoTurn:
			l.command = nil
		case l.turn == t && members[n]:
			e := event(l)
			l.command = &e
		case l.turn != was: // it goes along
			e := event(l)
			e.Kind = machine.Restart
			if l.turn == order.Start {
				e.Kind = machine.Start
			}
			l.command = &e
		}
	}
}

// present are those of nodes that services have.
func (s *Set) present(nodes []order.Node) []order.Node {
	present := make([]order.Node, 0, len(nodes))
	for _, n := range nodes {
		if s.Life(n) != nil {
			present = append(present, n)
		}
	}
	return present
}
