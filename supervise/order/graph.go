package order

import "slices"

// Node is a service in a Graph, or a name that one refers to.
type Node int32

// None is no node.
const None Node = -1

// Kind is what one service is to another, strongest first.
type Kind uint8

// The kinds of edge.
const (
	Requires Kind = iota // must be up, and is started along
	Wants                // is waited for until it has settled, and started along
	After                // is waited for until it has settled
)

func (k Kind) String() string { return [...]string{"requires", "wants", "after"}[k] }

// Edge goes from a service to one that it starts after, and stops before.
type Edge struct {
	To   Node
	Kind Kind
}

// Graph is who depends on whom. The zero value has no node.
type Graph struct {
	nodes []node
	free  []Node
	stale bool // ring and circle are to be computed anew
}

type node struct {
	edges      []Edge
	dependents []Node // Invariant: each that has an edge to this node, once

	// Invariant, unless stale: two nodes have one ring if and only if each can be
	// reached from the other; one circle, if that is so over requires alone.
	ring, circle Node
}

// Add returns a new node without edges.
func (g *Graph) Add() Node {
	if last := len(g.free) - 1; last >= 0 {
		n := g.free[last]
		g.free = g.free[:last]
		g.nodes[n] = node{ring: n, circle: n}
		return n
	}
	n := Node(len(g.nodes))
	g.nodes = append(g.nodes, node{ring: n, circle: n})
	return n
}

// Drop takes away a node that has no edges, from it or to it.
func (g *Graph) Drop(n Node) {
	g.free = append(g.free, n)
}

// Link gives n these edges in place of those it has.
func (g *Graph) Link(n Node, edges []Edge) {
	was := g.nodes[n].edges
	if slices.Equal(was, edges) {
		return
	}
	for _, e := range was {
		to := &g.nodes[e.To]
		if i := slices.Index(to.dependents, n); i >= 0 {
			last := len(to.dependents) - 1
			to.dependents[i] = to.dependents[last]
			to.dependents = to.dependents[:last]
		}
	}
	g.nodes[n].edges = slices.Clone(edges)
	for i, e := range edges {
		if !slices.ContainsFunc(edges[:i], func(before Edge) bool { return before.To == e.To }) {
			g.nodes[e.To].dependents = append(g.nodes[e.To].dependents, n)
		}
	}
	// What nothing depends on is on no ring, and a new edge of it closes none.
	g.stale = g.stale || len(g.nodes[n].dependents) > 0
}

// Edges are those from n.
func (g *Graph) Edges(n Node) []Edge { return g.nodes[n].edges }

// Dependents are those that have an edge to n.
func (g *Graph) Dependents(n Node) []Node { return g.nodes[n].dependents }

// orders tells whether an edge puts its two ends into an order. A weak edge on a
// ring does not: everybody on the ring would wait for everybody.
func (g *Graph) orders(from Node, e Edge) bool {
	g.refresh()
	return e.Kind == Requires || g.nodes[from].ring != g.nodes[e.To].ring
}

// requiresItself tells whether the edge is on a ring of nothing but requires.
func (g *Graph) requiresItself(from Node, e Edge) bool {
	g.refresh()
	return e.Kind == Requires && g.nodes[from].circle == g.nodes[e.To].circle
}

// stopsBefore tells whether d is to be gone before n is stopped. What requires
// itself is stopped in no order.
func (g *Graph) stopsBefore(d, n Node) bool {
	for _, e := range g.nodes[d].edges {
		if e.To == n && g.orders(d, e) && !g.requiresItself(d, e) {
			return true
		}
	}
	return false
}

// Circle is the shortest way on which n, by an edge to other, requires itself:
// the nodes from n to n. nil: it does not.
func (g *Graph) Circle(n, other Node) []Node {
	before := map[Node]Node{other: n}
	for queue := []Node{other}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at == n {
			way := []Node{n}
			for at = before[n]; at != n; at = before[at] {
				way = append(way, at)
			}
			way = append(way, n)
			slices.Reverse(way)
			return way
		}
		for _, e := range g.nodes[at].edges {
			if _, seen := before[e.To]; !seen && e.Kind == Requires {
				before[e.To] = at
				queue = append(queue, e.To)
			}
		}
	}
	return nil
}

// refresh brings ring and circle up to date, and returns where one has changed.
func (g *Graph) refresh() (changed []Node) {
	if !g.stale {
		return nil
	}
	g.stale = false
	rings := g.components(func(Edge) bool { return true })
	circles := g.components(func(e Edge) bool { return e.Kind == Requires })
	for n := range g.nodes {
		at := &g.nodes[n]
		if at.ring != rings[n] || at.circle != circles[n] {
			at.ring, at.circle = rings[n], circles[n]
			changed = append(changed, Node(n))
		}
	}
	return changed
}

// components are the strongly connected ones over the edges that count: for each
// node, one that stands for its component. Tarjan's way, without recursion: a
// chain may be long.
func (g *Graph) components(counts func(Edge) bool) []Node {
	const unseen = 0
	var (
		index    = make([]int32, len(g.nodes)) // in the order of the visits, from 1
		low      = make([]int32, len(g.nodes))
		onStack  = make([]bool, len(g.nodes))
		found    = make([]Node, len(g.nodes))
		stack    []Node
		visits   int32
		calls    []call
		discover = func(n Node) {
			visits++
			index[n], low[n], onStack[n] = visits, visits, true
			stack = append(stack, n)
			calls = append(calls, call{node: n})
		}
	)
	for root := range g.nodes {
		if index[root] != unseen {
			continue
		}
		discover(Node(root))
		for len(calls) > 0 {
			at := &calls[len(calls)-1]
			n := at.node
			if at.next < len(g.nodes[n].edges) {
				e := g.nodes[n].edges[at.next]
				at.next++
				switch {
				case !counts(e):
				case index[e.To] == unseen:
					discover(e.To)
				case onStack[e.To]:
					low[n] = min(low[n], index[e.To])
				}
				continue
			}
			calls = calls[:len(calls)-1]
			if len(calls) > 0 {
				caller := calls[len(calls)-1].node
				low[caller] = min(low[caller], low[n])
			}
			if low[n] != index[n] {
				continue
			}
			for {
				last := stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				onStack[last], found[last] = false, n
				if last == n {
					break
				}
			}
		}
	}
	return found
}

// call is a visit under way: of a node, up to its next edge.
type call struct {
	node Node
	next int
}
