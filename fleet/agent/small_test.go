package agent

import (
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"testing"
)

var states = flag.Int("states", 60_000, "how many states of each small fleet are walked")

// clone is a world that goes its own way from here.
func (w *world) clone() *world {
	c := *w
	c.leases, c.owners, c.marks, c.members, c.counts = maps.Clone(w.leases), maps.Clone(w.owners), maps.Clone(w.marks), maps.Clone(w.members), map[string]int{}
	c.stored, c.puts = maps.Clone(w.stored), slices.Clone(w.puts)
	c.log = slices.Clip(w.log)
	c.requests, c.late = slices.Clone(w.requests), slices.Clone(w.late)
	c.nodes = nil
	for _, n := range w.nodes {
		m := *n
		m.agent, m.runs, m.dirs, m.answers = n.agent.clone(), maps.Clone(n.runs), maps.Clone(n.dirs), slices.Clone(n.answers)
		c.nodes = append(c.nodes, &m)
	}
	return &c
}

func (a *Agent) clone() *Agent {
	c := *a
	c.view, c.over, c.effects, c.queue = a.view.Clone(), maps.Clone(a.over), nil, slices.Clone(a.queue)
	c.due = slices.Clone(a.due)
	c.beats, c.until, c.failed = maps.Clone(a.beats), maps.Clone(a.until), maps.Clone(a.failed)
	c.held, c.vacant = map[string]*Held{}, map[string]*vacancy{}
	for name, h := range a.held {
		other := *h
		c.held[name] = &other
	}
	for name, v := range a.vacant {
		other := *v
		c.vacant[name] = &other
	}
	return &c
}

// sum is a hash of all that decides how a world goes on. Two worlds of which one is later
// are not the same: what a search loses by that it loses in depth alone.
func (w *world) sum() uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, w.t, w.revision, w.leases, w.owners, w.marks, w.members, w.stored, w.puts, len(w.log), w.full, w.space)
	for _, q := range w.requests {
		fmt.Fprint(h, q.node, q.life, q.sent, q.effect)
	}
	for _, n := range w.nodes {
		a := n.agent
		fmt.Fprint(h, n.life, n.heard, n.runs, n.dirs, n.memory, a.session, a.over, a.began, a.loaded, a.surveyed, a.adopted, a.quiet, a.seen, a.scan, a.queue, a.beats, a.until, a.failed, a.floor, a.late, a.view.Space)
		for _, name := range sorted(a.held) {
			fmt.Fprint(h, *a.held[name])
		}
		for _, name := range sorted(a.vacant) {
			fmt.Fprint(h, *a.vacant[name])
		}
	}
	return h.Sum64()
}

// step is one thing that may happen, which may be a fault.
type step struct {
	fault bool
	do    func(*world)
}

// beat lets time pass, after which each agent hears from its box. Boxes that say nothing
// are in the random lives: they only make renewals fewer.
func (w *world) beat(by int64) {
	w.pass(by)
	for i, n := range w.nodes {
		w.tell(i, Input{Kind: Seen, Sent: w.local(n), Runs: n.survey(w)})
	}
}

// steps are all things that may happen now.
func (w *world) steps() (all []step) {
	for _, by := range []int64{second, 4 * second} {
		all = append(all, step{false, func(w *world) { w.beat(by) }})
	}
	for at, q := range w.requests {
		_, said := unknown(q.effect)
		take := func(w *world) { w.requests = slices.Delete(w.requests, at, at+1) }
		all = append(all, step{false, func(w *world) {
			take(w)
			if in, answered := w.carryOut(q); answered {
				w.answer(q, in)
			}
		}})
		if !said {
			continue
		}
		all = append(all, step{true, func(w *world) { // it is carried out, and the answer is lost
			take(w)
			w.carryOut(q)
			w.unanswered(q)
		}}, step{true, func(w *world) { w.unanswered(q) }}) // it may come later
	}
	for i, n := range w.nodes {
		if n.heard < len(w.log) {
			all = append(all, step{false, func(w *world) { w.hear(i, len(w.log)) }})
		}
		all = append(all, step{true, func(w *world) { w.begin(i) }})
	}
	all = append(all, step{!w.full, func(w *world) { w.full = !w.full }})
	for id, l := range w.leases {
		all = append(all, step{w.t < l.end, func(w *world) { w.expire(id) }})
	}
	return all
}

// TestSmallFleets walks all that can happen in small fleets with at most some faults,
// breadth first, as far as so many states lead.
func TestSmallFleets(t *testing.T) {
	for _, c := range []struct{ members, profiles, faults int }{{1, 1, 3}, {2, 1, 2}, {3, 2, 1}} {
		t.Run(fmt.Sprintf("%d members, %d profiles, %d faults", c.members, c.profiles, c.faults), func(t *testing.T) {
			type place struct {
				w      *world
				faults int
				depth  int
			}
			begun := newWorld(c.members, c.profiles, rules{})
			seen := map[uint64]bool{}
			queue := []place{{w: begun.settle()}}
			deepest, ran := 0, 0
			for len(queue) > 0 && len(seen) < *states {
				p := queue[0]
				queue[0] = place{}
				queue = queue[1:]
				deepest = p.depth
				for _, s := range p.w.steps() {
					faults := p.faults
					if s.fault {
						faults++
					}
					if faults > c.faults {
						continue
					}
					next := p.w.clone()
					s.do(next)
					if next.failure != "" {
						t.Fatalf("after %d steps: %s\n%s", p.depth+1, next.failure, next)
					}
					if sum := next.sum(); !seen[sum] {
						seen[sum] = true
						queue = append(queue, place{next, faults, p.depth + 1})
						for _, n := range next.nodes {
							ran += len(n.runs)
						}
					}
				}
			}
			t.Logf("%d states, %d steps deep, %d gateways seen to run", len(seen), deepest, ran)
			if ran == 0 {
				t.Error("no gateway ran in any of them")
			}
		})
	}
}

// settle lets a fleet begin without a fault, until each profile runs: the interesting
// begins there.
func (w *world) settle() *world {
	for range 200 {
		for i := range w.nodes {
			w.hear(i, len(w.log))
		}
		for len(w.requests) > 0 {
			q := w.requests[0]
			w.requests = w.requests[1:]
			if in, answered := w.carryOut(q); answered {
				w.answer(q, in)
			}
		}
		if w.wellServed() {
			break
		}
		w.beat(unit)
	}
	return w
}
