package machine_test

import (
	"flag"
	"testing"
	"time"

	"rlminit/tests/explorelife"
)

var (
	seed  = flag.Uint64("seed", 0, "take the one random walk of this seed (0: a million steps of new ones)")
	steps = flag.Int("steps", 1000, "steps of a random walk")
)

// A million random steps, under every kind of policy, break no invariant. A
// failure names its seed: go test -run RandomWalks -seed N takes it again.
func TestRandomWalks(t *testing.T) {
	if *seed != 0 {
		if _, err := explorelife.Walk(*seed, *steps); err != nil {
			t.Fatal(err)
		}
		return
	}
	total := 1_000_000
	first, spawns := uint64(time.Now().UnixNano()), 0
	for n := range uint64(total / *steps) {
		count, err := explorelife.Walk(first+n, *steps)
		if err != nil {
			t.Fatalf("-seed %d -steps %d: %v", first+n, *steps, err)
		}
		spawns += count
	}
	t.Logf("%d steps from seed %d, with %d spawns", total, first, spawns)
	if spawns < total/100 {
		t.Errorf("only %d spawns: the walks do not walk", spawns)
	}
}
