package threads

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestEnoughLeavesRoomForServices(t *testing.T) {
	for limit := 20; limit < 5000; limit++ {
		n := enough(limit)
		if n < fewest || n > most || n > fewest && n > (limit-fewestPIDs)/2 {
			t.Errorf("with a limit of %d there are %d threads", limit, n)
		}
	}
	if n := enough(pidsLimit()); n < fewest {
		t.Error(n)
	}
}

// No more than there are turns are at it at a time, but for those whose turn is
// over; and everybody comes to it.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := make(Turns, 3)
		var at, most, all atomic.Int32
		var everybody sync.WaitGroup
		for range 100 {
			everybody.Go(func() {
				done := turns.Take(time.Second)
				now := at.Add(1)
				for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
				}
				time.Sleep(10 * time.Millisecond)
				at.Add(-1)
				all.Add(1)
				done()
				done()
			})
		}
		everybody.Wait()
		if most.Load() != 3 || all.Load() != 100 {
			t.Errorf("%d at a time, %d in all", most.Load(), all.Load())
		}
		for range 3 {
			turns.Take(time.Second) // and never ends it
		}
		began := time.Now()
		turns.Take(time.Second)()
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("those who stay kept the next waiting for %s", waited)
		}
	})
}
