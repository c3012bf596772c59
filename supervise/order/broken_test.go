package order_test

import (
	"slices"
	"strings"
	"testing"

	"rlminit/supervise/order"
	"rlminit/tests/exploreorder"
)

// The exploration finds the fault in rules that look right for one service at a
// time. Each of these rules was once in use.
func TestBrokenRulesAreFound(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules exploreorder.Rules
		says  string
	}{
		{"what a boot has yet to register counts as not to come", exploreorder.Rules{Decide: unannounced}, "starts, and after b: a: down wanted"},
		{"a restart does not hold what is only after another", exploreorder.Rules{Decide: oneService, Remembers: true}, "starts, and after"},
		{"likewise, and a stop waits until what depends on it is down", exploreorder.Rules{Decide: oneService, Remembers: true, Lenient: true}, "never ends"},
		{"nothing stops in reverse", exploreorder.Rules{Decide: atOnce}, "is stopped before"},
		{"the edges of a cycle count", exploreorder.Rules{Decide: onCycle}, "waits for ever"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all []string
			exploreorder.Graphs(2, func(edges [exploreorder.Most][exploreorder.Most]uint8, oneshot [exploreorder.Most]bool) {
				w := exploreorder.NewWorld(2, edges, oneshot, c.rules)
				if _, _, err := exploreorder.Search(w, exploreorder.Everything(2), exploreorder.NewShape()); err != nil {
					all = append(all, err.Error())
				}
			})
			for _, found := range all {
				if strings.Contains(found, c.says) {
					t.Log(found)
					return
				}
			}
			t.Errorf("not found: %q, but:\n%s", c.says, strings.Join(all, "\n"))
		})
	}
}

// Rules that look at the ends of one edge alone are found out by three services in a row,
// of which the one between has done its work.
func TestRulesOfOneEdgeAreFound(t *testing.T) {
	edges := [exploreorder.Most][exploreorder.Most]uint8{{1: 1 + uint8(order.Requires)}, {2: 1 + uint8(order.Requires)}}
	oneshot := [exploreorder.Most]bool{1: true}
	for says, rule := range map[string]func(*exploreorder.World, *exploreorder.State, order.Node) order.Decision{
		"c is stopped before a, which requires it": neighboursStop,
		"a starts, and requires c":                 doneIsUp,
	} {
		w := exploreorder.NewWorld(3, edges, oneshot, exploreorder.Rules{Decide: rule})
		_, _, err := exploreorder.Search(w, exploreorder.Mostly(3), exploreorder.NewShape())
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("not found: %q, but: %v", says, err)
		}
	}
}

// neighboursStop has a stop wait for those alone that have an edge to the service.
func neighboursStop(w *exploreorder.World, _ *exploreorder.State, n order.Node) order.Decision {
	d := order.Decide(&w.Graph, w.Facts, n)
	d.Go = d.Go || w.Facts[n].Turn.Stops() && !slices.Contains(w.Graph.Dependents(n), d.Before)
	return d
}

// doneIsUp starts a service when the oneshot that it requires is done, whatever has become
// of what that requires.
func doneIsUp(w *exploreorder.World, _ *exploreorder.State, n order.Node) order.Decision {
	facts := slices.Clone(w.Facts)
	for i := range facts {
		if facts[i].Phase == order.Done {
			facts[i].Held = order.Free
		}
	}
	return order.Decide(&w.Graph, facts, n)
}

// unannounced ignores services that will be registered soon.
func unannounced(w *exploreorder.World, _ *exploreorder.State, n order.Node) order.Decision {
	facts := slices.Clone(w.Facts)
	for i, f := range facts {
		if order.Node(i) != n && f.Phase == order.Absent {
			facts[i].Turn = order.NoTurn
		}
	}
	return order.Decide(&w.Graph, facts, n)
}

// oneService looks at the phase of another service, and not at its turn: it starts a
// service after one that is up, though that one will be restarted, and a stop waits
// until each dependent that stops too is down.
func oneService(w *exploreorder.World, s *exploreorder.State, n order.Node) order.Decision {
	d := order.Decide(&w.Graph, w.Facts, n)
	if t := w.Facts[n].Turn; t.Stops() {
		d.Go, d.Before = true, order.None
		for _, other := range w.Graph.Dependents(n) {
			switch w.Facts[other].Phase {
			case order.Starting, order.Up, order.Ending:
				if s[n].With>>other&1 == 1 {
					d.Go, d.Before = false, other
				}
			}
		}
		return d
	}
	if d.Edge.To != order.None && d.Edge.Kind != order.Requires && w.Facts[d.Edge.To].Phase == order.Up {
		d.Held, d.Edge.To = order.Free, order.None
	}
	return d
}

// atOnce gives each service its turn at once.
func atOnce(w *exploreorder.World, _ *exploreorder.State, n order.Node) order.Decision {
	d := order.Decide(&w.Graph, w.Facts, n)
	d.Go = w.Facts[n].Turn.Stops() || d.Go
	return d
}

// onCycle waits for every service that has not settled.
func onCycle(w *exploreorder.World, _ *exploreorder.State, n order.Node) order.Decision {
	d := order.Decide(&w.Graph, w.Facts, n)
	for _, e := range w.Graph.Edges(n) {
		if f := w.Facts[e.To]; d.Held == order.Free && (f.Phase == order.Starting || f.Phase == order.Waiting) {
			d.Held, d.Edge = order.OnWay, e
		}
	}
	return d
}
