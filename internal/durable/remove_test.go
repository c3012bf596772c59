package durable

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/tests/unprivileged"
)

func TestRemoveAllFollowsNoLink(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		d, path := open(t)
		outside := t.TempDir()
		kept := mustCreate(t, filepath.Join(outside, "kept"))
		must(t, os.MkdirAll(filepath.Join(path, "p/a/b"), 0o700))
		must(t, os.Symlink(outside, filepath.Join(path, "p/a/link")))
		must(t, os.Symlink(kept, filepath.Join(path, "p/link")))
		must(t, unix.Mkfifo(filepath.Join(path, "p/fifo"), 0o600))
		mustCreate(t, filepath.Join(path, "p/a/b/not \xff UTF-8\n"))
		must(t, d.RemoveAll("p"))
		if _, err := os.Lstat(filepath.Join(path, "p")); !os.IsNotExist(err) {
			t.Errorf("still there: %v", err)
		}
		must(t, os.Symlink(outside, filepath.Join(path, "link")))
		must(t, d.RemoveAll("link"))
		if _, err := os.Stat(kept); err != nil {
			t.Errorf("a link was followed: %v", err)
		}
		must(t, d.RemoveAll("absent"))
		must(t, d.RemoveAll("absent/too"))
	})
}

// A tree deeper than there are descriptors, and than a path may be long.
func TestRemoveAllTakesADeepTree(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		d, _ := open(t)
		must(t, d.Mkdir("deep", 0o700))
		at, err := openBeneath(d.fd, "deep", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, err)
		name := strings.Repeat("d", 100)
		for range 1000 {
			must(t, unix.Mkdirat(at, name, 0o700))
			next, err := openBeneath(at, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
			must(t, err)
			must(t, unix.Close(at))
			at = next
		}
		must(t, unix.Close(at))
		var limit unix.Rlimit
		must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
		low := limit
		low.Cur = 200
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &low))
		defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
		must(t, d.RemoveAll("deep"))
		if got, err := d.ReadDir(".", 10); err != nil || len(got) != 0 {
			t.Errorf("left: %v, %v", got, err)
		}
	})
}

func TestRemoveAllOpensWhatItsOwnerClosed(t *testing.T) {
	if unprivileged.Rerun(t, nil) {
		return
	}
	bothWays(t, func(t *testing.T) {
		d, path := open(t)
		must(t, os.MkdirAll(filepath.Join(path, "p/none/sub"), 0o700))
		mustCreate(t, filepath.Join(path, "p/none/sub/file"))
		mustCreate(t, filepath.Join(path, "p/file"))
		must(t, os.Chmod(filepath.Join(path, "p/none/sub"), 0o500))
		must(t, os.Chmod(filepath.Join(path, "p/none"), 0))
		must(t, os.Chmod(filepath.Join(path, "p"), 0o500))
		must(t, d.RemoveAll("p"))
	})
}

func TestRemoveAllNamesWhatStays(t *testing.T) {
	if unprivileged.Rerun(t, func(dir string) {
		must(t, os.MkdirAll(filepath.Join(dir, "p/roots"), 0o755))
		mustCreate(t, filepath.Join(dir, "p/roots/file"))
		must(t, os.Chown(filepath.Join(dir, "p"), unprivileged.UID, unprivileged.GID))
	}) {
		return
	}
	d, err := Open(unprivileged.Dir())
	must(t, err)
	defer d.Close()
	mustCreate(t, filepath.Join(unprivileged.Dir(), "p/mine"))
	err = d.RemoveAll("p")
	want := fmt.Sprintf("cannot remove %s/p/roots: owned by uid 0, services run as %d; as root: chown -R", unprivileged.Dir(), unprivileged.UID)
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v\nwant %s…", err, want)
	}
	if got, err := d.ReadDir("p", 10); err != nil || len(got) != 1 {
		t.Errorf("the rest was not removed: %v, %v", got, err)
	}
}

func TestRemoveAllLeavesMountsAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount")
	}
	mounts := map[string]func(at, other string) error{
		"tmpfs": func(at, _ string) error { return unix.Mount("tmpfs", at, "tmpfs", 0, "") },
		"bind":  func(at, other string) error { return unix.Mount(other, at, "", unix.MS_BIND, "") },
	}
	bothWays(t, func(t *testing.T) {
		for kind, mount := range mounts {
			d, path := open(t)
			at, other := filepath.Join(path, "p/mnt"), filepath.Join(path, "other")
			must(t, os.MkdirAll(at, 0o700))
			must(t, os.Mkdir(other, 0o700))
			if err := mount(at, other); err != nil {
				t.Skipf("needs the right to mount: %v", err)
			}
			defer unix.Unmount(at, unix.MNT_DETACH)
			kept := mustCreate(t, filepath.Join(at, "kept"))
			if err := d.RemoveAll("p"); err == nil || !strings.Contains(err.Error(), "mount point") {
				t.Errorf("%s: got %v", kind, err)
			}
			if _, err := os.Stat(kept); err != nil {
				t.Errorf("%s: removed from what is mounted: %v", kind, err)
			}
		}
	})
}
