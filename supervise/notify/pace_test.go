package notify

import (
	"testing"
	"time"
)

// However somebody sends, what is taken in stays within burst and rate, and whoever
// stays within them never waits.
func TestPaceBounds(t *testing.T) {
	for files := range MaxFiles + 1 {
		var p Pace
		now := time.Unix(0, 0)
		cost, taken := 1+fileCost*files, 0
		for taken < 50_000 {
			pause := p.Pause(now, files)
			if pause > longestPause+time.Second {
				t.Fatalf("a pause of %s", pause)
			}
			taken += cost
			now = now.Add(pause)
		}
		// A pause is bounded, so that a socket can be closed: a message that is worth
		// more than that comes cheaper, and still one in two seconds.
		most := float64(max(messagesEach, float64(cost)/longestPause.Seconds()))
		if seconds := now.Sub(time.Unix(0, 0)).Seconds(); float64(taken)-messagesBurst > most*(seconds+1)+float64(cost) {
			t.Errorf("%d files: %d taken in %.1f s", files, taken, seconds)
		}
	}
	var p Pace
	now := time.Unix(0, 0)
	for range 10_000 {
		if pause := p.Pause(now, 0); pause > 0 {
			t.Fatalf("a polite sender waits %s", pause)
		}
		now = now.Add(time.Second / messagesEach)
	}
}
