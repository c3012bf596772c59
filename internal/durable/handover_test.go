package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// opened is a descriptor of a directory, for as long as the test takes.
func opened(t *testing.T, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// What is the one's becomes the other's, and nothing else; and back.
func TestHandOver(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can change owners")
	}
	const from, to, stranger = 1000, 40007, 33
	dir := t.TempDir()
	top := filepath.Join(dir, "top")
	at := func(name string) string { return filepath.Join(top, name) }
	err := errors.Join(os.MkdirAll(at("a/b"), 0o700), os.Mkdir(at("theirs"), 0o755), os.Mkdir(at("more"), 0o700), os.WriteFile(filepath.Join(dir, "outside"), nil, 0o600))
	for _, name := range []string{"file", "a/b/deep", "several", "theirs/ours", "roots", "more/of", "strangers", "closed"} {
		err = errors.Join(err, os.WriteFile(at(name), nil, 0o600))
	}
	err = errors.Join(err, os.Link(at("several"), at("again")), os.Symlink(filepath.Join(dir, "outside"), at("link")),
		unix.Mkfifo(at("pipe"), 0o600), os.Chmod(at("closed"), 0))
	if err == nil {
		err = filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
			return errors.Join(err, os.Lchown(path, from, from))
		})
	}
	err = errors.Join(err, os.Lchown(at("roots"), 0, 0), os.Lchown(at("strangers"), stranger, stranger), os.Lchown(at("theirs"), stranger, stranger))
	if err != nil {
		t.Fatal(err)
	}
	owner := func(path string) uint32 {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			t.Fatal(err)
		}
		return st.Uid
	}
	over := func(from, to uint32, back bool) (Handed, error) {
		return HandOver(opened(t, top), "top", Hand{From: from, UID: to, GID: to, Back: back})
	}
	look := func(want uint32) {
		t.Helper()
		for name, uid := range map[string]uint32{
			"": want, "file": want, "a": want, "a/b": want, "a/b/deep": want, "link": want, "pipe": want, "closed": want, "theirs/ours": want,
			"several": from, "again": from, "roots": want, "more/of": want, "more": want, "strangers": stranger, "theirs": stranger, "../outside": from,
		} {
			if got := owner(at(name)); got != uid {
				t.Errorf("%q is %d's, want %d", name, got, uid)
			}
		}
	}
	for range 2 { // a walk that was cut short is done again
		if _, err := over(from, to, false); err != nil {
			t.Fatal(err)
		}
		look(to)
		if err := os.Lchown(top, from, from); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := over(from, to, false); err != nil {
		t.Fatal(err)
	}
	// What root leaves behind in it is put right, and nothing else.
	err = errors.Join(os.WriteFile(at("a/b/poison"), nil, 0o600), os.Mkdir(at("a/poisoned"), 0o700), os.WriteFile(at("a/poisoned/poison"), nil, 0o600),
		os.WriteFile(at("a/linked"), nil, 0o600), os.Link(at("a/linked"), at("a/again")), os.Chown(at("file"), to, stranger))
	if err != nil {
		t.Fatal(err)
	}
	for _, bound := range []Hand{{Top: true}, {Most: 1}, {Until: time.Now().Add(-time.Hour)}} {
		fd := opened(t, top)
		bound.UID, bound.GID, bound.From = to, to, from
		did, err := HandOver(fd, "top", bound)
		if err != nil || !did.Deeper || owner(at("a/poisoned/poison")) != 0 {
			t.Errorf("%+v: %+v, %v", bound, did, err)
		}
	}
	if did, err := over(from, to, false); err != nil || did.Deeper || len(did.Left) == 0 || !slices.Contains(did.Left, "top/a/linked") {
		t.Errorf("put right: %+v, %v", did, err)
	}
	for _, name := range []string{"a/b/poison", "a/poisoned", "a/poisoned/poison"} {
		if got := owner(at(name)); got != to {
			t.Errorf("%s is %d's", name, got)
		}
	}
	if info, err := os.Stat(at("file")); err != nil || info.Sys().(*syscall.Stat_t).Gid != stranger || owner(at("a/linked")) != 0 {
		t.Errorf("a group that its user gave is gone: %v, %v", info, err)
	}
	err = errors.Join(os.RemoveAll(at("a/poisoned")), os.Remove(at("a/linked")), os.Remove(at("a/again")), os.Chown(at("file"), to, to))
	if _, e := over(to, from, true); err != nil || e != nil {
		t.Fatal(err)
	}
	look(from)
	for _, other := range []uint32{0, stranger, 40008} {
		if err := os.Lchown(top, int(other), int(other)); err != nil {
			t.Fatal(err)
		}
		if _, err := over(from, to, false); err == nil || err.Error() != fmt.Sprintf("cannot change the owner of top: it belongs to uid %d", other) {
			t.Errorf("of %d's: %v", other, err)
		}
		if got := owner(at("file")); got != from {
			t.Errorf("in %d's directory the file is %d's", other, got)
		}
	}
}
