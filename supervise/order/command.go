package order

import "slices"

// StartAlong are those that are started with the members: what they require and
// want, and these in their turn, as far as they are not wanted yet. Those that
// others need come first.
func StartAlong(g *Graph, facts []Fact, members []Node) []Node {
	var along []Node
	named := make(map[Node]bool, len(members))
	for _, n := range members {
		named[n] = true
	}
	seen := make(map[Node]bool, len(members))
	type visit struct {
		node Node
		next int
	}
	for _, member := range members {
		if seen[member] {
			continue
		}
		seen[member] = true
		for stack := []visit{{node: member}}; len(stack) > 0; {
			at := &stack[len(stack)-1]
			if edges := g.nodes[at.node].edges; at.next < len(edges) {
				e := edges[at.next]
				at.next++
				if e.Kind != After && !seen[e.To] && facts[e.To].Phase != Absent {
					seen[e.To] = true
					stack = append(stack, visit{node: e.To})
				}
				continue
			}
			n := at.node
			stack = stack[:len(stack)-1]
			if f := facts[n]; !named[n] && (!f.Wanted || f.Turn == Stop) {
				along = append(along, n)
			}
		}
	}
	return along
}

// StopAlong are those that a stop or restart of the members takes along: what
// lives and requires them, and what requires that. One that does not run itself
// takes nothing along in a restart: what requires it does without it already.
func StopAlong(g *Graph, facts []Fact, t Turn, members []Node) []Node {
	var along []Node
	seen := make(map[Node]bool, len(members))
	var queue []Node
	for _, n := range members {
		seen[n] = true
		if f := facts[n]; t == Stop || f.Wanted && f.uses() {
			queue = append(queue, n)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		n := queue[0]
		for _, d := range g.nodes[n].dependents {
			f := facts[d]
			if seen[d] || !f.Wanted || !f.uses() || !g.requires(d, n) {
				continue
			}
			seen[d] = true
			along = append(along, d)
			queue = append(queue, d)
		}
	}
	return along
}

// requires tells whether d requires n.
func (g *Graph) requires(d, n Node) bool { return slices.Contains(g.nodes[d].edges, Edge{n, Requires}) }

// Command decides the turns when the members are given t and what goes along with
// them goes along. It calls give for each whose turn is decided, which is to put
// it into facts.
func Command(g *Graph, facts []Fact, t Turn, members, along []Node, give func(Node, Turn)) {
	goes := t
	if t.Stops() {
		goes = Along
	}
	for _, n := range along {
		give(n, facts[n].next(goes))
	}
	stopping := map[Node]bool{} // whom a start takes that back of
	for _, n := range members {
		if t == Start && facts[n].Turn.Stops() {
			stopping[n] = true
		}
		give(n, facts[n].next(t))
	}
	if t != Start {
		return
	}
	for _, n := range members { // now that all of them have theirs
		switch {
		case facts[n].Turn != NoTurn:
		case stopping[n] && pulled(g, facts, n):
			give(n, Along)
		default:
			release(g, facts, n, give)
		}
	}
}

// release lets what goes along with n stay, if n was all that pulled it.
func release(g *Graph, facts []Fact, n Node, give func(Node, Turn)) {
	for _, d := range g.nodes[n].dependents {
		if facts[d].Turn == Along && g.requires(d, n) && !pulled(g, facts, d) {
			give(d, NoTurn)
			release(g, facts, d, give)
		}
	}
}

// next is the turn of a service with this fact when a command comes: the later
// one wins. What goes along with another only does so if nobody told it more;
// what is to be forgotten has no later command.
func (f Fact) next(t Turn) Turn {
	switch {
	case f.Turn == Remove:
		return Remove
	case t == Along && f.Turn != NoTurn:
		return f.Turn
	case t == Start && f.Wanted && f.uses() && f.Phase != Ending:
		return NoTurn // what lives is started already
	}
	return t
}

// pulled tells whether something that n requires is yet to be stopped by a command that
// takes along what requires it. What is on its way out already takes nobody along: it
// ended by itself, or for its health, or had waited for all that was to go with it.
func pulled(g *Graph, facts []Fact, n Node) bool {
	for _, e := range g.nodes[n].edges {
		if f := facts[e.To]; e.Kind == Requires && f.uses() && f.Turn.Stops() && f.Turn != Remove {
			return true
		}
	}
	return false
}
