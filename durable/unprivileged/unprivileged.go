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
	// go test builds into a directory that only root may enter.
	again := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	again.Dir = "/"
	again.Env = append(os.Environ(), "TMPDIR="+temp, prepared+"="+dir)
	again.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: UID, Gid: GID}}
	if out, err := again.CombinedOutput(); err != nil {
		t.Fatalf("as uid %d: %v\n%s", UID, err, out)
	}
	return true
}

// Dir is the directory that prepare was called with.
func Dir() string { return os.Getenv(prepared) }
