package order

// Set is the services of one supervisor, what is known of each, and what was
// concluded from that. Its owner changes it, and then takes actions from Next
// until there is none; whatever it was told in between counts for the next one.
type Set struct {
	Graph
	facts  []Fact
	told   []Decision // Invariant: of a node that is not dirty, what Decide says; Before may be another that is still leaving
	dirty  []Node     // to be decided anew, the oldest first
	queued []bool     // Invariant: true for what is in dirty, once
	unheld []Node     // who may wait now for another reason; looked at before anybody is decided
	second *Action    // follows on one that Next returned
}

// Action is what the owner is to do to one service: to give it the command of its
// turn, or, with NoTurn, to tell it what holds it now.
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
		s.told = append(s.told, Decision{})
		s.queued = append(s.queued, false)
	}
	s.facts[n] = Fact{}
	s.told[n] = Decision{Edge: Edge{To: None}, Before: None}
	return n
}

// Link gives n these edges.
func (s *Set) Link(n Node, edges []Edge) {
	s.touchNeighbours(n)
	s.Graph.Link(n, edges)
	s.touchNeighbours(n)
	s.touch(n)
}

// Fact is what is known of n.
func (s *Set) Fact(n Node) Fact { return s.facts[n] }

// Told is what was concluded for n.
func (s *Set) Told(n Node) Decision { return s.told[n] }

// Observe takes what was seen of n. Its turn and how it is held are not the
// observer's, and stay.
func (s *Set) Observe(n Node, seen Fact) {
	f := &s.facts[n]
	if f.Phase == seen.Phase && f.Wanted == seen.Wanted {
		return
	}
	f.Phase, f.Wanted = seen.Phase, seen.Wanted
	s.touchNeighbours(n)
	s.touch(n)
}

// StartAlong and StopAlong are the functions of these names, on what is known.
func (s *Set) StartAlong(members []Node) []Node { return StartAlong(&s.Graph, s.facts, members) }

// StopAlong is likewise.
func (s *Set) StopAlong(t Turn, members []Node) []Node {
	return StopAlong(&s.Graph, s.facts, t, members)
}

// Command gives the members a turn, and with it what goes along, as StartAlong or
// StopAlong found it. It returns those whose turn was decided.
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

// Retell has those that depend on n told again what holds them, though nothing
// changed but the words for it.
func (s *Set) Retell(n Node) {
	for _, d := range s.nodes[n].dependents {
		if s.told[d].Edge.To == n {
			s.touch(d)
		}
	}
}

func (s *Set) touch(n Node) {
	if f := s.facts[n]; f.Phase == Waiting && f.Turn == NoTurn {
		s.unheld = append(s.unheld, n)
	}
	if !s.queued[n] {
		s.queued[n] = true
		s.dirty = append(s.dirty, n)
	}
}

// touchNeighbours has those decided anew that a change of n can concern: what
// depends on it, and what waits for it to be gone.
func (s *Set) touchNeighbours(n Node) {
	for _, d := range s.nodes[n].dependents {
		s.touch(d)
	}
	for _, e := range s.nodes[n].edges {
		if s.told[e.To].Before == n { // what waits for another need not look: that one still leaves
			s.touch(e.To)
		}
	}
}

// redraw has those decided anew whose edges a change elsewhere has put on a ring,
// or taken off one.
func (s *Set) redraw() {
	for _, n := range s.refresh() {
		s.touch(n)
		for _, d := range s.nodes[n].dependents {
			s.touch(d)
		}
	}
}

// hold brings up to date how those that wait are held. A change may reach far, and
// nobody is to be decided by what was true before it.
func (s *Set) hold() {
	for len(s.unheld) > 0 {
		n := s.unheld[0]
		s.unheld = s.unheld[1:]
		f := &s.facts[n]
		if f.Phase != Waiting || f.Turn != NoTurn {
			continue
		}
		if held := Weigh(&s.Graph, s.facts, n).Held; held != f.Held {
			f.Held = held
			s.touchNeighbours(n)
		}
	}
	s.unheld = nil
}

// Next is the next thing to do; false: there is nothing. What holds a service is
// told before its command, that nothing does after it: else what is to be stopped
// would be started first, or what is to wait would be started again.
func (s *Set) Next() (Action, bool) {
	if second := s.second; second != nil {
		s.second = nil
		return *second, true
	}
	for s.redraw(); len(s.dirty) > 0; {
		s.hold()
		n := s.dirty[0]
		s.dirty = s.dirty[1:]
		s.queued[n] = false
		was, t := s.told[n], s.facts[n].Turn
		d := Decide(&s.Graph, s.facts, n)
		if d.Go {
			s.setTurn(n, NoTurn)
			d = Weigh(&s.Graph, s.facts, n)
		} else {
			t = NoTurn
		}
		s.told[n] = d
		s.facts[n].Held = d.Held
		tell, give := Action{Node: n, Decision: d}, Action{Node: n, Turn: t, Decision: d}
		switch {
		case t == NoTurn && d == was && d.Held == Free:
		case t == NoTurn: // what holds it may be the same, and be called otherwise now
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
