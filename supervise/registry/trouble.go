package registry

import (
	"log/slog"
	"sync/atomic"
	"time"

	"rlminit/internal/inbox"
)

// trouble is that something cannot be read now: the volume's profiles, or the service
// directory. The goroutine's, but for why.
type trouble struct {
	queue     inbox.Work
	try       func() // reads it again
	says      string // the message when it cannot be read,
	saysAgain string // and when it can again

	is    atomic.Pointer[string] // why it could not be read; nil: it could
	again time.Duration          // until it is looked at again; 0: it is not
	armed bool                   // it will be
}

// why says why it cannot be read; "" if it can.
func (t *trouble) why() string {
	if why := t.is.Load(); why != nil {
		return *why
	}
	return ""
}

// It is looked at again this long after it could not be read, and
// then after twice the time each, up to the last.
const (
	againFirst = time.Second
	againLast  = 30 * time.Second
)

// lookAgain says that it could not be read, and has it tried until it can: nobody else
// would tell.
func (t *trouble) lookAgain(err error) {
	why := err.Error()
	if before := t.is.Swap(&why); before == nil || *before != why {
		slog.Error(t.says, "err", err)
	}
	if t.armed {
		return
	}
	t.armed = true
	if t.again > 0 {
		t.again = min(2*t.again, againLast)
	} else {
		t.again = againFirst
	}
	time.AfterFunc(t.again, func() {
		t.queue.Do(func() {
			t.armed = false
			if t.why() != "" {
				t.try()
			}
		})
	})
}

// well is told when it could be read.
func (t *trouble) well() {
	if t.again = 0; t.is.Swap(nil) != nil {
		slog.Info(t.saysAgain)
	}
}
