package ns

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"rlminit/tests/load"
)

// TestChaos is half a minute of it, or as long as make chaos wants.
func TestChaos(t *testing.T) {
	if !Privileged() {
		t.Skip("needs root: it fills /run")
	}
	lasts, seed := 30*time.Second, rand.Uint64()
	if text := os.Getenv("RLMINIT_CHAOS"); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv("RLMINIT_CHAOS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	load.Chaos(t, Start, seed, lasts, 4, 5)
}
