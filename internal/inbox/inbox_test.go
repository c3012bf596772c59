package inbox

import (
	"slices"
	"sync"
	"testing"
)

// What each of many puts in is taken, once and in its order, by one goroutine.
func TestEverythingOnceAndInOrder(t *testing.T) {
	const writers, each = 8, 1000
	b, taken := New[[2]int](), [writers][]int{}
	served := make(chan struct{})
	go func() {
		defer close(served)
		b.Serve(func(v [2]int) { taken[v[0]] = append(taken[v[0]], v[1]) }) // one goroutine: no lock
	}()
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				if !b.Put([2]int{w, i}) {
					t.Error("it is closed")
				}
			}
		})
	}
	all.Wait()
	b.Close()
	<-served
	for w, got := range taken {
		if len(got) != each || !slices.IsSorted(got) {
			t.Errorf("of writer %d came %d of %d, in order: %v", w, len(got), each, slices.IsSorted(got))
		}
	}
	if b.Put([2]int{}) || b.PutFirst([2]int{}) {
		t.Error("a closed one takes more")
	}
}

// What is to be first is done before what waits already, and the owner may ask for
// more itself.
func TestFirst(t *testing.T) {
	w, order := NewWork(), []string{}
	w.Do(func() { order = append(order, "second") })
	w.PutFirst(func() {
		order = append(order, "first")
		w.Do(func() { order = append(order, "third") })
	})
	go w.Run()
	w.Ask(func() {}) // the first is over, so the third is in
	w.Ask(func() {})
	if !slices.Equal(order, []string{"first", "second", "third"}) {
		t.Errorf("done were %v", order)
	}
	w.Close()
}

// An owner that waits by other means is told once for all that comes while it does
// something else, and takes it one after the other.
func TestRousing(t *testing.T) {
	roused := 0
	b := NewRousing[int](func() { roused++ })
	for i := range 3 {
		b.Put(i)
	}
	for i := range 3 {
		if v, waits := b.Next(); !waits || v != i || roused != 1 {
			t.Errorf("%d, %v, roused %d times", v, waits, roused)
		}
	}
	if _, waits := b.Next(); waits {
		t.Error("there is more")
	}
	b.Put(3)
	b.Close()
	if open := b.Put(4); open || roused != 2 {
		t.Errorf("closed: %v, roused %d times", !open, roused)
	}
	if v, waits := b.Next(); !waits || v != 3 {
		t.Errorf("what came before is lost: %d, %v", v, waits)
	}
}

// An owner that waits for other things too takes one thing for each token, and gets all in
// order, whether it is little or much and whoever puts it in.
func TestWake(t *testing.T) {
	b, tick := New[int](), make(chan struct{})
	close(tick)
	const many = 3000
	put, ticks := 0, 0
	more := func(n int) {
		for range min(n, many-put) {
			b.Put(put)
			put++
		}
	}
	more(1)
	for want := 0; want < many; {
		select {
		case <-b.Wake():
			v, waits := b.Next()
			if !waits {
				continue
			}
			if v != want {
				t.Fatalf("%d is taken, not %d", v, want)
			}
			want++
			more(1 + want%7)
		case <-tick:
			ticks++
		}
	}
	if _, waits := b.Next(); waits || ticks == 0 {
		t.Errorf("there is more: %v; the other had %d turns", waits, ticks)
	}
	allocations := testing.AllocsPerRun(1000, func() {
		b.Put(1)
		<-b.Wake()
		b.Next()
	})
	if allocations != 0 {
		t.Errorf("%v allocations for each", allocations)
	}
}
