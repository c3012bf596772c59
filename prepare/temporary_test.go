package prepare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/wire"
)

// RemoveTemporary removes as root: nothing but what a start of rlminit has made for
// temporary files, and nothing that a start which lives has locked.
func TestRemoveTemporary(t *testing.T) {
	made := func(name string) string {
		t.Helper()
		path := wire.TemporaryPrefix + name
		if err := os.MkdirAll(filepath.Join(path, "web", "deep"), 0o711); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(path) })
		return path
	}
	remove := func(path string) error {
		t.Helper()
		fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		return RemoveTemporary(fd)
	}
	there := func(path string) bool {
		_, err := os.Lstat(path)
		return err == nil
	}

	ours := made("0123456789abcdef")
	if err := remove(filepath.Join(ours, "web")); err != nil || there(filepath.Join(ours, "web")) || !there(ours) {
		t.Errorf("a service's: %v", err)
	}
	if err := remove(ours); err != nil || there(ours) {
		t.Errorf("that of an earlier start: %v", err)
	}

	locked := made("fedcba9876543210")
	fd, err := unix.Open(locked, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Flock(fd, unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	if err := remove(locked); err != nil || !there(filepath.Join(locked, "web")) {
		t.Errorf("that of a container that lives was removed: %v", err)
	}

	other := t.TempDir()
	precious := filepath.Join(other, "precious")
	if err := os.Mkdir(precious, 0o755); err != nil {
		t.Fatal(err)
	}
	link := wire.TemporaryPrefix + "00000000000000aa"
	if err := os.Symlink(precious, link); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(link) })
	deep := filepath.Join(locked, "web", "deep") // two below the top
	for _, path := range []string{precious, link, deep, filepath.Dir(wire.TemporaryPrefix)} {
		if err := remove(path); err == nil || !strings.Contains(err.Error(), "is no directory for temporary files") || !there(precious) || !there(deep) {
			t.Errorf("%s: %v", path, err)
		}
	}

	if os.Geteuid() == 0 {
		foreign := made("1111111111111111")
		if err := os.Chown(foreign, 61234, 61234); err != nil {
			t.Fatal(err)
		}
		if err := remove(foreign); err == nil || !strings.Contains(err.Error(), "belongs to uid 61234") || !there(filepath.Join(foreign, "web")) {
			t.Errorf("one that somebody else has made: %v", err)
		}
	}
}
