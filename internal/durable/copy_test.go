package durable

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCopyTree(t *testing.T) {
	from, src := open(t)
	to, dst := open(t)
	must(t, os.MkdirAll(filepath.Join(src, "bin/deep"), 0o755))
	must(t, os.WriteFile(filepath.Join(src, "bin/deep/run"), []byte("#!"), 0o755))
	must(t, os.Chmod(filepath.Join(src, "bin/deep/run"), 0o755|os.ModeSetuid))
	must(t, os.WriteFile(filepath.Join(src, "note"), []byte("hello"), 0o444))
	must(t, os.Symlink("/etc/passwd", filepath.Join(src, "link")))
	must(t, to.Mkdir("p", 0o750))
	must(t, to.CopyTree(from, "p", Copy{DirMode: 0o750}))
	for name, want := range map[string]os.FileMode{
		"p/bin": os.ModeDir | 0o750, "p/bin/deep": os.ModeDir | 0o750,
		"p/bin/deep/run": 0o755, "p/note": 0o644, "p/link": os.ModeSymlink | 0o777,
	} {
		info, err := os.Lstat(filepath.Join(dst, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", name, info, err, want)
		}
	}
	if link, _ := os.Readlink(filepath.Join(dst, "p/link")); link != "/etc/passwd" {
		t.Errorf("the link is %q", link)
	}
	if got, _ := to.ReadFile("p/note", 10); string(got) != "hello" {
		t.Errorf("note: %q", got)
	}

	must(t, unix.Mkfifo(filepath.Join(src, "fifo"), 0o600))
	must(t, to.Mkdir("q", 0o750))
	if err := to.CopyTree(from, "q", Copy{DirMode: 0o750}); err == nil || !strings.Contains(err.Error(), "fifo: it is neither") {
		t.Errorf("copied a FIFO: %v", err)
	}
	must(t, os.Remove(filepath.Join(src, "fifo")))
	if err := to.CopyTree(from, "p", Copy{DirMode: 0o750}); err == nil {
		t.Error("copied over what was there")
	}
}
