package durable

import (
	"fmt"
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

// A copy takes the place of what was seen there, and of nothing else; in a directory
// of another's none is written.
func TestCopies(t *testing.T) {
	root := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"same", "changed", "new", "taken", "full", "others"} {
		must(os.Mkdir(filepath.Join(root, name), 0o777))
	}
	put := func(rel, text string) { must(os.WriteFile(filepath.Join(root, rel), []byte(text), 0o644)) }
	put("same/state", "was")
	put("changed/state", "edited")
	put("taken/state", "edited")
	must(os.MkdirAll(filepath.Join(root, "full/state"), 0o755))
	must(os.Symlink("same", filepath.Join(root, "link")))
	if os.Geteuid() == 0 {
		must(os.Chown(filepath.Join(root, "others"), 4711, 4711))
	} else {
		must(os.Chmod(filepath.Join(root, "others"), 0o500))
	}
	d, err := Open(root)
	must(err)
	defer d.Close()
	c := Copies{Mode: 0o640}
	for _, one := range []struct{ name, was string }{
		{"same", "was"}, {"changed", "was"}, {"new", ""}, {"taken", ""}, {"full", "was"}, {"others", ""}, {"link", "was"}, {"nowhere", ""},
	} {
		c.Files, c.Texts, c.Was = append(c.Files, one.name+"/state"), append(c.Texts, []byte("of "+one.name)), append(c.Was, []byte(one.was))
	}
	// What is mounted there may not answer, and many would wait for it.
	mounted := filepath.Join(root, "mounted")
	must(os.Mkdir(mounted, 0o755))
	if unix.Mount("tmpfs", mounted, "tmpfs", 0, "") == nil { // which not every place allows
		defer unix.Unmount(mounted, 0)
		one := Copies{Files: []string{"mounted/state"}, Texts: [][]byte{[]byte("x")}, Was: [][]byte{nil}, Mode: 0o640}
		if left := one.WriteBelow(d); len(left) != 1 || !d.glance("mounted", "state", nil, 8).Odd {
			t.Errorf("of what is mounted it left %v", left)
		}
	}
	if got, want := fmt.Sprint(c.WriteBelow(d)), "[changed/state taken/state full/state others/state link/state nowhere/state]"; got != want {
		t.Errorf("it left %s, want %s", got, want)
	}
	for name, want := range map[string]string{"same": "of same", "changed": "edited", "new": "of new", "taken": "edited", "full": "", "others": ""} {
		if text, _ := os.ReadFile(filepath.Join(root, name, "state")); string(text) != want {
			t.Errorf("%s has %q, want %q", name, text, want)
		}
		if entries, err := os.ReadDir(filepath.Join(root, name)); err != nil || len(entries) > 1 {
			t.Errorf("%s has %v, %v", name, entries, err)
		}
	}
}
