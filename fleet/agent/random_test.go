package agent

import (
	"flag"
	"math/rand/v2"
	"testing"
)

var (
	seed  = flag.Uint64("seed", 0, "of the one walk that is to be done; 0: of all")
	walks = flag.Int("walks", 3000, "how many random walks")
)

// walk lets a fleet live through random faults, and then through none: it returns what is
// wrong.
func walk(seed uint64, r rules) (*world, string) {
	chance := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(2+int(seed%2), 1+int(seed/2%2), r)
	w.calm = int(seed / 4 % 4 * 3)
	for range 1500 {
		w.act(chance, true)
		if w.failure != "" {
			return w, w.failure
		}
	}
	w.full = false
	for i, n := range w.nodes {
		n.out, n.mute = false, false
		w.thaw(i)
		w.put(Change{Name: n.name, Gone: true, Value: (*Drain)(nil)})
		w.tell(i, Input{Kind: Tick})
	}
	for range 400_000 {
		w.act(chance, false)
		if w.failure != "" {
			return w, w.failure
		}
		if w.wellServed() {
			return w, ""
		}
	}
	return w, "without faults, not every profile came to run"
}

// wellServed tells whether each profile runs at one member that knows it.
func (w *world) wellServed() bool {
	for _, n := range w.nodes {
		if n.agent.session.lease == 0 || len(n.agent.vacant) > 0 {
			return false
		}
	}
	view := w.nodes[0].agent.view
	for name := range view.Profiles {
		found := 0
		for _, n := range w.nodes {
			if h := n.agent.held[name]; h != nil && h.Phase == Running && n.runs[name].fence == h.Fence && !n.runs[name].ended {
				found++
			}
		}
		if found != 1 {
			return false
		}
	}
	return len(view.Profiles) > 0
}

// TestRandomLives holds that no two gateways of a profile are alive at once, whatever
// happens, and that each profile runs once the faults are over.
func TestRandomLives(t *testing.T) {
	counts := map[string]int{}
	from, to := uint64(1), uint64(*walks)
	if *seed != 0 {
		from, to = *seed, *seed
	}
	for s := from; s <= to; s++ {
		w, wrong := walk(s, rules{})
		if wrong != "" {
			t.Fatalf("seed %d: %s\n%s", s, wrong, w)
		}
		for k, n := range w.counts {
			counts[k] += n
		}
	}
	t.Logf("%d lives: %v", to-from+1, counts)
	for _, k := range []string{"deadline", "expired", "evicted", "started", "released", "unanswered", "partition", "frozen", "agent killed", "box killed", "box mute", "moved", "drained", "changed", "leader", "old leader", "crashed", "restored", "stored", "stored late", "ended at once", "full"} {
		if *seed == 0 && counts[k] == 0 {
			t.Errorf("never in all the lives: %s", k)
		}
	}
}

// TestBrokenWorlds holds that the lives find what is wrong if one part of the world does
// not keep its word. What the agent itself may do wrong is in the package mutants.
func TestBrokenWorlds(t *testing.T) {
	for name, r := range map[string]rules{
		"PID 1 keeps no deadline":           {noDeadline: true},
		"PID 1 revives":                     {revive: true},
		"PID 1 starts after the deadline":   {anyTime: true},
		"a claim asks for nothing":          {claimAny: true},
		"a claim does not compare the mark": {markAny: true},
		"sent is when the answer came":      {sentLate: true},
		"a keep-alive counts as a beat":     {beatKept: true},
		"a release takes any fence":         {releaseAny: true},
		"clocks are 10 % slow":              {drift: true},
		"a save that comes late counts":     {putAny: true},
		"a restore leaves what is there":    {restoreNot: true},
	} {
		t.Run(name, func(t *testing.T) {
			for s := uint64(1); s <= 20_000; s++ {
				if w, _ := walk(s, r); w.failure != "" {
					t.Logf("found in life %d: %s", s, w.failure)
					return
				}
			}
			t.Error("20,000 lives do not find it")
		})
	}
}
