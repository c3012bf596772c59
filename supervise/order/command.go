package order

import "slices"

// StartAlong are the services that are started with the members: those that the
// members require or want, and that these require or want, if they are not wanted
// yet. Dependencies come first.
func StartAlong(g *Graph, facts []Fact, members []Node) []Node {
	var along []Node
	named := make(map[Node]bool, len(members))
	for _, n := range members {
		named[n] = true
	}
	seen := make(map[Node]bool, len(members))
	var visit func(n Node)
	visit = func(n Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		for _, e := range g.nodes[n].edges {
			if e.Kind != After && facts[e.To].Phase != Absent {
				visit(e.To)
			}
		}
		if f := facts[n]; !named[n] && (!f.Wanted || f.Turn == Stop) {
			along = append(along, n)
		}
	}
	for _, n := range members {
		visit(n)
	}
	return along
}

// StopAlong are the services that are stopped with the members in a stop or restart:
// live services that require them, and that require these, over whatever lies between.
// In a restart, a member that does not run takes none along: they run without it already.
func StopAlong(g *Graph, facts []Fact, t Turn, members []Node) []Node {
	var along []Node
	seen := make(map[Node]bool, len(members))
	var queue []Node
	for _, n := range members {
		if f := facts[n]; t == Stop || f.Wanted && f.uses() {
			seen[n] = true
			queue = append(queue, n)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		for _, d := range g.nodes[n].dependents {
			if seen[d] || !g.requires(d, n) {
				continue
			}
			seen[d] = true
			queue = append(queue, d)
			if f := facts[d]; f.Wanted && f.uses() && !slices.Contains(members, d) {
				along = append(along, d)
			}
		}
	}
	return along
}

// requires tells whether d requires n.
func (g *Graph) requires(d, n Node) bool { return slices.Contains(g.nodes[d].edges, Edge{n, Requires}) }

// Command decides the turns when the members are given t, with the services that go
// along. It calls give for each turn, and give must put it into facts.
func Command(g *Graph, facts []Fact, t Turn, members, along []Node, give func(Node, Turn)) {
	goes := t
	if t.Stops() {
		goes = Along
	}
	var back []Node // whose stop is withdrawn by this start
	for i, n := range slices.Concat(along, members) {
		if i == len(along) {
			goes = t
		}
		was := facts[n].Turn
		give(n, facts[n].next(goes))
		if was.Stops() && facts[n].Turn == NoTurn {
			back = append(back, n)
		}
	}
	if len(back) > 0 {
		release(g, facts, back, give)
	}
}

// release gives services whose stop is withdrawn, and those that were to stop along with
// them, the turn that they have by what else will stop: Along, or none. A service that is
// stopping already takes none along: it ended by itself, or for its health, or has waited
// for those that stop along with it.
func release(g *Graph, facts []Fact, back []Node, give func(Node, Turn)) {
	for _, n := range StopAlong(g, facts, Stop, back) {
		if facts[n].Turn == Along {
			give(n, NoTurn)
			back = append(back, n)
		}
	}
	var stop []Node
	for n, f := range facts {
		if f.uses() && f.Turn.Stops() && f.Turn != Remove {
			stop = append(stop, Node(n))
		}
	}
	for _, n := range StopAlong(g, facts, Stop, stop) {
		if slices.Contains(back, n) {
			give(n, Along)
		}
	}
}

// next is the turn of a service after another command: the later one wins. But Along
// overrides no other turn, and nothing overrides Remove.
func (f Fact) next(t Turn) Turn {
	switch {
	case f.Turn == Remove:
		return Remove
	case t == Along && f.Turn != NoTurn:
		return f.Turn
	case t == Start && f.Wanted && f.uses() && f.Phase != Ending:
		return NoTurn // it runs already
	}
	return t
}
