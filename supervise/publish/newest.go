package publish

import (
	"context"
	"sync"
	"time"
)

// Newest hands values on to be written beside those who make them. Of several
// values of one key that wait only the newest is written: a slow disk costs
// freshness, never memory or time of the loop.
type Newest[K comparable, V any] struct {
	write func(map[K]V) (failed map[K]V) // which are written again
	pause time.Duration                  // how long a value waits for a newer one

	mu      sync.Mutex
	next    *batch[K, V] // what waits
	current *batch[K, V] // what is being written; nil: nothing
	wake    chan struct{}
	hurry   chan struct{}
}

// batch is what is written together.
type batch[K comparable, V any] struct {
	values map[K]V
	done   chan struct{} // closed when it is written
}

func newBatch[K comparable, V any]() *batch[K, V] {
	return &batch[K, V]{values: map[K]V{}, done: make(chan struct{})}
}

// newNewest has values written by write, pause after the first of them has come.
func newNewest[K comparable, V any](pause time.Duration, write func(map[K]V) map[K]V) *Newest[K, V] {
	n := &Newest[K, V]{
		write: write, pause: pause, next: newBatch[K, V](),
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
	}
	go n.run()
	return n
}

// Put has a value written soon.
func (n *Newest[K, V]) Put(key K, value V) {
	n.mu.Lock()
	n.next.values[key] = value
	n.mu.Unlock()
	nudge(n.wake)
}

// Flush waits until all that was put before is written, or ctx ends.
func (n *Newest[K, V]) Flush(ctx context.Context) {
	n.mu.Lock()
	b := n.current
	if len(n.next.values) > 0 {
		b = n.next
	}
	n.mu.Unlock()
	if b == nil {
		return
	}
	nudge(n.hurry)
	nudge(n.wake) // what has failed is tried at once
	select {
	case <-b.done:
	case <-ctx.Done():
	}
}

// Close writes nothing any more.
func (n *Newest[K, V]) Close() {
	close(n.wake)
	n.wake = nil
}

// Again is how long what could not be written waits for the next try.
const Again = 5 * time.Second

func (n *Newest[K, V]) run() {
	wake, again := n.wake, (<-chan time.Time)(nil)
	for {
		select {
		case _, more := <-wake:
			if !more {
				return
			}
		case <-again:
		}
		select {
		case <-time.After(n.pause):
		case <-n.hurry:
		}
		n.mu.Lock()
		b := n.next
		n.next, n.current = newBatch[K, V](), b
		n.mu.Unlock()
		failed := n.write(b.values)
		n.mu.Lock()
		n.current = nil
		for key, value := range failed {
			if _, newer := n.next.values[key]; !newer {
				n.next.values[key] = value
			}
		}
		n.mu.Unlock()
		again = nil
		if len(failed) > 0 {
			again = time.After(Again)
		}
		close(b.done)
	}
}

// nudge leaves a token in a channel that has room for one.
func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
