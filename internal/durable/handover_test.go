package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What is the one's becomes the other's, and nothing else; and back.
func TestHandOver(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can change owners")
	}
	const from, to, stranger = 1000, 40007, 33
	dir := t.TempDir()
	top := filepath.Join(dir, "top")
	at := func(name string) string { return filepath.Join(top, name) }
	err := errors.Join(os.MkdirAll(at("a/b"), 0o700), os.Mkdir(at("theirs"), 0o755), os.WriteFile(filepath.Join(dir, "outside"), nil, 0o600))
	for _, name := range []string{"file", "a/b/deep", "several", "theirs/ours", "roots", "strangers", "closed"} {
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
	over := func(from, to uint32, back bool) error {
		fd, err := unix.Open(top, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		return HandOver(fd, "top", from, to, to, back)
	}
	look := func(want uint32) {
		t.Helper()
		for name, uid := range map[string]uint32{
			"": want, "file": want, "a": want, "a/b": want, "a/b/deep": want, "link": want, "pipe": want, "closed": want, "theirs/ours": want,
			"several": from, "again": from, "roots": 0, "strangers": stranger, "theirs": stranger, "../outside": from,
		} {
			if got := owner(at(name)); got != uid {
				t.Errorf("%q is %d's, want %d", name, got, uid)
			}
		}
	}
	for range 2 { // a walk that was cut short is done again
		if err := over(from, to, false); err != nil {
			t.Fatal(err)
		}
		look(to)
		if err := os.Lchown(top, from, from); err != nil {
			t.Fatal(err)
		}
	}
	if err := over(from, to, false); err != nil {
		t.Fatal(err)
	}
	if err := over(to, from, true); err != nil {
		t.Fatal(err)
	}
	look(from)
	for _, other := range []uint32{0, stranger, 40008} {
		if err := os.Lchown(top, int(other), int(other)); err != nil {
			t.Fatal(err)
		}
		if err := over(from, to, false); err == nil || err.Error() != fmt.Sprintf("cannot change the owner of top: it belongs to uid %d", other) {
			t.Errorf("of %d's: %v", other, err)
		}
		if got := owner(at("file")); got != from {
			t.Errorf("in %d's directory the file is %d's", other, got)
		}
	}
}
