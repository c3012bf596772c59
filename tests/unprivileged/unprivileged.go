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

// InNamespace runs the calling test in a process of its own, as root of a new user
// namespace, and returns true: the caller returns then. In that second run it returns
// false. It is for limits of the kernel that each namespace has for itself, and skips
// the test where none can be made.
func InNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(alone) != "" {
		return false
	}
	run := second(t, &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}, alone+"=1")
	switch out, err := run.CombinedOutput(); {
	case err != nil && len(out) == 0:
		t.Skipf("needs a user namespace: %v", err)
	case err != nil:
		t.Errorf("in a user namespace: %v\n%s", err, out)
	}
	return true
}

// again runs the calling test a second time; as nil: as who we are.
func again(t *testing.T, as *syscall.Credential, env ...string) {
	t.Helper()
	if out, err := second(t, &syscall.SysProcAttr{Credential: as}, env...).CombinedOutput(); err != nil {
		t.Fatalf("as another user: %v\n%s", err, out)
	}
}

// second is another run of the calling test.
func second(t *testing.T, how *syscall.SysProcAttr, env ...string) *exec.Cmd {
	// go test builds into a directory that only root may enter.
	run := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=60s")
	run.Dir = "/"
	run.Env = append(os.Environ(), env...)
	run.SysProcAttr = how
	return run
}

// Dir is the directory that prepare was called with.
func Dir() string { return os.Getenv(prepared) }
