package threads

import (
	"os"
	"testing"
)

// What is reserved is there, and stays.
func TestReserve(t *testing.T) {
	const n = 12
	if err := ReserveSome(n); err != nil {
		t.Fatal(err)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil || len(threads) < n {
		t.Errorf("%d threads, %v", len(threads), err)
	}
}
