package core

import (
	"slices"

	"rlminit/supervise/order"
)

// node is that of a name, whoever has it.
func (s *Set) node(name string) order.Node {
	n, ok := s.nodes[name]
	if !ok {
		n = s.order.Add()
		if int(n) == len(s.names) {
			s.names, s.lives = append(s.names, ""), append(s.lives, nil)
		}
		s.nodes[name], s.names[n] = n, name
	}
	return n
}

// drop forgets a node that nobody has and nobody refers to.
func (s *Set) drop(n order.Node) {
	if s.names[n] != "" && s.lives[n] == nil && len(s.order.Dependents(n)) == 0 && s.order.Fact(n).Turn == order.NoTurn {
		delete(s.nodes, s.names[n])
		s.names[n] = ""
		s.order.Drop(n)
	}
}

// meant is the node that a definition means by name: that of the service which has it,
// or else of the one which has it as its alias.
func (s *Set) meant(name string) order.Node {
	if s.Find(name) == nil {
		if l := s.aliases[name]; l != nil {
			return l.node
		}
	}
	return s.node(name)
}

// define makes the input's service, with its edges.
func (s *Set) define() {
	in := &s.input
	if s.Find(in.Name) != nil || in.Definition == nil {
		return
	}
	l := &Life{node: s.node(in.Name), name: in.Name, alias: in.Alias, definition: in.Definition, place: -1}
	s.lives[l.node] = l
	if l.alias != "" {
		s.aliases[l.alias] = l
	}
	if in.State != nil {
		s.replace(l, *in.State)
	}
	l.turn = s.order.Fact(l.node).Turn
	s.link(l)
	s.relink(l)
	s.observe(l)
}

// forget takes a life away that is gone, with its edges.
func (s *Set) forget(l *Life) {
	n := l.node
	s.lives[n] = nil
	if s.aliases[l.alias] == l {
		delete(s.aliases, l.alias)
	}
	s.order.Withdraw(n)
	s.order.Observe(n, order.Fact{Phase: order.Absent})
	referred := s.order.Edges(n)
	s.order.Link(n, nil)
	s.relink(l)
	s.drop(n)
	for _, e := range referred {
		s.drop(e.To)
	}
	l.node, l.turn, l.command, l.stuck = order.None, order.NoTurn, nil, false
}

// link gives a life's edges to the graph.
func (s *Set) link(l *Life) {
	var edges []order.Edge
	was := s.order.Edges(l.node)
	d := l.definition
	for kind, names := range [...][]string{order.Requires: d.Requires, order.Wants: d.Wants, order.After: d.After} {
		for _, name := range names {
			to := s.meant(name)
			if s.lives[to] == nil {
				s.effect(Effect{Kind: Absent, Node: order.None, Name: name})
			}
			if to != l.node {
				edges = append(edges, order.Edge{To: to, Kind: order.Kind(kind)})
			}
		}
	}
	s.touched++
	s.order.Link(l.node, edges)
	for _, e := range was {
		s.drop(e.To)
	}
}

// relink has those that may mean l by its name, or by its alias, find out anew whom
// they mean.
func (s *Set) relink(l *Life) {
	names := []string{l.alias, l.name}
	if other := s.aliases[l.name]; other != nil {
		names = append(names, other.name)
	}
	for _, name := range names {
		n, ok := s.nodes[name]
		if !ok {
			continue
		}
		for _, d := range slices.Clone(s.order.Dependents(n)) {
			if other := s.lives[d]; other != nil && other != l {
				s.link(other)
			}
		}
	}
}

// announce gives names that nobody has a turn to start.
func (s *Set) announce() {
	for _, name := range s.input.Names {
		if n := s.node(name); s.lives[n] == nil && !s.stopping {
			s.order.Command(order.Start, []order.Node{n}, nil)
		}
	}
}

func (s *Set) unannounce() {
	for _, name := range s.input.Names {
		if n, ok := s.nodes[name]; ok && s.lives[n] == nil {
			s.order.Withdraw(n)
			s.drop(n)
		}
	}
}
