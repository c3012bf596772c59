package order

import "slices"

// Node is a service in a Graph, or a name that a service refers to.
type Node int32

// None is no node.
const None Node = -1

// Kind is the kind of a dependency, the strongest first.
type Kind uint8

// The kinds of edge.
const (
	Requires Kind = iota // it must be up, and is started along
	Wants                // it must have settled, and is started along
	After                // it must have settled
)

func (k Kind) String() string { return [...]string{"requires", "wants", "after"}[k] }

// Edge leads from a service to one that it starts after and stops before.
type Edge struct {
	To   Node
	Kind Kind
}

// Graph is the graph of dependencies. The zero value has no node.
type Graph struct {
	nodes []node
	free  []Node
	stale bool // cycle and requiresCycle must be computed again
}

type node struct {
	edges      []Edge
	dependents []Node // Invariant: each that has an edge to this node, once

	// Invariant, unless stale: two nodes have one cycle if and only if each can be
	// reached from the other; one requiresCycle, if that is so over requires alone.
	cycle, requiresCycle Node
}

// Add returns a new node without edges.
func (g *Graph) Add() Node {
	if last := len(g.free) - 1; last >= 0 {
		n := g.free[last]
		g.free = g.free[:last]
		g.nodes[n] = node{cycle: n, requiresCycle: n}
		return n
	}
	n := Node(len(g.nodes))
	g.nodes = append(g.nodes, node{cycle: n, requiresCycle: n})
	return n
}

// Drop removes a node that has no edges, neither from it nor to it.
func (g *Graph) Drop(n Node) {
	g.free = append(g.free, n)
}

// Link replaces the edges of n.
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
	// A node without dependents is on no cycle, and a new edge of it closes none.
	g.stale = g.stale || len(g.nodes[n].dependents) > 0
}

// Edges are the edges from n.
func (g *Graph) Edges(n Node) []Edge { return g.nodes[n].edges }

// Dependents are the nodes that have an edge to n.
func (g *Graph) Dependents(n Node) []Node { return g.nodes[n].dependents }

// orders tells whether an edge puts its two ends into an order. A weak edge on a
// cycle does not: every service on the cycle would wait for every other.
func (g *Graph) orders(from Node, e Edge) bool {
	g.refresh()
	return e.Kind == Requires || g.nodes[from].cycle != g.nodes[e.To].cycle
}

// requiresItself tells whether the edge is on a cycle of requires alone.
func (g *Graph) requiresItself(from Node, e Edge) bool {
	g.refresh()
	return e.Kind == Requires && g.nodes[from].requiresCycle == g.nodes[e.To].requiresCycle
}

// comesAfter tells whether d has an edge to n that orders them. Services that require
// themselves are stopped in no order, but with regard to others.
func (g *Graph) comesAfter(d, n Node) bool {
	return slices.ContainsFunc(g.nodes[d].edges, func(e Edge) bool { return e.To == n && g.orders(d, e) })
}

// RequiresCycle is the shortest cycle of requires that begins with the edge from n to
// other: the nodes from n to n. nil: there is none.
func (g *Graph) RequiresCycle(n, other Node) []Node {
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

// refresh computes the cycles again, and returns the nodes whose cycle has changed.
func (g *Graph) refresh() (changed []Node) {
	if !g.stale {
		return nil
	}
	g.stale = false
	cycles := g.components(func(Edge) bool { return true })
	required := g.components(func(e Edge) bool { return e.Kind == Requires })
	for n := range g.nodes {
		at := &g.nodes[n]
		if at.cycle != cycles[n] || at.requiresCycle != required[n] {
			at.cycle, at.requiresCycle = cycles[n], required[n]
			changed = append(changed, Node(n))
		}
	}
	return changed
}

// components are the strongly connected components over the edges that count: for
// each node, the node that represents its component. It is Tarjan's algorithm.
func (g *Graph) components(counts func(Edge) bool) []Node {
	const unseen = 0
	var (
		index   = make([]int32, len(g.nodes)) // in the order of the visits, from 1
		low     = make([]int32, len(g.nodes))
		onStack = make([]bool, len(g.nodes))
		found   = make([]Node, len(g.nodes))
		stack   []Node
		visits  int32
		visit   func(n Node)
	)
	visit = func(n Node) {
		visits++
		index[n], low[n], onStack[n] = visits, visits, true
		first := len(stack)
		stack = append(stack, n)
		for _, e := range g.nodes[n].edges {
			switch {
			case !counts(e):
			case index[e.To] == unseen:
				visit(e.To)
				low[n] = min(low[n], low[e.To])
			case onStack[e.To]:
				low[n] = min(low[n], index[e.To])
			}
		}
		if low[n] == index[n] {
			for _, m := range stack[first:] {
				onStack[m], found[m] = false, n
			}
			stack = stack[:first]
		}
	}
	for n := range g.nodes {
		if index[n] == unseen {
			visit(Node(n))
		}
	}
	return found
}
