package durable

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A glance reads what is as it should be, and leaves everything else to a closer
// look, whatever somebody has put in its place.
func TestGlances(t *testing.T) {
	root := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(rel, text string) {
		must(os.MkdirAll(filepath.Join(root, filepath.Dir(rel)), 0o755))
		must(os.WriteFile(filepath.Join(root, rel), []byte(text), 0o644))
	}
	write("good/marker", "")
	write("good/state", "text")
	write("empty/marker", "")
	write("empty/state", "")
	write("bare/other", "")
	write("large/marker", "")
	write("large/state", "0123456789")
	write("a-file", "")
	must(os.Symlink("good", filepath.Join(root, "link")))
	write("fifo/marker", "")
	must(unix.Mkfifo(filepath.Join(root, "fifo/state"), 0o600))
	must(os.MkdirAll(filepath.Join(root, "odd/marker"), 0o755))
	write("leads/marker", "")
	must(os.Symlink("/etc/passwd", filepath.Join(root, "leads/state")))

	d, err := Open(root)
	must(err)
	defer d.Close()
	names := []string{"good", "empty", "bare", "large", "a-file", "link", "fifo", "odd", "leads", "nowhere"}
	seen, err := d.Glances(names, "marker", []string{"state", "absent"}, 8)
	must(err)
	for i, name := range names {
		g := seen[i]
		odd := name == "large" || name == "link" || name == "fifo" || name == "odd" || name == "leads"
		marked := name == "good" || name == "empty"
		if g.Odd != odd || g.Marked != marked {
			t.Errorf("%s is %+v", name, g)
		}
		if marked && (len(g.Files) != 2 || !g.Files[0].There || g.Files[1].There || (string(g.Files[0].Data) == "text") != (name == "good")) {
			t.Errorf("%s has %+v", name, g.Files)
		}
	}
}

// What was never finished goes, and what the patterns name; nothing behind a link.
func TestTidy(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	for _, rel := range []string{"a/run.pid", "a/kept", "a/" + TempName(), "b/x.pid"} {
		path := filepath.Join(root, rel)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(outside, "theirs.pid"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	d, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if left := d.Tidy([]string{"a", "b", "link", "nowhere"}, []string{"*.pid", "lock"}); len(left) != 1 || left[0] != "link" {
		t.Errorf("it left %q; the link alone is no directory", left)
	}
	for dir, want := range map[string]int{root + "/a": 1, root + "/b": 0, outside: 1} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != want {
			t.Errorf("%s has %v, %v", dir, entries, err)
		}
	}
}
