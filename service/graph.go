package service

import (
	"maps"
	"slices"
	"strings"

	"rlminit/internal/document"
)

// Graph is the order of a set of services: requires, wants and after all put a
// service after the ones they name. Names that are not in the set are left out.
type Graph struct {
	after, before map[string][]string // sorted, each name once
}

// NewGraph is the graph of a set. Its keys are the services' names.
func NewGraph(set map[string]*Definition) *Graph {
	g := &Graph{after: make(map[string][]string, len(set)), before: make(map[string][]string, len(set))}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		d := set[name]
		var after []string
		for _, other := range slices.Concat(d.Requires, d.Wants, d.After) {
			if _, ok := set[other]; ok {
				after = append(after, other)
			}
		}
		slices.Sort(after)
		g.after[name] = slices.Compact(after)
		for _, other := range g.after[name] {
			g.before[other] = append(g.before[other], name)
		}
	}
	return g
}

// Levels are the services in the order of their start: each after all that it
// starts after. Those of one level start together. Services on a cycle, and
// behind one, are left out.
func (g *Graph) Levels() [][]string {
	left := make(map[string]int, len(g.after))
	var level []string
	for name, after := range g.after {
		left[name] = len(after)
		if len(after) == 0 {
			level = append(level, name)
		}
	}
	var levels [][]string
	for len(level) > 0 {
		slices.Sort(level)
		levels = append(levels, level)
		var next []string
		for _, name := range level {
			for _, b := range g.before[name] {
				if left[b]--; left[b] == 0 {
					next = append(next, b)
				}
			}
		}
		level = next
	}
	return levels
}

// Cycles are paths that lead back to where they began: [a b a]. There is one
// for each knot of services, through the first of them by name that is on a
// cycle, and it is as short as can be.
func (g *Graph) Cycles() [][]string {
	pending := make(map[string]bool, len(g.after))
	for name := range g.after {
		pending[name] = true
	}
	for _, level := range g.Levels() {
		for _, name := range level {
			delete(pending, name)
		}
	}
	var cycles [][]string
	for _, name := range slices.Sorted(maps.Keys(pending)) {
		if !pending[name] {
			continue
		}
		if path := g.path(name, pending); path != nil {
			cycles = append(cycles, path)
			g.forget(path, pending)
		}
	}
	return cycles
}

// path is the shortest way from name back to name over the pending services, or
// nil.
func (g *Graph) path(name string, pending map[string]bool) []string {
	from := map[string]string{}
	queue := []string{name}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, next := range g.after[at] {
			if next == name {
				path := []string{name}
				for at != name {
					path = append(path, at)
					at = from[at]
				}
				path = append(path, name)
				slices.Reverse(path)
				return path
			}
			if _, seen := from[next]; !seen && pending[next] {
				from[next] = at
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// forget takes from pending whatever is reachable from the cycle and leads back
// to it, so that a knot is reported once.
func (g *Graph) forget(cycle []string, pending map[string]bool) {
	forward := reach(cycle, g.after, pending)
	for name := range reach(cycle, g.before, pending) {
		if forward[name] {
			delete(pending, name)
		}
	}
}

func reach(from []string, edges map[string][]string, within map[string]bool) map[string]bool {
	seen := map[string]bool{}
	queue := slices.Clone(from)
	for len(queue) > 0 {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if seen[at] {
			continue
		}
		seen[at] = true
		for _, next := range edges[at] {
			if within[next] && !seen[next] {
				queue = append(queue, next)
			}
		}
	}
	return seen
}

// CheckSet judges definitions together: names in requires, wants and after that
// are not in the set, cycles, and reserved names. Each fault has its Service and,
// as its Field, the service and the key: "web.requires". A gateway-NAME that is
// not in the set is no fault, for profiles come and go.
func CheckSet(set map[string]*Definition) Faults {
	var faults Faults
	names := slices.Sorted(maps.Keys(set))
	for _, name := range names {
		d := set[name]
		if Reserved(name) {
			faults = append(faults, Fault{Field: name, Service: name, Text: `the name is reserved; choose another`})
		}
		for _, list := range []struct {
			key   string
			names []string
		}{{"requires", d.Requires}, {"wants", d.Wants}, {"after", d.After}} {
			for _, other := range list.names {
				if _, ok := set[other]; ok || strings.HasPrefix(other, GatewayPrefix) {
					continue
				}
				text := "no service " + document.Quote(other) + document.DidYouMean(other, names)
				faults = append(faults, Fault{Field: name + "." + list.key, Service: name, Text: text})
			}
		}
	}
	for _, cycle := range NewGraph(set).Cycles() {
		first := set[cycle[0]]
		key := "after"
		switch {
		case slices.Contains(first.Requires, cycle[1]):
			key = "requires"
		case slices.Contains(first.Wants, cycle[1]):
			key = "wants"
		}
		text := "the services wait for each other: " + strings.Join(cycle, " → ") + "; take one of them out"
		faults = append(faults, Fault{Field: cycle[0] + "." + key, Service: cycle[0], Text: text})
	}
	return faults
}
