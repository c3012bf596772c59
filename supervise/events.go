package supervise

import (
	"slices"
	"sync"

	"rlminit/control"
)

// Bounds of what is kept for, and of, those who read events.
const (
	eventsKept   = 1024 // past events that a new reader is shown
	eventsBehind = 4096 // a reader that is further behind is cut off
)

// events keeps the newest transitions and hands each new one to all readers. It
// never waits for a reader: one that falls behind is closed, and knows it, for
// its channel ends.
//
// Invariant: past has at most eventsKept, of which the one that is numbered n is at
// n-1, modulo that.
type events struct {
	mu      sync.Mutex
	last    uint64
	past    []control.Event
	readers map[chan control.Event]struct{}
}

func newEvents() *events {
	return &events{readers: make(map[chan control.Event]struct{})}
}

// publish numbers the event, hands it on and returns it.
func (e *events) publish(event control.Event) control.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := e.last % eventsKept
	e.last++
	event.Seq = e.last
	if len(e.past) < eventsKept {
		e.past = append(e.past, event)
	} else {
		e.past[at] = event
	}
	for reader := range e.readers {
		select {
		case reader <- event:
		default:
			delete(e.readers, reader)
			close(reader)
		}
	}
	return event
}

// Subscribe returns the past events and a channel of those to come, which is
// closed when the reader fell behind. cancel ends the subscription.
func (e *events) Subscribe() (past []control.Event, next <-chan control.Event, cancel func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	reader := make(chan control.Event, eventsBehind)
	e.readers[reader] = struct{}{}
	return e.newest(), reader, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if _, ok := e.readers[reader]; ok {
			delete(e.readers, reader)
			close(reader)
		}
	}
}

// newest copies the events that are kept; the caller holds the lock.
func (e *events) newest() []control.Event {
	oldest := 0
	if len(e.past) == eventsKept {
		oldest = int(e.last % eventsKept)
	}
	return slices.Concat(e.past[oldest:], e.past[:oldest])
}
