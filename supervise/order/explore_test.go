package order_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"rlminit/tests/exploreorder"
)

var (
	seed  = flag.Uint64("seed", 0, "of the graphs that are taken at random")
	three = flag.Int("three", 10, "how many graphs of three services to take at random; -1: every one")
	four  = flag.Int("four", 3, "how many graphs of four services to take at random")

	acyclic = flag.Int("acyclic", 12, "how many graphs of four daemons without a cycle to take at random; -1: every one")
)

type graph struct {
	edges   [exploreorder.Most][exploreorder.Most]uint8
	oneshot [exploreorder.Most]bool
}

// graphsOf n services are all that keep lets through.
func graphsOf(n int, keep func(graph) bool) (all []graph) {
	exploreorder.Graphs(n, func(edges [exploreorder.Most][exploreorder.Most]uint8, oneshot [exploreorder.Most]bool) {
		if g := (graph{edges, oneshot}); keep(g) {
			all = append(all, g)
		}
	})
	return all
}

// Every state of every graph of one and two services is visited, with every
// command and move; of three in a row, and of three daemons that require or come after
// each other, with most of them; and graphs of three and four at random: with the race detector,
// which takes ten times as long, of each a tenth. make explore takes the rest of
// three, every one of four daemons that has no cycle, and more of four.
func TestEveryGraph(t *testing.T) {
	random := *seed
	if random == 0 {
		random = rand.Uint64()
	}
	r := rand.New(rand.NewPCG(random, 1))
	every := func(graph) bool { return true }
	plain := func(g graph) bool {
		for _, row := range g.edges {
			for _, kind := range row {
				if kind == 2 { // wants is waited for as after is
					return false
				}
			}
		}
		return g.oneshot == [exploreorder.Most]bool{}
	}
	var graphs, states, steps int
	look := func(n int, g graph, l exploreorder.Limits, known *exploreorder.Shape) {
		w := exploreorder.NewWorld(n, g.edges, g.oneshot, exploreorder.Proper)
		a, b, err := exploreorder.Search(w, l, known)
		if err != nil {
			t.Fatalf("%v\n(-seed %d)", err, random)
		}
		graphs, states, steps = graphs+1, states+a, steps+b
	}
	tell := func(n int) {
		t.Logf("%5d graphs of %d services: %9d states, %10d steps", graphs, n, states, steps)
		graphs, states, steps = 0, 0, 0
	}
	search := func(n int, some []graph, l exploreorder.Limits) {
		for _, g := range some {
			look(n, g, l, exploreorder.NewShape())
		}
		tell(n)
	}
	sample := func(n, count int) (some []graph) {
		for range count {
			some = append(some, randomGraph(r, n))
		}
		return some
	}
	search(1, graphsOf(1, every), exploreorder.Everything(1))
	search(2, graphsOf(2, every), exploreorder.Everything(2))
	if testing.Short() {
		return
	}
	search(3, graphsOf(3, row), exploreorder.Mostly(3))
	if *three < 0 {
		search(3, graphsOf(3, every), exploreorder.Everything(3))
	} else {
		all := graphsOf(3, plain)
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		search(3, all, exploreorder.Mostly(3))
		search(3, sample(3, *three), exploreorder.Everything(3))
	}
	search(4, sample(4, *four), exploreorder.Mostly(4))
	var shapes [][][exploreorder.Most][exploreorder.Most]uint8
	left := 0
	exploreorder.Acyclic(4, func(graphs [][exploreorder.Most][exploreorder.Most]uint8) {
		shapes = append(shapes, graphs)
		left += len(graphs)
	})
	if *acyclic >= 0 {
		left = *acyclic
	}
	r.Shuffle(len(shapes), func(i, j int) { shapes[i], shapes[j] = shapes[j], shapes[i] })
	for _, shape := range shapes {
		known := exploreorder.NewShape()
		for _, edges := range shape[:min(left, len(shape))] {
			look(4, graph{edges: edges}, exploreorder.Mostly(4), known)
			if left--; left%100 == 99 { // it may take long
				fmt.Fprintf(os.Stderr, "%d graphs are left; of %d: %d states, %d steps\n", left, graphs, states, steps)
			}
		}
	}
	tell(4)
}

// TestBehind: what lies behind a service that does not run is waited for, whatever holds that
// one more; but not what lies behind a cycle of requires.
func TestBehind(t *testing.T) {
	const requires, after = 1, 3
	for _, edges := range [][][3]uint8{
		{{0, 1, after}, {1, 2, requires}, {2, 3, after}},
		{{0, 1, after}, {1, 2, requires}, {1, 3, after}},
		{{0, 1, after}, {1, 2, requires}, {2, 1, requires}, {2, 3, after}},
		{{0, 1, after}, {1, 2, requires}, {2, 1, requires}, {1, 3, after}},
	} {
		var g graph
		for _, e := range edges {
			g.edges[e[0]][e[1]] = e[2]
		}
		w := exploreorder.NewWorld(4, g.edges, g.oneshot, exploreorder.Proper)
		if _, _, err := exploreorder.Search(w, exploreorder.Mostly(4), exploreorder.NewShape()); err != nil {
			t.Errorf("%v: %v", edges, err)
		}
	}
}

// row tells whether each of three services but the last has one edge, to the next.
func row(g graph) bool {
	into := [exploreorder.Most]int{}
	edges := 0
	for a, out := range g.edges {
		from := 0
		for b, kind := range out {
			if kind > 0 {
				from++
				into[b]++
				if g.edges[b][a] > 0 {
					return false
				}
			}
		}
		if edges += from; from > 1 {
			return false
		}
	}
	return edges == 2 && slices.Max(into[:]) == 1
}

func randomGraph(r *rand.Rand, n int) (g graph) {
	for a := range n {
		g.oneshot[a] = r.IntN(4) == 0
		for b := range n {
			if a != b && r.IntN(2) == 0 {
				g.edges[a][b] = uint8(1 + r.IntN(3))
			}
		}
	}
	return g
}
