package prepare

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
)

// TakeRoots takes profiles that are root's, and nothing else below their directory: neither
// what is mounted there nor what has no profile's name. An error is one line, whatever the
// number of profiles.
func TestTakeRoots(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give directories away")
	}
	home := t.TempDir()
	dir := filepath.Join(home, "profiles")
	for _, name := range []string{"alice/cache", "bob", "lost+found", "default", ".new", "mounted", "theirs/cache"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(filepath.Join(dir, "theirs"), 1700, 1700); err != nil {
		t.Fatal(err)
	}
	mounted := filepath.Join(dir, "mounted")
	if err := unix.Mount("tmpfs", mounted, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mounted, unix.MNT_DETACH) })
	write(t, filepath.Join(mounted, "file"), "", 0o600)
	check := func(taken ...string) {
		t.Helper()
		for _, line := range strings.Split(owners(t, dir), "\n") {
			name, owner, _ := strings.Cut(line, " ")
			owner, _, _ = strings.Cut(owner, ":")
			want := "0"
			for _, profile := range taken {
				if name == "." || name == profile || strings.HasPrefix(name, profile+"/") {
					want = "1500"
				}
			}
			if name == "theirs" {
				want = "1700"
			}
			if owner != want {
				t.Errorf("%s belongs to %s, want %s", name, owner, want)
			}
		}
	}
	for _, name := range []string{"lost+found", "default", ".new", "../outside", "a/b", "."} {
		if did, err := TakeRoots(home, name, services); err == nil || did.Changed != 0 {
			t.Errorf("%s: %+v, %v", name, did, err)
		}
	}
	check()
	if did, err := TakeRoots(home, "mounted", services); err != nil || did.Changed != 0 {
		t.Errorf("what is mounted: %+v, %v", did, err)
	}
	check("none")
	if did, err := TakeRoots(home, "bob", services); err != nil || did.Changed != 1 {
		t.Errorf("bob: %+v, %v", did, err)
	}
	check("bob")
	if did, err := TakeRoots(home, "", services); err != nil || did.Changed != 2 {
		t.Errorf("all: %+v, %v", did, err)
	}
	check("alice", "bob")

	links := filepath.Join(dir, "links")
	for _, half := range []string{"1", "2"} {
		if err := os.MkdirAll(links+half, 0o700); err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			file := filepath.Join(links+half, fmt.Sprint(i))
			write(t, file, "", 0o600)
			if err := os.Link(file, file+"-again"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if did, err := TakeRoots(home, "", services); err != nil || len(did.Left) != 8 {
		t.Errorf("of files with two names %d are named, %v", len(did.Left), err)
	}
	for i := range 3 {
		deep := filepath.Join(dir, fmt.Sprint("deep", i)) + strings.Repeat("/d", 300)
		if err := os.MkdirAll(deep, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	_, err := TakeRoots(home, "", services)
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.HasSuffix(err.Error(), "; and so in 2 more") {
		t.Errorf("three that fail: %v", err)
	}
}

// An answer fits into what is read of it, and is whole.
func TestAnswerFits(t *testing.T) {
	did := durable.Handed{Changed: 3}
	for i := range 800 {
		did.Left = append(did.Left, fmt.Sprintf("%d-%s", i, strings.Repeat("\xff", 400)))
	}
	text := Answer(did)
	read, done := ParseAnswer(text)
	if !done || read.Changed != 3 || len(read.Left) < 2 || !strings.HasPrefix(read.Left[0], "0-\xff") || len(text) > 4096 {
		t.Errorf("%d bytes: %v, %d changed, %d names", len(text), done, read.Changed, len(read.Left))
	}
	for _, path := range read.Left {
		if len(path) != longestName {
			t.Errorf("a path is cut at %d bytes", len(path))
		}
	}
}
