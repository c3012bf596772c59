package core

import (
	"slices"

	"rlminit/supervise/order"
)

// naming has the holder of each name, and the service that a definition means by one.
type naming struct {
	set *Set

	nodes   map[string]order.Node // of services, and of names that definitions refer to
	names   []string              // Invariant: nodes[names[n]] is n, of a node in use
	aliases map[string]*Life      // by their other names
}

// node is that of a name, whichever service has it.
func (s *naming) node(name string) order.Node {
	n, ok := s.nodes[name]
	if !ok {
		n = s.set.order.Add()
		if int(n) == len(s.names) {
			s.names, s.set.lives = append(s.names, ""), append(s.set.lives, nil)
		}
		s.nodes[name], s.names[n] = n, name
	}
	return n
}

// drop forgets a node that nobody has and nobody refers to.
func (s *naming) drop(n order.Node) {
	if s.names[n] != "" && s.set.lives[n] == nil && len(s.set.order.Dependents(n)) == 0 && s.set.order.Fact(n).Turn == order.NoTurn {
		delete(s.nodes, s.names[n])
		s.names[n] = ""
		s.set.order.Drop(n)
	}
}

// meant is the node that a definition means by name: that of the service which has it,
// or else of the one which has it as its alias.
func (s *naming) meant(name string) order.Node {
	if s.set.Find(name) == nil {
		if l := s.aliases[name]; l != nil {
			return l.node
		}
	}
	return s.node(name)
}

// define makes the input's service, with its edges.
func (s *naming) define() {
	in := &s.set.input
	if s.set.Find(in.Name) != nil || in.Definition == nil {
		return
	}
	l := &Life{node: s.node(in.Name), name: in.Name, alias: in.Alias, definition: in.Definition}
	l.deadline = deadline{place: -1, life: l}
	l.wants = in.Wants
	s.set.lives[l.node] = l
	if l.alias != "" {
		s.aliases[l.alias] = l
	}
	if in.State != nil {
		s.set.lastID = max(s.set.lastID, in.State.LastID)
		s.set.replace(l, *in.State)
	}
	l.turn = s.set.order.Fact(l.node).Turn
	s.link(l)
	s.relink(l)
	s.set.observe(l)
}

// forget takes a life away that is gone, with its edges.
func (s *naming) forget(l *Life) {
	n := l.node
	s.set.lives[n] = nil
	if s.aliases[l.alias] == l {
		delete(s.aliases, l.alias)
	}
	s.set.order.Withdraw(n)
	s.set.order.Observe(n, order.Fact{Phase: order.Absent})
	referred := s.set.order.Edges(n)
	s.set.order.Link(n, nil)
	s.relink(l)
	s.drop(n)
	for _, e := range referred {
		s.drop(e.To)
	}
	l.node, l.turn, l.command, l.stuck = order.None, order.NoTurn, nil, false
}

// link gives a life's edges to the graph.
func (s *naming) link(l *Life) {
	var edges []order.Edge
	was := s.set.order.Edges(l.node)
	d := l.definition
	for kind, names := range [...][]string{order.Requires: d.Requires, order.Wants: d.Wants, order.After: d.After} {
		for _, name := range names {
			to := s.meant(name)
			if s.set.lives[to] == nil {
				s.set.outbox.effect(Effect{Kind: Absent, Node: order.None, Name: name})
			}
			if to != l.node {
				edges = append(edges, order.Edge{To: to, Kind: order.Kind(kind)})
			}
		}
	}
	s.set.touched++
	s.set.order.Link(l.node, edges)
	for _, e := range was {
		s.drop(e.To)
	}
}

// Named is the service that a person means by a name: that which has it, or else that
// which has it for its other one; nil: there is none.
func (s *Set) Named(name string) *Life {
	if l := s.Find(name); l != nil {
		return l
	}
	return s.naming.aliases[name]
}

// relink has those that may mean l by its name, or by its alias, find out anew whom
// they mean.
func (s *naming) relink(l *Life) {
	names := []string{l.alias, l.name}
	if other := s.aliases[l.name]; other != nil {
		names = append(names, other.name)
	}
	for _, name := range names {
		n, ok := s.nodes[name]
		if !ok {
			continue
		}
		for _, d := range slices.Clone(s.set.order.Dependents(n)) {
			if other := s.set.lives[d]; other != nil && other != l {
				s.link(other)
			}
		}
	}
}

// announce gives names that nobody has a turn to start.
func (s *naming) announce() {
	for _, name := range s.set.input.Names {
		if n := s.node(name); s.set.lives[n] == nil && !s.set.stopping {
			s.set.order.Command(order.Start, []order.Node{n}, nil)
		}
	}
}

func (s *naming) unannounce() {
	for _, name := range s.set.input.Names {
		if n, ok := s.nodes[name]; ok && s.set.lives[n] == nil {
			s.set.order.Withdraw(n)
			s.drop(n)
		}
	}
}
