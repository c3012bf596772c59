package files

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Of writes that can be undone the oldest one past the bound is forgotten.
func TestOneWriteTooMany(t *testing.T) {
	dir := t.TempDir()
	for n := range mostKept + 1 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(n+1)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	prune(fd)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != mostKept {
		t.Errorf("%d are left, %v", len(left), err)
	}
	if _, err := os.Stat(filepath.Join(dir, "1")); err == nil {
		t.Error("the oldest is left")
	}
}
