// Package inbox is the way to a goroutine that owns something: what others put there
// it takes in the order in which it was put, one thing after the other. Nobody waits
// to put something in, so the owner may, too.
package inbox

import "sync"

// Inbox is what waits for its owner. There is no bound: who puts something in has it
// in memory anyway.
type Inbox[T any] struct {
	mu      sync.Mutex // never held while something is waited for
	waiting []T
	closed  bool
	rouse   func()        // tells the owner that something waits, where nothing did; under mu
	wake    chan struct{} // of New: has a token when something may wait; closed with the inbox
	few     [16]T         // where what waits lies as long as it is little
}

// New is an empty one, which nobody serves yet.
func New[T any]() *Inbox[T] {
	b := &Inbox[T]{wake: make(chan struct{}, 1)}
	b.rouse = func() {
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
	return b
}

// NewRousing is one whose owner waits by other means, which rouse ends, and takes what
// comes by Next. rouse never waits, and is not called once the inbox is closed.
func NewRousing[T any](rouse func()) *Inbox[T] { return &Inbox[T]{rouse: rouse} }

// Put has v taken after all that waits. It tells whether the inbox is open: from a
// closed one nothing is taken that comes later.
func (b *Inbox[T]) Put(v T) (open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		b.waiting = b.few[:0]
	}
	return b.put(append(b.waiting, v))
}

// PutFirst has v taken before all that waits.
func (b *Inbox[T]) PutFirst(v T) (open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.put(append([]T{v}, b.waiting...))
}

// put has all of it wait, and tells the owner. The caller holds b.mu.
func (b *Inbox[T]) put(all []T) (open bool) {
	if b.closed {
		return false
	}
	if len(b.waiting) == 0 {
		b.rouse()
	}
	b.waiting = all
	return true
}

// Next takes what has waited longest; false: nothing waits.
func (b *Inbox[T]) Next() (v T, waits bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return v, false
	}
	v, b.waiting[0] = b.waiting[0], v
	if b.waiting = b.waiting[1:]; len(b.waiting) > 0 && b.wake != nil && !b.closed {
		b.rouse()
	}
	return v, true
}

// Wake is for an owner that waits for other things too, of an inbox of New. It has a token
// as long as something waits, and now and then another one. Whoever takes one calls Next.
func (b *Inbox[T]) Wake() <-chan struct{} { return b.wake }

// Serve is the owner's life: it returns when the inbox was closed, after what was put
// in before that.
func (b *Inbox[T]) Serve(take func(T)) {
	for range b.wake {
		for v, waits := b.Next(); waits; v, waits = b.Next() {
			take(v)
		}
	}
}

// Close ends the owner's life.
func (b *Inbox[T]) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.wake != nil {
		close(b.wake)
	}
}

// Work is an inbox of what its owner is to do.
type Work struct{ *Inbox[func()] }

// NewWork is an empty one, which nobody serves yet.
func NewWork() Work { return Work{New[func()]()} }

// Do has f done some time.
func (w Work) Do(f func()) { w.Put(f) }

// Ask has f done and waits until it was. It is not for the owner.
func (w Work) Ask(f func()) {
	done := make(chan struct{})
	w.Put(func() {
		defer close(done)
		f()
	})
	<-done
}

// Run is Serve for what is to be done.
func (w Work) Run() { w.Serve(func(f func()) { f() }) }
