package order

// Decision is what follows for one service from the facts of all.
type Decision struct {
	// Held says whether it may start (Free), or how it is held. Edge leads to the
	// service that holds it, if there is one. Cycle: by that edge it requires itself.
	// Behind: something that it comes after is on its way, whatever holds it more.
	Held   Held
	Edge   Edge
	Cycle  bool
	Behind bool

	// If it has a Turn. Go: it may be given the command now. Otherwise Before is a
	// service that must stop first, if it waits for that.
	Go     bool
	Before Node
}

// Decide decides for n. facts has an element for each node.
func Decide(g *Graph, facts []Fact, n Node) Decision {
	switch f := facts[n]; {
	case f.Turn == NoTurn:
		return weigh(g, facts, n)
	case f.Turn == Start:
		d := weigh(g, facts, n)
		d.Go = f.Phase != Absent
		return d
	default:
		return turn(g, facts, n)
	}
}

// turn decides whether a service with a stop or restart may be stopped: when none of
// the services that come after it, over whatever lies between, is still stopping. Until
// then it does not start.
func turn(g *Graph, facts []Fact, n Node) Decision {
	d := Decision{Held: OnWay, Edge: Edge{To: None}, Before: None, Go: true}
	if f := facts[n]; f.Phase == Ending || !f.uses() {
		return d // it has no process to stop in order
	}
	seen := make([]bool, len(facts))
	for queue := []Node{n}; len(queue) > 0; queue = queue[1:] {
		for _, other := range g.nodes[queue[0]].dependents {
			if seen[other] || !g.comesAfter(other, queue[0]) {
				continue
			}
			if facts[other].leaving() && g.nodes[other].requiresCycle != g.nodes[n].requiresCycle {
				d.Go, d.Before = false, other
				return d
			}
			seen[other] = true
			queue = append(queue, other)
		}
	}
	return d
}

// weigh decides whether n may start, as if it had no turn. If several edges hold it,
// it names the one that holds it most, and the first of equals.
func weigh(g *Graph, facts []Fact, n Node) Decision {
	d := Decision{Edge: Edge{To: None}, Before: None}
	for _, e := range g.nodes[n].edges {
		f := facts[e.To]
		held, cycle := Free, false
		switch {
		case g.requiresItself(n, e):
			if !f.runs() {
				held, cycle = Stuck, true
			}
		case e.Kind == Requires:
			held, d.Behind = f.holds(), d.Behind || !f.settled()
		case !f.settled() && g.orders(n, e):
			held, d.Behind = OnWay, true
		}
		if held > d.Held || cycle && !d.Cycle {
			d.Held, d.Edge, d.Cycle = held, e, cycle
		}
	}
	return d
}
