package ns

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestNoThread: where no thread can be had, the command line says so in one line,
// however early that is.
func TestNoThread(t *testing.T) {
	if !Privileged() {
		t.Skip("needs root: it is about a user who has nothing else running")
	}
	const nobodyElse = 61239
	lacking, done := 0, 0
	for most := 1; most <= 24; most++ {
		cmd := exec.Command("bash", "-c", fmt.Sprintf("ulimit -u %d; exec %s version", most, filepath.Join(programs, "rlminit")))
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyElse, Gid: nobodyElse}}
		out, err := cmd.CombinedOutput()
		said := string(out)
		switch {
		case err == nil && strings.HasPrefix(said, "rlminit "):
			done++
		case cmd.ProcessState.ExitCode() == 1 && strings.HasPrefix(said, "rlminit: cannot go on: the limit on processes") && strings.Count(said, "\n") == 1:
			lacking++
		default:
			t.Errorf("with %d: %v, %s", most, err, said)
		}
	}
	if lacking == 0 || done == 0 {
		t.Errorf("%d times there was no thread, %d times enough", lacking, done)
	}
}
