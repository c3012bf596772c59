package threads

import (
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What is reserved is there, and stays.
func TestReserve(t *testing.T) {
	const n = 12
	if err := ReserveSome(n); err != nil {
		t.Fatal(err)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil || len(threads) < n {
		t.Errorf("%d threads, %v", len(threads), err)
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
