package logs

import (
	"strings"
	"testing"
)

// A log whose directory is one past the bound is refused.
func TestOnePastADirectory(t *testing.T) {
	for past := range 2 {
		cfg := Config{File: true, Dir: strings.Repeat("d", maxDir+past)}
		if err := cfg.validate(); (err != nil) != (past == 1) {
			t.Errorf("%d bytes: %v", len(cfg.Dir), err)
		}
	}
}

// When all queues together are at their bound, a log with a file has no more room than one
// without.
func TestQueuesOnePastTheirBound(t *testing.T) {
	s := &Slot{cfg: &Config{File: true}}
	for queued, want := range map[int]int{queuedMost - 1: queueMost, queuedMost: queueKeep} {
		if got := (&memory{queued: queued}).room(s); got != want {
			t.Errorf("with %d bytes in queues it has room for %d, not %d", queued, got, want)
		}
	}
}
