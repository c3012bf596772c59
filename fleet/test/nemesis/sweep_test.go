package nemesis

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// TestSweep: what a run left that has ended is removed, and what one has that goes on
// is not.
func TestSweep(t *testing.T) {
	if _, err := exec.LookPath("docker"); err != nil {
		t.Skip("needs the docker command")
	}
	if _, err := docker("version"); err != nil {
		t.Skip("needs a Docker engine")
	}
	t.Setenv("TMPDIR", t.TempDir())
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	mine, err := Dir()
	if err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(os.TempDir(), "rlminit-fleet-"+strconv.Itoa(ended.Process.Pid)+"-1")
	if err := os.MkdirAll(filepath.Join(old, "recordings"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("what an ended run left is there: %v", err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("what this run has was removed: %v", err)
	}
}
