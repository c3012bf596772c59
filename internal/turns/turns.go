// Package turns bounds how many do something at a time that may wait in the kernel,
// so that one that waits for a file system which does not answer keeps nobody from
// those that do.
package turns

import (
	"sync"
	"time"
)

// Turns are those that may be taken at a time. With nil nobody waits for anybody.
type Turns struct {
	free chan struct{} // Invariant: one for each that is taken and not late
	late chan struct{} // the same for those that are; nil: they are not counted
}

// New is n turns.
func New(n int) *Turns { return &Turns{free: make(chan struct{}, n)} }

// NewBounded is n turns, of which late at most go on when they were to be over.
func NewBounded(n, late int) *Turns {
	return &Turns{free: make(chan struct{}, n), late: make(chan struct{}, late)}
}

// Take waits for a turn, which done ends; it may be called more than once. After lasts
// somebody else may have it, and the caller is late, if there may be one more.
func (t *Turns) Take(lasts time.Duration) (done func()) {
	if t == nil {
		return func() {}
	}
	t.free <- struct{}{}
	var mu sync.Mutex
	held := t.free // nil: nothing is
	over := time.AfterFunc(lasts, func() {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case held == nil:
			return
		case t.late == nil:
			held = nil
		default:
			select {
			case t.late <- struct{}{}:
				held = t.late
			default:
				return // it keeps its own
			}
		}
		<-t.free
	})
	return func() {
		over.Stop()
		mu.Lock()
		defer mu.Unlock()
		if held != nil {
			<-held
			held = nil
		}
	}
}
