package service

import (
	"math"
	"slices"
	"time"
)

// reachTries is how many delays in a row differ at the most: the supervisor counts no
// further.
const reachTries = 64

// Unreachable tells whether Limit can never count for runs that were ready: as many
// restarts take longer than Window, though each run ends as soon as it may. takes is how
// long they take at the least, with every delay shortened by chance. A run that
// was never ready counts whatever the window.
func (r *Restart) Unreachable() (takes time.Duration, is bool) {
	if r.Limit <= 0 || r.Policy == RestartNo {
		return 0, false
	}
	var none, least [reachTries + 1]float64 // nanoseconds, by how many delays there were in a row
	for i := range none {
		none[i] = math.Inf(1)
	}
	least = none
	least[0] = 0
	for range r.Limit {
		next := none
		for tries, before := range least { // it was not healthy, and waits longer each time
			n := min(tries+1, reachTries)
			next[n] = min(next[n], before+r.shortest(tries))
		}
		next[0] = min(next[0], slices.Min(least[:])+float64(r.ResetAfter)) // it was, and is restarted at once
		least = next
	}
	takes = time.Duration(min(slices.Min(least[:]), math.MaxInt64/2))
	return takes, takes >= r.Window
}

// shortest is the shortest delay after so many in a row, in nanoseconds.
func (r *Restart) shortest(tries int) float64 {
	d := float64(r.Delay) * math.Pow(max(r.Factor, 1), float64(tries))
	if r.MaxDelay > 0 {
		d = min(d, float64(r.MaxDelay))
	}
	return d * (1 - r.Jitter)
}
