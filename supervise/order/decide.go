package order

// Decision is what follows for one service from what is known of all.
type Decision struct {
	// Held says whether it may start, Free, or how it is held back; Edge is what
	// holds it, if that is another. With Circle it requires itself by that edge.
	Held   Held
	Edge   Edge
	Circle bool

	// Of one with a Turn. Go: it may be given the command now; else Before is one
	// that is to be gone first, if that is what it waits for.
	Go     bool
	Before Node
}

// Decide says what follows for n. facts has an element for each node.
func Decide(g *Graph, facts []Fact, n Node) Decision {
	switch f := facts[n]; {
	case f.Turn == NoTurn:
		return Weigh(g, facts, n)
	case f.Turn == Start:
		d := Weigh(g, facts, n)
		d.Go = f.Phase != Absent
		return d
	default:
		return turn(g, facts, n)
	}
}

// turn decides when one that is to be stopped may be: when nothing that depends
// on it is still on its own way down. Until then it starts nothing.
func turn(g *Graph, facts []Fact, n Node) Decision {
	d := Decision{Held: OnWay, Edge: Edge{To: None}, Before: None, Go: true}
	if f := facts[n]; f.Phase == Ending || !f.uses() {
		return d // there is nothing left to be stopped in order
	}
	for _, other := range g.nodes[n].dependents {
		if other != n && facts[other].leaving() && g.stopsBefore(other, n) {
			d.Go, d.Before = false, other
			break
		}
	}
	return d
}

// Weigh says whether n might start if it had no turn. Of several edges that hold
// it the one that holds it most is named, of equals the first.
func Weigh(g *Graph, facts []Fact, n Node) Decision {
	d := Decision{Edge: Edge{To: None}, Before: None}
	for _, e := range g.nodes[n].edges {
		f := facts[e.To]
		held, circle := Free, false
		switch {
		case e.Kind == Requires && f.up():
		case e.Kind == Requires && g.requiresItself(n, e):
			held, circle = Stuck, true
		case e.Kind == Requires:
			held = f.holds()
		case !f.settled() && g.orders(n, e):
			held = OnWay
		}
		if held > d.Held || circle && !d.Circle {
			d.Held, d.Edge, d.Circle = held, e, circle
		}
	}
	return d
}
