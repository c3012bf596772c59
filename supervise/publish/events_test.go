package publish

import (
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
