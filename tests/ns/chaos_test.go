package ns

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
	"rlminit/tests/load"
)

// TestChaos is half a minute of it, or as long as make chaos wants.
func TestChaos(t *testing.T) {
	if !Privileged() {
		t.Skip("needs root: it fills /run and the volume")
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
	home := filepath.Join(t.TempDir(), "data")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(home); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) { // which root alone could enter
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("tmpfs", home, "tmpfs", 0, fmt.Sprintf("size=64m,mode=755,uid=%d,gid=%d", box.Service.UID, box.Service.GID)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(home, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	load.Chaos(t, Start, load.Trouble{Seed: seed, Lasts: lasts, Clients: 4, Each: 5, Home: home})
}
