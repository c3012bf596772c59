package publish

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"rlminit/control"
	"rlminit/journal"
)

// Bounds of what is kept for, and of, those who read events.
const (
	eventsKept   = 1024 // past events that a new reader is shown
	eventsBehind = 4096 // a reader that is further behind is cut off
)

// Events keeps the newest transitions and hands each new one to all readers. It
// never waits for a reader: one that falls behind is closed, and knows it, for
// its channel ends.
//
// Invariant: past has at most eventsKept, of which the one that is numbered n is at
// n-1, modulo that.
type Events struct {
	mu      sync.Mutex
	last    uint64
	past    []control.Event
	readers map[chan control.Event]struct{}
}

// NewEvents has none yet, and no reader.
func NewEvents() *Events {
	return &Events{readers: make(map[chan control.Event]struct{})}
}

// Publish numbers the event, hands it on and returns it.
func (e *Events) Publish(event control.Event) control.Event {
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

// subscribe returns the past events and a channel of those to come, which is
// closed when the reader fell behind. cancel ends the subscription.
func (e *Events) subscribe() (past []control.Event, next <-chan control.Event, cancel func()) {
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
func (e *Events) newest() []control.Event {
	oldest := 0
	if len(e.past) == eventsKept {
		oldest = int(e.last % eventsKept)
	}
	return slices.Concat(e.past[oldest:], e.past[:oldest])
}

// Read hands the events that a query asks for to each, those of the past first.
func (e *Events) Read(ctx context.Context, q control.EventQuery, each func(line []byte) error, caughtUp func()) error {
	past, next, cancel := e.subscribe()
	defer cancel()
	unwanted := func(event control.Event) bool {
		return event.Seq <= q.After || !q.Since.IsZero() && event.At.Before(q.Since) || !q.Until.IsZero() && event.At.After(q.Until) ||
			len(q.Types) > 0 && !slices.Contains(q.Types, cmp.Or(event.Type, journal.TypeTransition)) ||
			len(q.Names) > 0 && !slices.Contains(q.Names, event.Service)
	}
	give := func(event control.Event) error {
		if event.Raw != nil { // of another type
			return each(event.Raw)
		}
		event.Type = journal.TypeTransition
		line, err := json.Marshal(event)
		if err != nil {
			return err
		}
		return each(line)
	}
	past = slices.DeleteFunc(past, unwanted)
	if q.Last != nil {
		past = past[max(0, len(past)-*q.Last):]
	}
	for _, event := range past {
		if err := give(event); err != nil {
			return err
		}
	}
	for caughtUp(); q.Follow; {
		select {
		case event, ok := <-next:
			if !ok {
				return nil // too far behind
			}
			if unwanted(event) {
				continue
			}
			if err := give(event); err != nil {
				return err
			}
			caughtUp()
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}
