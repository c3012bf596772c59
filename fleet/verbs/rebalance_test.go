package verbs

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"rlminit/fleet/agent"
)

// drawn is a fleet whose profiles are wherever there was room when they came.
func drawn(r *rand.Rand) *agent.View {
	v := agent.NewView()
	zones := []string{"a", "b"}
	for i := range 1 + r.IntN(7) {
		m := agent.Member{Weight: float64(1 + r.IntN(3)), Labels: map[string]string{"zone": zones[r.IntN(2)]}}
		if r.IntN(4) > 0 {
			m.Capacity = 1 + r.IntN(4)
		}
		v.Apply(agent.Change{Name: fmt.Sprintf("m%d", i), Value: &m})
	}
	for i := range r.IntN(20) {
		name, p := fmt.Sprintf("p%02d", i), agent.Profile{Stopped: r.IntN(20) == 0}
		if r.IntN(3) == 0 {
			p.Labels = map[string]string{"zone": zones[r.IntN(2)]}
		}
		v.Apply(agent.Change{Name: name, Value: &p})
		if order := v.Place(name); len(order) > 0 && r.IntN(10) > 0 {
			v.Apply(agent.Change{Name: name, Value: &agent.Owner{Member: order[r.IntN(len(order))], Fence: int64(i + 1)}})
		}
		if r.IntN(8) == 0 { // it is declared anew, with labels that its member may not have
			p.Labels = map[string]string{"zone": zones[r.IntN(2)]}
			v.Apply(agent.Change{Name: name, Value: &p})
		}
		if order := v.Place(name); len(order) > 0 && r.IntN(15) == 0 {
			v.Apply(agent.Change{Name: name, Value: &agent.Move{To: order[r.IntN(len(order))]}})
		}
	}
	if r.IntN(4) == 0 {
		v.Apply(agent.Change{Name: "m0", Value: &agent.Drain{}})
	}
	if r.IntN(4) == 0 {
		v.Apply(agent.Change{Name: "m1", Gone: true, Value: (*agent.Member)(nil)})
	}
	if r.IntN(2) == 0 {
		v.Apply(agent.Change{Name: "new", Value: &agent.Member{Capacity: r.IntN(4)}})
	}
	return v
}

// TestRebalanced holds over fleets that are drawn: whatever order the moves of a wave come
// about in, no member ever has more than its capacity, with what moves to it besides; each
// move is possible when its wave begins; and after one pass nothing is to move any more.
func TestRebalanced(t *testing.T) {
	moves, twice := 0, 0
	for seed := range uint64(10_000) {
		r := rand.New(rand.NewPCG(seed, 0))
		v := drawn(r)
		seen := map[string]bool{}
		for _, wave := range rebalanced(v, 1+r.IntN(4)) {
			room := rooms(v)
			for _, m := range wave {
				if room[m.To]--; room[m.To] < 0 {
					t.Fatalf("seed %d: %v: %s has no room", seed, wave, m.To)
				}
				if at := v.Owners[m.Profile].Member; at != m.From {
					t.Fatalf("seed %d: %v: %s is at %s", seed, wave, m.Profile, at)
				}
				if why := v.Why(m.To, m.Profile); why != "" {
					t.Fatalf("seed %d: %v: %s does not take %s: %s", seed, wave, m.To, m.Profile, why)
				}
				moves++
				if seen[m.Profile] {
					twice++
				}
				seen[m.Profile] = true
			}
			for _, m := range wave {
				v.Apply(agent.Change{Name: m.Profile, Value: &agent.Owner{Member: m.To, Fence: v.Owners[m.Profile].Fence + 100}})
			}
		}
		if again := rebalanced(v, 1); len(again) > 0 {
			t.Fatalf("seed %d: a second pass would move %v", seed, slices.Concat(again...))
		}
	}
	t.Logf("%d moves, of which %d moved one again", moves, twice)
	if moves == 0 {
		t.Error("nothing moved")
	}
}

// Two profiles want to be at a member of capacity 1: one moves there, and the other one
// stays. A full ring of members swaps nothing.
func TestRebalancedWithinCapacity(t *testing.T) {
	fleet := func(capacity int, owners map[string]string) *agent.View {
		v := agent.NewView()
		v.Apply(agent.Change{Name: "m0", Value: &agent.Member{Capacity: capacity}})
		v.Apply(agent.Change{Name: "m1", Value: &agent.Member{Weight: 1000, Capacity: 1}})
		for name, at := range owners {
			v.Apply(agent.Change{Name: name, Value: &agent.Profile{}})
			v.Apply(agent.Change{Name: name, Value: &agent.Owner{Member: at, Fence: 1}})
		}
		return v
	}
	if all := rebalanced(fleet(0, map[string]string{"alice": "m0", "bob": "m0"}), 5); fmt.Sprint(all) != "[[{alice m0 m1}]]" {
		t.Errorf("two for one place: %v", all)
	}
	if all := rebalanced(fleet(1, map[string]string{"alice": "m0", "bob": "m1"}), 5); len(all) > 0 {
		t.Errorf("both are full: %v", all)
	}
}
