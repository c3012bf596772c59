package files

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// did runs one thing, and returns its exit code and what it printed on both.
func did(in string, args ...string) (code int, out, err string) {
	var o, e bytes.Buffer
	code = Run(args, strings.NewReader(in), &o, &e)
	return code, o.String(), e.String()
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// An undo is of the directory that was written into, whatever its name is by then, and of
// no other.
func TestUndoIsOfItsDirectory(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"alice", "other"} {
		if err := os.Mkdir(in(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, file, text string) (wrote string) {
		t.Helper()
		code, wrote, err := did(text, "write", in(name), file, "m1") // a number that both have
		if code != 0 {
			t.Fatal(err)
		}
		return wrote
	}
	if err := os.WriteFile(in("alice/f"), []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	replaced, made := write("alice", "f", "after"), write("alice", "new", "after")
	write("other", "f", "after")
	write("other", "new", "after")
	if err := os.Rename(in("alice"), in("bob")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(in("alice"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"f", "new"} { // as one has it who is called so now
		if err := os.WriteFile(in("alice/"+file), []byte("after"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"alice", "other"} {
		for file, wrote := range map[string]string{"f": replaced, "new": made} {
			if code, _, err := did("", "undo", in(name), file, "m1", wrote); code != exitRefused || !strings.Contains(err, "is not kept in this directory") {
				t.Errorf("%s of %s: %d, %s", file, name, code, err)
			}
			if text, _ := os.ReadFile(in(name + "/" + file)); string(text) != "after" {
				t.Errorf("%s of %s holds %q", file, name, text)
			}
		}
	}
	if there(in("alice/.rlminit-undo")) {
		t.Error("something was made in a directory that is another's")
	}
	for file, wrote := range map[string]string{"f": replaced, "new": made} {
		if code, _, err := did("", "undo", in("bob"), file, "m1", wrote); code != 0 {
			t.Errorf("%s: %d, %s", file, code, err)
		}
	}
	if text, _ := os.ReadFile(in("bob/f")); string(text) != "before" || there(in("bob/new")) {
		t.Errorf("f holds %q, and new is there: %v", text, there(in("bob/new")))
	}
	if left, err := os.ReadDir(in("bob/.rlminit-undo")); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
