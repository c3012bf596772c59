package files

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// did runs one thing, and returns its exit code and what it printed on both.
func did(in string, args ...string) (code int, out, err string) {
	var o, e bytes.Buffer
	code = Run(args, strings.NewReader(in), &o, &e)
	return code, o.String(), e.String()
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// A session's directory is made by it alone; what a predecessor had made is its own.
func TestADirectoryIsNotTaken(t *testing.T) {
	dir := t.TempDir()
	if code, _, err := did("", "make", dir, "sessions/1"); code != 0 {
		t.Fatal(err)
	}
	if code, _, err := did("", "make", dir, "sessions/1"); code != exitRefused || !strings.Contains(err, "is there already") {
		t.Errorf("once more: %d, %s", code, err)
	}
	if code, _, err := did("", "remake", dir, "sessions/1"); code != 0 {
		t.Errorf("its own: %s", err)
	}
}

// What is swept is what nobody has locked, and is named so.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"s-left", "s-held", "other"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "in/it"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	held, err := os.Open(filepath.Join(dir, "s-held"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := unix.Flock(int(held.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("other", filepath.Join(dir, "s-link")); err != nil {
		t.Fatal(err)
	}
	if code, _, err := did("", "sweep", dir, "s-"); code != 0 || err != "" {
		t.Errorf("%d, %s", code, err)
	}
	for name, want := range map[string]bool{"s-left": false, "s-held/in/it": true, "other/in/it": true} {
		if there(filepath.Join(dir, name)) != want {
			t.Errorf("%s is there: %v", name, !want)
		}
	}
}
