package durable

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A request is not carried out in the directory of one of those it is not to be done
// for, whom the answer names; and nobody else keeps it from being carried out.
func TestARequestIsNotCarriedOutForAnother(t *testing.T) {
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := Open(home)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	own, err := d.OpenDir("a")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	us := uint32(os.Getuid())
	if us == 0 { // who is none of them, ever
		us = 4711
		if err := os.Chown(filepath.Join(home, "a"), int(us), int(us)); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range []struct {
		dir       *Dir
		rel       string
		whose     string
		low, high uint32
		refused   bool
	}{
		{d, "a/file", "a", us, us, true},
		{d, "a/file", "a", us + 1, us + 9, false},
		{d, "a/file", "none", us, us, false},
		{d, "a/file", "", us, us, false},
		{own, "file", ".", us, us + 9, true},
		{own, "file", ".", us + 1, us + 9, false},
	} {
		a, _ := Carry(Request{Op: OpWriteFile, Base: c.dir.Path("."), Rel: c.rel, Mode: 0o600, Whose: c.whose, Low: c.low, High: c.high}, []int{c.dir.fd})
		if err := a.Failure.Err(); err != nil {
			t.Fatal(i, err)
		}
		if (a.Owner == us) != c.refused {
			t.Errorf("%d: owner %d", i, a.Owner)
		}
		err := unix.Unlink(filepath.Join(home, "a", "file"))
		if written := err == nil; written == c.refused {
			t.Errorf("%d: written: %v", i, written)
		}
	}
}
