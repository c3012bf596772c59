package order_test

import (
	"math/rand/v2"
	"testing"

	"rlminit/supervise/order"
	"rlminit/tests/exploreorder"
)

// A Set looks only at the neighbours of what has changed, and still decides as Decide
// does for each service, whatever is seen, commanded or linked again.
func TestSetComesToWhatDecideSays(t *testing.T) {
	for round := range uint64(300) {
		r := rand.New(rand.NewPCG(round, 1))
		const n = 12
		var s order.Set
		nodes := make([]order.Node, n)
		for i := range nodes {
			nodes[i] = s.Add()
		}
		for range 60 {
			at := nodes[r.IntN(n)]
			switch r.IntN(4) {
			case 0:
				var edges []order.Edge
				for range r.IntN(3) {
					if to := nodes[r.IntN(n)]; to != at {
						edges = append(edges, order.Edge{To: to, Kind: order.Kind(r.IntN(3))})
					}
				}
				s.Link(at, edges)
			case 1:
				turn := []order.Turn{order.Start, order.Restart, order.Stop, order.Remove}[r.IntN(4)]
				facts := make([]order.Fact, n)
				for i := range facts {
					facts[i] = s.Fact(nodes[i])
				}
				var along []order.Node
				if turn == order.Start {
					along = order.StartAlong(&s.Graph, facts, []order.Node{at})
				} else {
					along = order.StopAlong(&s.Graph, facts, turn, []order.Node{at})
				}
				s.Command(turn, []order.Node{at}, along)
			default:
				s.Observe(at, order.Fact{Phase: order.Phases[r.IntN(len(order.Phases))], Wanted: r.IntN(2) == 0})
			}
			for range r.IntN(3) {
				s.Next() // somebody else has a turn before everything is done
			}
			if r.IntN(3) > 0 {
				continue
			}
			for range 10_000 {
				if _, more := s.Next(); !more {
					break
				}
			}
			if _, more := s.Next(); more {
				t.Fatalf("round %d: it comes to no end", round)
			}
			facts := make([]order.Fact, n)
			for i := range facts {
				facts[i] = s.Fact(nodes[i])
			}
			for _, node := range nodes {
				want, told := order.Decide(&s.Graph, facts, node), s.Decided(node)
				if want.Go && facts[node].Turn != order.NoTurn || want.Held != told.Held || want.Edge != told.Edge || want.Behind != told.Behind {
					t.Fatalf("round %d: of %d it says %+v, and Decide %+v; %+v", round, node, told, want, facts[node])
				}
			}
		}
	}
}

// Other numbers for the services change nothing in the decisions but the numbers.
func TestNumbersDecideNothing(t *testing.T) {
	const n = exploreorder.Most
	r := rand.New(rand.NewPCG(7, 7))
	for range 3000 {
		g := randomGraph(r, n)
		facts := randomFacts(r, n)
		w := exploreorder.NewWorld(n, g.edges, g.oneshot, exploreorder.Proper)
		for _, p := range exploreorder.Permutations(n) {
			edges, oneshot := exploreorder.Permute(n, g.edges, g.oneshot, p)
			other := exploreorder.NewWorld(n, edges, oneshot, exploreorder.Proper)
			moved := make([]order.Fact, n)
			for i, f := range facts {
				moved[p[i]] = f
			}
			for i := range n {
				a := order.Decide(&w.Graph, facts, order.Node(i))
				b := order.Decide(&other.Graph, moved, order.Node(p[i]))
				if a.Held != b.Held || a.Behind != b.Behind || a.Cycle != b.Cycle || a.Go != b.Go {
					t.Fatalf("%+v of %d becomes %+v by the numbers %v", a, i, b, p)
				}
			}
		}
	}
}

