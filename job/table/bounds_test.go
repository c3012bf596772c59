package table

import (
	"fmt"
	"testing"
	"time"
)

// One past each bound of what is remembered, the oldest of it is forgotten, and nothing else.
func TestTheOldestIsForgotten(t *testing.T) {
	h := New()
	apply := func(kind, line string) { h.Apply(Record{Type: kind, At: time.Unix(1, 0), Line: []byte(line)}) }
	for n := 1; n <= mostTurnedAway+1; n++ {
		apply(TypeSubmitted, fmt.Sprintf(`{"job":"%d","kind":"run","turned_away":true}`, n))
		apply(TypeFailed, fmt.Sprintf(`{"job":"%d","state":"refused"}`, n))
	}
	if h.Jobs["1"] != nil || h.Jobs["2"] == nil || len(h.TurnedAway) != mostTurnedAway {
		t.Errorf("of those turned away are remembered %d, the first of them %v", len(h.TurnedAway), h.TurnedAway[:1])
	}
	for n := 1; n <= mostOverSessions+1; n++ {
		apply(TypeSessionCreated, fmt.Sprintf(`{"session":"%d","ttl_ms":1000}`, n))
		h.Apply(Record{Type: TypeSessionEnded, At: time.Unix(int64(n), 0), Line: fmt.Appendf(nil, `{"session":"%d"}`, n)})
	}
	if h.Sessions["1"] != nil || h.Sessions["2"] == nil || len(h.Sessions) != mostOverSessions {
		t.Errorf("of sessions that are over are remembered %d", len(h.Sessions))
	}
	for n := 1; n <= mostSchedules+1; n++ {
		apply(TypeScheduled, fmt.Sprintf(`{"schedule":"x%d","cron":"* * * * *"}`, n))
	}
	if len(h.Schedules) != mostSchedules || h.Schedules["x1"] == nil {
		t.Errorf("of schedules are remembered %d", len(h.Schedules))
	}
}
