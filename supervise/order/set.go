package order

// Set has the services of one supervisor, the fact of each, and the last decision for
// each. Its caller changes it, and then takes actions from Next until there is none;
// changes in between count for the next action.
type Set struct {
	Graph
	facts   []Fact
	decided []Decision // Invariant: for a node that is not dirty, what Decide says; Before may be another node that is still stopping
	behind  [][]Node   // Invariant: has each node at its Before
	dirty   []Node     // to be decided again, the oldest first
	queued  []bool     // Invariant: true for each node in dirty, which has it once
	reweigh []Node     // services without a process that may be held otherwise now; weighed before the next decision
	second  *Action    // what Next returns next, after an action for the same node
}

// Action is the caller's duty for one service: give it the command of its
// turn, or, with NoTurn, tell it what holds it now.
type Action struct {
	Node     Node
	Turn     Turn
	Decision Decision
}

// Add makes a new node, which is Absent.
func (s *Set) Add() Node {
	n := s.Graph.Add()
	if int(n) == len(s.facts) {
		s.facts = append(s.facts, Fact{})
		s.decided = append(s.decided, Decision{})
		s.queued = append(s.queued, false)
		s.behind = append(s.behind, nil)
	}
	s.facts[n] = Fact{}
	s.decided[n] = Decision{Edge: Edge{To: None}, Before: None}
	return n
}

// Link gives n these edges.
func (s *Set) Link(n Node, edges []Edge) {
	s.touchNeighbours(n)
	s.Graph.Link(n, edges)
	s.touchNeighbours(n)
	s.touch(n)
}

// Fact is the known state of n.
func (s *Set) Fact(n Node) Fact { return s.facts[n] }

// Decided is the last decision for n.
func (s *Set) Decided(n Node) Decision { return s.decided[n] }

// Observe notes the phase of n and whether it is wanted. Its turn and how it is held
// stay.
func (s *Set) Observe(n Node, seen Fact) {
	f := &s.facts[n]
	if f.Phase == seen.Phase && f.Wanted == seen.Wanted {
		return
	}
	f.Phase, f.Wanted = seen.Phase, seen.Wanted
	s.touchNeighbours(n)
	s.touch(n)
}

// StartAlong is the function of that name on the facts of the set.
func (s *Set) StartAlong(members []Node) []Node { return StartAlong(&s.Graph, s.facts, members) }

// StopAlong is the function of that name on the facts of the set.
func (s *Set) StopAlong(t Turn, members []Node) []Node {
	return StopAlong(&s.Graph, s.facts, t, members)
}

// Command gives the members a turn, and the services that go along, which StartAlong or
// StopAlong returned. It returns the services whose turn was decided.
func (s *Set) Command(t Turn, members, along []Node) (turned []Node) {
	Command(&s.Graph, s.facts, t, members, along, func(n Node, t Turn) {
		s.setTurn(n, t)
		turned = append(turned, n)
	})
	return turned
}

// Withdraw takes back the turn of n, whatever it is.
func (s *Set) Withdraw(n Node) { s.setTurn(n, NoTurn) }

func (s *Set) setTurn(n Node, t Turn) {
	if s.facts[n].Turn != t {
		s.facts[n].Turn = t
		s.touchNeighbours(n)
	}
	s.touch(n)
}

// RedecideDependents has the dependents of n told again what holds them, since the
// reason has other words now.
func (s *Set) RedecideDependents(n Node) {
	for _, d := range s.nodes[n].dependents {
		if s.decided[d].Edge.To == n {
			s.touch(d)
		}
	}
}

func (s *Set) touch(n Node) {
	if f := s.facts[n]; !f.uses() && f.Turn == NoTurn {
		s.reweigh = append(s.reweigh, n)
	}
	if !s.queued[n] {
		s.queued[n] = true
		s.dirty = append(s.dirty, n)
	}
}

// touchNeighbours has the services decided again that a change of n can concern: those
// that depend on it, and those that wait for it to stop.
func (s *Set) touchNeighbours(n Node) {
	for _, d := range s.nodes[n].dependents {
		s.touch(d)
	}
	behind := s.behind[n]
	s.behind[n] = nil
	for _, m := range behind {
		if s.decided[m].Before == n { // a service that waits for another one need not look: that one is still stopping
			s.decided[m].Before = None
			s.touch(m)
		}
	}
}

// touchCycles has the services decided again whose edges a change elsewhere has put on
// a cycle, or taken off one, and those that may have waited over an edge that is gone.
func (s *Set) touchCycles() {
	if !s.stale {
		return
	}
	for n, d := range s.decided {
		if d.Before != None {
			s.touch(Node(n))
		}
	}
	for _, n := range s.refresh() {
		s.touch(n)
		for _, d := range s.nodes[n].dependents {
			s.touch(d)
		}
	}
}

// weighWaiting updates how services without a process are held. A change may reach far, and no
// service may be decided by facts from before it.
func (s *Set) weighWaiting() {
	for len(s.reweigh) > 0 {
		n := s.reweigh[0]
		s.reweigh = s.reweigh[1:]
		f := &s.facts[n]
		if f.uses() || f.Turn != NoTurn {
			continue
		}
		if d := weigh(&s.Graph, s.facts, n); d.Held != f.Held || d.Behind != f.Behind {
			f.Held, f.Behind = d.Held, d.Behind
			s.touchNeighbours(n)
		}
	}
	s.reweigh = nil
}

// Next is the next action; false: there is none. What holds a service is told before
// its command, and that nothing holds it after it. Otherwise a service that is to be
// stopped would be started first, or one that must wait would be started again.
func (s *Set) Next() (Action, bool) {
	if second := s.second; second != nil {
		s.second = nil
		return *second, true
	}
	for s.touchCycles(); len(s.dirty) > 0; {
		s.weighWaiting()
		n := s.dirty[0]
		s.dirty = s.dirty[1:]
		s.queued[n] = false
		was, t := s.decided[n], s.facts[n].Turn
		d := Decide(&s.Graph, s.facts, n)
		if d.Go {
			s.setTurn(n, NoTurn)
			d = weigh(&s.Graph, s.facts, n)
		} else {
			t = NoTurn
		}
		s.decided[n], was.Behind = d, d.Behind // a change of Behind alone is told nobody
		if d.Before != None && d.Before != was.Before {
			s.behind[d.Before] = append(s.behind[d.Before], n)
		}
		s.facts[n].Held, s.facts[n].Behind = d.Held, d.Behind
		tell, give := Action{Node: n, Decision: d}, Action{Node: n, Turn: t, Decision: d}
		switch {
		case t == NoTurn && d == was && d.Held == Free:
		case t == NoTurn: // what holds it may be the same with another reason
			return tell, true
		case d == was:
			return give, true
		case d.Held == Free:
			s.second = &tell
			return give, true
		default:
			s.second = &give
			return tell, true
		}
	}
	s.dirty = nil
	return Action{}, false
}
