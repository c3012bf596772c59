package supervise

import (
	"testing"
	"time"
)

// A launch alone is stuck after two seconds; among others that come to their end it
// has time, but not for ever.
func TestStuckIn(t *testing.T) {
	const s = time.Second
	for _, c := range []struct{ had, lastEnd, left time.Duration }{
		{0, time.Hour, 2 * s},
		{2 * s, time.Hour, 0},
		{2 * s, 2 * s, 0},
		{2 * s, s / 2, 3 * s / 2},
		{19 * s, 0, s},
		{20 * s, 0, 0},
		{21 * s, 0, -s},
		{s, 0, 2 * s},
	} {
		if left := stuckIn(c.had, c.lastEnd); left != c.left {
			t.Errorf("after %s, the last end %s ago: %s left, want %s", c.had, c.lastEnd, left, c.left)
		}
	}
}
