package nemesis_test

import (
	"slices"
	"testing"
	"time"

	"rlminit/fleet/test/nemesis"
)

var (
	members = []string{"m0", "m1", "m2", "m3", "m4"}
	nodes   = []string{"e0", "e1", "e2"}
)

// TestPlan: a seed always draws the same faults, another one others; all are over
// before the end; two members at most, and one node, are drawn at once; and in half
// an hour each kind is.
func TestPlan(t *testing.T) {
	const run = 30 * time.Minute
	plan := nemesis.Plan(1, run, members, nodes)
	if !slices.Equal(plan, nemesis.Plan(1, run, members, nodes)) {
		t.Error("a seed draws different plans")
	}
	if slices.Equal(plan, nemesis.Plan(2, run, members, nodes)) {
		t.Error("two seeds draw one plan")
	}
	kinds := map[string]int{}
	for i, s := range plan {
		kinds[s.Kind]++
		if s.At+s.For > run || s.For > time.Minute {
			t.Errorf("%+v is not over in time", s)
		}
		hit := map[bool]int{}
		for _, o := range plan[:i+1] {
			if o.At+o.For >= s.At {
				hit[slices.Contains(nodes, o.Target)]++
			}
		}
		if hit[true] > 1 || hit[false] > 2 {
			t.Errorf("at %s %d nodes and %d members are hit", s.At, hit[true], hit[false])
		}
	}
	if len(kinds) != 19 {
		t.Errorf("%d kinds of fault were drawn: %v", len(kinds), kinds)
	}
}