// A wants orders starts and stops as an after does.
func TestWantsIsWaitedForAsAfter(t *testing.T) {
	const n = exploreorder.Most
	r := rand.New(rand.NewPCG(8, 8))
	for range 30_000 {
		g := randomGraph(r, n)
		other := g
		for a := range n {
			for b := range n {
				if weak := g.edges[a][b] > 1; weak && r.IntN(2) == 0 {
					other.edges[a][b] = 5 - g.edges[a][b]
				}
			}
		}
		one, two := exploreorder.NewWorld(n, g.edges, g.oneshot, exploreorder.Proper), exploreorder.NewWorld(n, other.edges, g.oneshot, exploreorder.Proper)
		facts := randomFacts(r, n)
		for i := range order.Node(n) {
			a, b := order.Decide(&one.Graph, facts, i), order.Decide(&two.Graph, facts, i)
			if a.Edge.To != order.None && a.Edge.Kind != order.Requires {
				b.Edge.Kind = a.Edge.Kind
			}
			if a != b {
				t.Fatalf("of %d: %+v, and %+v with other kinds; %+v, %v", i, a, b, facts, g.edges)
			}
		}
	}
}

func randomFacts(r *rand.Rand, n int) []order.Fact {
	facts := make([]order.Fact, n)
	for i := range facts {
		facts[i] = order.Fact{
			Phase: order.Phases[r.IntN(len(order.Phases))], Wanted: r.IntN(2) == 0,
			Turn: order.Turn(r.IntN(int(order.Remove) + 1)), Held: order.Held(r.IntN(4)), Behind: r.IntN(2) == 0,
		}
	}
	return facts
}

// A service that leaves a cycle is held again, and one that enters it is not, although
// its own edges have not changed.
func TestRingClosedElsewhere(t *testing.T) {
	var s order.Set
	a, b, c := s.Add(), s.Add(), s.Add()
	after := func(n order.Node) []order.Edge { return []order.Edge{{To: n, Kind: order.After}} }
	s.Link(a, after(b))
	s.Link(b, after(c))
	for _, n := range []order.Node{a, b, c} {
		s.Observe(n, order.Fact{Phase: order.Down})
	}
	s.Command(order.Start, []order.Node{a, b, c}, nil)
	drain(&s, func(x order.Action) {
		if x.Turn == order.Start {
			phase := order.Starting
			if x.Decision.Held != order.Free {
				phase = order.Waiting
			}
			s.Observe(x.Node, order.Fact{Phase: phase, Wanted: true})
		}
	})
	if held := s.Decided(a).Held; held != order.OnWay {
		t.Fatalf("a is held: %s", held)
	}
	s.Link(c, after(a))
	drain(&s, func(order.Action) {})
	if held := s.Decided(a).Held; held != order.Free {
		t.Errorf("on the cycle, a is held: %s", held)
	}
	s.Link(c, nil)
	drain(&s, func(order.Action) {})
	if held := s.Decided(a).Held; held != order.OnWay {
		t.Errorf("off the cycle, a is held: %s", held)
	}
}

// A oneshot that is done when a cycle of requires closes over it starts nobody on the cycle
// any more, nor behind it: what it requires is not up. A daemon that runs does.
func TestRingClosedOverWhatIsDone(t *testing.T) {
	for phase, want := range map[order.Phase]order.Held{order.Done: order.Stuck, order.Up: order.Free} {
		var s order.Set
		a, b, behind := s.Add(), s.Add(), s.Add()
		requires := func(n order.Node) []order.Edge { return []order.Edge{{To: n, Kind: order.Requires}} }
		s.Link(a, requires(b))
		s.Link(behind, requires(b))
		s.Observe(b, order.Fact{Phase: phase, Wanted: true})
		s.Observe(a, order.Fact{Phase: order.Backoff, Wanted: true})
		s.Observe(behind, order.Fact{Phase: order.Backoff, Wanted: true})
		drain(&s, func(order.Action) {})
		if held := s.Decided(a).Held; held != order.Free {
			t.Errorf("b is %s, and a is held: %s", phase, held)
		}
		s.Link(b, requires(a))
		drain(&s, func(order.Action) {})
		for _, n := range []order.Node{a, behind} {
			if held := s.Decided(n).Held; held != want {
				t.Errorf("b is %s on a cycle, and %d is held: %s, not %s", phase, n, held, want)
			}
		}
	}
}

