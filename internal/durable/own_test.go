package durable

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	ownUID = 61234
	ownGID = 61235
)

var toUser = Ownership{UID: ownUID, GID: ownGID, Trust: true}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to change owners")
	}
}

func ownerOf(t testing.TB, path string) (uid, gid uint32) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	return st.Uid, st.Gid
}

func TestOwn(t *testing.T) {
	needRoot(t)
	bothWays(t, func(t *testing.T) {
		d, dir := open(t)
		outside := filepath.Join(t.TempDir(), "outside")
		must(t, os.WriteFile(outside, nil, 0o600))
		at := func(name string) string { return filepath.Join(dir, name) }
		must(t, os.MkdirAll(at("tree/a/b"), 0o755))
		must(t, os.MkdirAll(at("tree/mounted"), 0o755))
		must(t, os.WriteFile(at("tree/a/b/file"), nil, 0o600))
		must(t, os.WriteFile(at("tree/twice"), nil, 0o600))
		must(t, os.Link(at("tree/twice"), at("other name")))
		must(t, os.Symlink(outside, at("tree/link")))
		must(t, os.Symlink(filepath.Dir(outside), at("tree/dirlink")))
		must(t, unix.Mkfifo(at("tree/fifo"), 0o600))
		must(t, os.WriteFile(at("tree/setuid"), nil, 0o600))
		must(t, os.Chmod(at("tree/setuid"), 0o755|os.ModeSetuid))
		deviceErr := unix.Mknod(at("tree/null"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
		mountErr := unix.Mount("tmpfs", at("tree/mounted"), "tmpfs", 0, "size=64k")
		if mountErr == nil {
			t.Cleanup(func() { must(t, unix.Unmount(at("tree/mounted"), 0)) })
			must(t, os.WriteFile(at("tree/mounted/file"), nil, 0o600))
		}

		must(t, d.Own("tree", toUser))
		for _, name := range []string{"tree", "tree/a", "tree/a/b", "tree/a/b/file", "tree/fifo", "tree/link", "tree/dirlink", "tree/setuid"} {
			if uid, gid := ownerOf(t, at(name)); uid != ownUID || gid != ownGID {
				t.Errorf("%s belongs to %d:%d", name, uid, gid)
			}
		}
		untouched := []string{outside, filepath.Dir(outside), at("other name"), at("tree/twice")}
		if deviceErr == nil {
			untouched = append(untouched, at("tree/null"))
		}
		if mountErr == nil {
			untouched = append(untouched, at("tree/mounted"), at("tree/mounted/file"))
		}
		for _, name := range untouched {
			if uid, gid := ownerOf(t, name); uid != 0 || gid != 0 {
				t.Errorf("%s belongs to %d:%d, and must not", name, uid, gid)
			}
		}
		if info, err := os.Lstat(at("tree/setuid")); err != nil || info.Mode()&os.ModeSetuid != 0 {
			t.Errorf("%v, %v: a program of root's must not become a set-uid one of the user's", info.Mode(), err)
		}

		// The owner of the topmost directory tells that all is right.
		must(t, os.Chown(at("tree/a/b/file"), 0, 0))
		must(t, d.Own("tree", toUser))
		if uid, _ := ownerOf(t, at("tree/a/b/file")); uid != 0 {
			t.Errorf("again: a file below belongs to %d", uid)
		}
		must(t, os.Chown(at("tree"), 0, 0))
		must(t, d.Own("tree", toUser))
		for _, name := range []string{"tree", "tree/a/b/file"} {
			if uid, gid := ownerOf(t, at(name)); uid != ownUID || gid != ownGID {
				t.Errorf("after it was cut short: %s belongs to %d:%d", name, uid, gid)
			}
		}
	})
}

func TestOwnRefusesLinks(t *testing.T) {
	needRoot(t)
	bothWays(t, func(t *testing.T) {
		d, dir := open(t)
		outside := t.TempDir()
		must(t, os.Symlink(outside, filepath.Join(dir, "link")))
		must(t, os.Mkdir(filepath.Join(outside, "dir"), 0o755))
		if err := d.Own("link/dir", toUser); err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("err = %v", err)
		}
		if err := d.Own("link", toUser); err == nil {
			if uid, _ := ownerOf(t, filepath.Join(dir, "link")); uid != ownUID {
				t.Errorf("the link belongs to %d", uid)
			}
		}
		for _, path := range []string{outside, filepath.Join(outside, "dir")} {
			if uid, _ := ownerOf(t, path); uid != 0 {
				t.Errorf("%s belongs to %d", path, uid)
			}
		}
	})
}

// TestOwnIsNotRaced: somebody who exchanges directories for links meanwhile gets
// nothing outside of the tree.
func TestOwnIsNotRaced(t *testing.T) {
	needRoot(t)
	d, dir := open(t)
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "file"), nil, 0o600))
	tree := filepath.Join(dir, "tree")
	for i := range 50 {
		must(t, os.MkdirAll(fmt.Sprintf("%s/d%02d", tree, i), 0o755))
		must(t, os.WriteFile(fmt.Sprintf("%s/d%02d/file", tree, i), nil, 0o600))
	}
	must(t, os.Symlink(outside, filepath.Join(dir, "trap")))
	var attack sync.WaitGroup
	end := make(chan struct{})
	attack.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
			}
			// Either name may be gone for a moment: that is the attack.
			_ = unix.Renameat2(unix.AT_FDCWD, fmt.Sprintf("%s/d%02d", tree, i%50), unix.AT_FDCWD, filepath.Join(dir, "trap"), unix.RENAME_EXCHANGE)
		}
	})
	for range 50 {
		must(t, os.Chown(tree, 0, 0))
		// What was exchanged under the walk's hands may be an error.
		_ = d.Own("tree", toUser)
		for _, path := range []string{outside, filepath.Join(outside, "file")} {
			if uid, _ := ownerOf(t, path); uid != 0 {
				t.Fatalf("%s belongs to %d", path, uid)
			}
		}
	}
	close(end)
	attack.Wait()
}

