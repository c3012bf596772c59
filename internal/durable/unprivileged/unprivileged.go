// Package unprivileged runs a test a second time as an ordinary user, because
// root's rights hide what the service user meets. Only tests import it.
package unprivileged

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// UID and GID are those of the second run.
const (
	UID = 61234
	GID = 61235
)

// alone names the variable that tells the second run of Alone.
const alone = "RLMINIT_TEST_ALONE"

// prepared names the variable with the directory that root made for the run.
const prepared = "RLMINIT_TEST_PREPARED"

// Rerun runs the calling test as UID and returns true, when called by root: the
// caller returns then. In that second run, and for anyone but root, it returns
// false. prepare may be nil; root calls it first with a directory that belongs
// to UID, which Dir gives to the second run.
func Rerun(t *testing.T, prepare func(dir string)) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		if prepare != nil && os.Getenv(prepared) == "" {
			t.Skip("needs root, to make files of another user")
		}
		return false
	}
	dir, err := os.MkdirTemp("", "rlminit-unprivileged-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	temp := filepath.Join(dir, "tmp")
	for _, d := range []string{dir, temp} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(d, UID, GID); err != nil {
			t.Fatal(err)
		}
	}
	if prepare != nil {
		prepare(dir)
	}
	again(t, &syscall.Credential{Uid: UID, Gid: GID}, "TMPDIR="+temp, prepared+"="+dir)
	return true
}

// Alone runs the calling test in a process of its own, by root as a user whom
// nobody else is, and returns true: the caller returns then. In that second run
// it returns false. It is for what the kernel counts by user, but not for root.
func Alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(alone) != "" {
		return false
	}
	var as *syscall.Credential
	if os.Geteuid() == 0 {
		id := uint32(1_000_000 + os.Getpid())
		as = &syscall.Credential{Uid: id, Gid: id}
	}
	again(t, as, alone+"=1")
	return true
}

// again runs the calling test a second time; as nil: as who we are.
func again(t *testing.T, as *syscall.Credential, env ...string) {
	t.Helper()
	// go test builds into a directory that only root may enter.
	run := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=60s")
	run.Dir = "/"
	run.Env = append(os.Environ(), env...)
	run.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("as another user: %v\n%s", err, out)
	}
}

// Dir is the directory that prepare was called with.
func Dir() string { return os.Getenv(prepared) }