func drain(s *order.Set, do func(order.Action)) {
	for {
		x, more := s.Next()
		if !more {
			return
		}
		do(x)
	}
}

// Every command on a chain of a thousand services, and on a thousand that depend on
// one: the cost grows with the number of services, not with its square.
func TestThousands(t *testing.T) {
	const n = 1000
	for _, shape := range []string{"chain", "star"} {
		t.Run(shape, func(t *testing.T) {
			var s order.Set
			nodes := make([]order.Node, n)
			for i := range nodes {
				nodes[i] = s.Add()
			}
			for i := 1; i < n; i++ {
				to := nodes[0]
				if shape == "chain" {
					to = nodes[i-1]
				}
				s.Link(nodes[i], []order.Edge{{To: to, Kind: order.Requires}})
			}
			for _, node := range nodes {
				s.Observe(node, order.Fact{Phase: order.Down})
			}
			var up []order.Node
			actions := 0
			run := func(x order.Action) {
				actions++
				at := s.Fact(x.Node).Phase
				switch {
				case x.Turn == order.Start && x.Decision.Held != order.Free:
					s.Observe(x.Node, order.Fact{Phase: order.Waiting, Wanted: true})
				case x.Turn == order.Start, x.Turn == order.NoTurn && x.Decision.Held == order.Free && at == order.Waiting:
					up = append(up, x.Node)
					s.Observe(x.Node, order.Fact{Phase: order.Up, Wanted: true})
				case x.Turn == order.Stop:
					up = up[:len(up)-1]
					s.Observe(x.Node, order.Fact{Phase: order.Down})
				}
			}
			s.Command(order.Start, nodes, nil)
			drain(&s, run)
			if len(up) != n {
				t.Fatalf("%d are up", len(up))
			}
			s.Command(order.Stop, nodes, nil)
			drain(&s, run)
			if len(up) != 0 || s.Fact(nodes[0]).Phase != order.Down {
				t.Fatalf("%d are up, the first is %s", len(up), s.Fact(nodes[0]).Phase)
			}
			if actions > 9*n {
				t.Errorf("%d actions for %d services", actions, n)
			}
		})
	}
}

// A start of a live service ends nothing, although a service that it requires is stopping
// by itself. A start that takes back a stop leaves turns along with other services.
func TestStartEndsNothing(t *testing.T) {
	up := order.Fact{Phase: order.Up, Wanted: true}
	turned := func(turn order.Turn) order.Fact { return order.Fact{Phase: order.Up, Wanted: true, Turn: turn} }
	for name, c := range map[string]struct {
		required, is order.Fact
		want         order.Turn
	}{
		"it is ended for its health":     {order.Fact{Phase: order.Ending, Wanted: true}, up, order.NoTurn},
		"it is being removed":            {turned(order.Remove), up, order.NoTurn},
		"a stop is taken back":           {order.Fact{Phase: order.Ending, Wanted: true}, turned(order.Stop), order.NoTurn},
		"it goes along":                  {turned(order.Restart), turned(order.Along), order.Along},
		"a stop is taken back for along": {turned(order.Restart), turned(order.Stop), order.Along},
	} {
		t.Run(name, func(t *testing.T) {
			var g order.Graph
			required, n := g.Add(), g.Add()
			g.Link(n, []order.Edge{{To: required, Kind: order.Requires}})
			facts := []order.Fact{c.required, c.is}
			order.Command(&g, facts, order.Start, []order.Node{n}, nil, func(n order.Node, turn order.Turn) { facts[n].Turn = turn })
			if is := facts[n].Turn; is != c.want {
				t.Errorf("its turn is %s, want %s", is, c.want)
			}
		})
	}
}