// fill makes a tree of so many directories of 1000 files each.
func fill(t testing.TB, tree string, dirs int) {
	t.Helper()
	var making sync.WaitGroup
	for i := range dirs {
		making.Go(func() {
			at := fmt.Sprintf("%s/%d", tree, i)
			if err := os.MkdirAll(at, 0o755); err != nil {
				t.Error(err)
				return
			}
			for j := range 1000 {
				if err := os.WriteFile(fmt.Sprintf("%s/%d", at, j), nil, 0o600); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	making.Wait()
}

func TestOwnManyFiles(t *testing.T) {
	needRoot(t)
	d, dir := open(t)
	fill(t, dir+"/tree", 10)
	began := time.Now()
	must(t, d.Own("tree", toUser))
	if first := time.Since(began); first > 5*time.Second {
		t.Errorf("after %s", first)
	}
	must(t, filepath.WalkDir(dir+"/tree", func(name string, _ fs.DirEntry, err error) error {
		if uid, gid := ownerOf(t, name); uid != ownUID || gid != ownGID {
			t.Errorf("%s belongs to %d:%d", name, uid, gid)
		}
		return err
	}))
	began = time.Now()
	must(t, d.Own("tree", toUser))
	if again := time.Since(began); again > 50*time.Millisecond {
		t.Errorf("again: after %s", again)
	}
}

// Take changes root's files in a tree alone, and not the group that a user gave to a file.
func TestTake(t *testing.T) {
	needRoot(t)
	d, dir := open(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.MkdirAll(at("tree/theirs/roots"), 0o755))
	for _, name := range []string{"tree/file", "tree/theirs/file", "tree/video", "tree/linked"} {
		must(t, os.WriteFile(at(name), nil, 0o600))
	}
	must(t, os.Link(at("tree/linked"), at("again")))
	const group = 44
	for _, name := range []string{"tree/theirs", "tree/theirs/file", "tree/video", "tree/linked"} {
		must(t, os.Chown(at(name), ownUID, group))
	}
	must(t, os.Chmod(at("tree/video"), 0o755|os.ModeSetgid))
	did, err := d.Take("tree", toUser)
	if err != nil || did.Changed != 3 || len(did.Left) != 0 {
		t.Errorf("%+v, %v", did, err)
	}
	for name, want := range map[string]uint32{"tree": ownGID, "tree/file": ownGID, "tree/theirs/roots": ownGID, "tree/theirs": group, "tree/theirs/file": group, "tree/video": group, "tree/linked": group} {
		if uid, gid := ownerOf(t, at(name)); uid != ownUID || gid != want {
			t.Errorf("%s belongs to %d:%d", name, uid, gid)
		}
	}
	if info, err := os.Stat(at("tree/video")); err != nil || info.Mode()&os.ModeSetgid == 0 {
		t.Errorf("set-group-id is lost: %v, %v", info.Mode(), err)
	}
}

// BenchmarkOwn is 200,000 files, given to another owner each time.
func BenchmarkOwn(b *testing.B) {
	needRoot(b)
	dir := b.TempDir()
	d, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	fill(b, dir+"/tree", 200)
	uid := uint32(ownUID)
	for b.Loop() {
		uid++
		if err := d.Own("tree", Ownership{UID: uid, GID: ownGID, Trust: true}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestChmod(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		d, dir := open(t)
		must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
		must(t, os.Mkdir(filepath.Join(dir, "dir"), 0o700))
		must(t, os.Symlink("file", filepath.Join(dir, "link")))
		must(t, d.Chmod("file", 0))
		must(t, d.Chmod("file", 0o640)) // also of what its owner may not open
		must(t, d.Chmod("dir", 0o755))
		for name, want := range map[string]uint32{"file": 0o640, "dir": 0o755} {
			if info, err := d.Lstat(name); err != nil || info.Perm != want {
				t.Errorf("%s: %04o, %v", name, info.Perm, err)
			}
		}
		if err := d.Chmod("link", 0o777); err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("err = %v", err)
		}
	})
}
