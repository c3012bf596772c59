package reap

import "testing"

// Signals that come before the main command has begun wait up to their bound; one past it is
// lost, and PID 1 keeps no more memory.
func TestOneSignalTooMany(t *testing.T) {
	m := &mainCommand{process: process{spawning: true}}
	for range mostWaiting + 1 {
		m.forward(15)
	}
	if len(m.waiting) != mostWaiting {
		t.Errorf("%d wait", len(m.waiting))
	}
}
