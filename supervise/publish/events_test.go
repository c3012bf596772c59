package publish

import (
	"encoding/json"
	"testing"

	"rlminit/control"
)

// A new reader is shown the newest events, in their order, however many there were.
func TestNewestEvents(t *testing.T) {
	for _, published := range []int{0, 1, eventsKept - 1, eventsKept, eventsKept + 1, 3*eventsKept + 7} {
		e := NewEvents()
		for range published {
			e.Publish(control.Event{})
		}
		past, _, cancel := e.subscribe()
		cancel()
		if len(past) != min(published, eventsKept) {
			t.Errorf("of %d events %d are shown", published, len(past))
		}
		for i := range past {
			if want := uint64(published - len(past) + i + 1); past[i].Seq != want {
				t.Fatalf("of %d events, the one shown at %d has number %d, and should have %d", published, i, past[i].Seq, want)
			}
		}
	}
}

// A reader that goes on after an event is shown those that follow on it, once each.
func TestEventsAfter(t *testing.T) {
	e := NewEvents()
	for range 10 {
		e.Publish(control.Event{})
	}
	var seen []uint64
	err := e.Read(t.Context(), control.EventQuery{After: 7}, func(line []byte) error {
		var event control.Event
		err := json.Unmarshal(line, &event)
		seen = append(seen, event.Seq)
		return err
	}, func() {})
	if err != nil || len(seen) != 3 || seen[0] != 8 || seen[2] != 10 {
		t.Errorf("%v, %v", seen, err)
	}
}
