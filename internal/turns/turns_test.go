package turns

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// No more than there are turns are at it at a time, but for those whose turn is
// over; and everybody comes to it.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New(3)
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

// Of those that are late there are no more than may be; the others keep their turns
// until they come back.
func TestFewAreLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewBounded(2, 3)
		var done []func()
		for range 5 { // three are late, two have a turn
			done = append(done, turns.Take(time.Second))
		}
		got := make(chan func())
		go func() { got <- turns.Take(time.Second) }()
		time.Sleep(time.Minute)
		select {
		case <-got:
			t.Fatal("there is a sixth")
		default:
		}
		done[0]()
		done[4]()
		done = append(done[1:4], <-got)
		for _, f := range done {
			f()
		}
		if len(turns.held) != 0 || turns.late != 0 {
			t.Errorf("%d turns and %d late ones are left", len(turns.held), turns.late)
		}
	})
}

// A turn that nobody waits for has no timer: it would be a wake-up for each.
func TestNobodyIsWokenWhileNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New(1)
		done := turns.Take(time.Second)
		if turns.watch != nil {
			t.Error("a timer runs")
		}
		got := make(chan func())
		go func() { got <- turns.Take(time.Second) }()
		synctest.Wait()
		if turns.watch == nil {
			t.Error("no timer runs, and somebody waits")
		}
		done()
		(<-got)()
	})
}
