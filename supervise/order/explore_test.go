package order_test

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	"rlminit/supervise/order/explore"
)

var (
	seed  = flag.Uint64("seed", 0, "of the graphs that are taken at random")
	three = flag.Int("three", 2, "how many graphs of three services to take at random; -1: every one")
	four  = flag.Int("four", 1, "how many graphs of four services to take at random")

	acyclic = flag.Int("acyclic", 1, "how many graphs of four daemons without a ring to take at random; -1: every one")
)

type graph struct {
	edges   [explore.Most][explore.Most]uint8
	oneshot [explore.Most]bool
}

// graphs are all of n services that keep lets through.
func graphs(n int, keep func(graph) bool) (all []graph) {
	explore.Graphs(n, func(edges [explore.Most][explore.Most]uint8, oneshot [explore.Most]bool) {
		if g := (graph{edges, oneshot}); keep(g) {
			all = append(all, g)
		}
	})
	return all
}

// Every state of every graph of one and two services is visited, with every
// command and move; of three daemons that require or come after each other with
// most of them; and graphs of three and four at random. make explore takes the
// rest of three, every one of four daemons that has no ring, and more of four.
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
		return g.oneshot == [explore.Most]bool{}
	}
	search := func(n int, some []graph, l explore.Limits) {
		states, steps := 0, 0
		for _, g := range some {
			w := explore.NewWorld(n, g.edges, g.oneshot, explore.Proper)
			a, b, err := explore.Search(w, l)
			if err != nil {
				t.Fatalf("%v\n(-seed %d)", err, random)
			}
			states, steps = states+a, steps+b
		}
		t.Logf("%5d graphs of %d services: %8d states, %9d steps", len(some), n, states, steps)
	}
	sample := func(n, count int) (some []graph) {
		for range count {
			some = append(some, randomGraph(r, n))
		}
		return some
	}
	search(1, graphs(1, every), explore.Everything(1))
	search(2, graphs(2, every), explore.Everything(2))
	if *three < 0 {
		search(3, graphs(3, every), explore.Everything(3))
	} else if !testing.Short() && !raced {
		search(3, graphs(3, plain), explore.Mostly(3))
		search(3, sample(3, *three), explore.Everything(3))
	}
	if testing.Short() || raced {
		return
	}
	search(4, sample(4, *four), explore.Mostly(4))
	var straight []graph
	explore.Acyclic(4, func(edges [explore.Most][explore.Most]uint8, oneshot [explore.Most]bool) {
		straight = append(straight, graph{edges, oneshot})
	})
	r.Shuffle(len(straight), func(i, j int) { straight[i], straight[j] = straight[j], straight[i] })
	if *acyclic >= 0 {
		straight = straight[:*acyclic]
	}
	for some := range slices.Chunk(straight, 100) { // each tells how far it is
		search(4, some, explore.Mostly(4))
	}
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
