package registry

import (
	"log/slog"
	"sync/atomic"
	"time"

	"rlminit/internal/inbox"
)

// trouble is that the volume's profiles cannot be read. The goroutine's, but for why.
type trouble struct {
	queue inbox.Work
	try   func() // reads them again

	is    atomic.Pointer[string] // why they could not be read; nil: they could
	again time.Duration          // until they are looked at again; 0: they are not
}

// why says why they cannot be read; "" if they can.
func (t *trouble) why() string {
	if why := t.is.Load(); why != nil {
		return *why
	}
	return ""
}

// The profiles are looked at again this long after they could not be read, and
// then after twice the time each, up to the last.
const (
	againFirst = time.Second
	againLast  = 30 * time.Second
)

// lookAgain says that the profiles could not be read, and has it tried until they
// can: nobody else would tell.
func (t *trouble) lookAgain(err error) {
	why := err.Error()
	if before := t.is.Swap(&why); before == nil || *before != why {
		slog.Error("the profiles cannot be read; that is tried again until they can", "err", err)
	}
	if t.again > 0 {
		t.again = min(2*t.again, againLast)
	} else {
		t.again = againFirst
	}
	time.AfterFunc(t.again, func() {
		t.queue.Do(func() {
			if t.why() != "" {
				t.try()
			}
		})
	})
}

// well is told when the profiles could be read.
func (t *trouble) well() {
	if t.again = 0; t.is.Swap(nil) != nil {
		slog.Info("the profiles can be read now")
	}
}
