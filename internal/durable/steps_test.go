package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// byCarry is a helper that counts requests.
type byCarry struct{ requests *int }

func (b byCarry) Do(r Request, fds ...int) (Answer, []int, error) {
	*b.requests++
	a, opened := Carry(r, fds)
	return a, opened, nil
}

// Steps are taken in their order up to the first that fails, which is told, at once or
// by a helper: then all of them are one request.
func TestStepsEndAtTheFirstThatFails(t *testing.T) {
	write := Write{Mode: 0o600}
	whole := func(s *Steps) {
		s.Absent("made")
		s.Mkdir("temp", 0o700)
		s.WriteFile("temp/a", []byte("a"), write)
		s.SyncDir("temp")
		s.RenameNew("temp", "made")
	}
	for name, c := range map[string]struct {
		steps func(*Steps)
		done  int
		err   error
		left  string // beside what was there
	}{
		"all":           {whole, 5, nil, "made/a"},
		"absent":        {func(s *Steps) { s.Absent("is"); whole(s) }, 0, fs.ErrExist, ""},
		"below nothing": {func(s *Steps) { s.Absent("none/is"); s.Mkdir("none/is", 0o700); whole(s) }, 1, fs.ErrNotExist, ""},
		"taken":         {func(s *Steps) { s.Mkdir("temp", 0o700); s.RenameNew("temp", "is"); whole(s) }, 1, fs.ErrExist, "temp"},
		"no step":       {func(s *Steps) { *s = Steps{{Op: OpRemoveAll, Rel: "is"}} }, 0, nil, ""},
	} {
		for _, helper := range []bool{false, true} {
			root, requests := t.TempDir(), 0
			if err := os.Mkdir(filepath.Join(root, "is"), 0o700); err != nil {
				t.Fatal(err)
			}
			d, err := Open(root)
			if err != nil {
				t.Fatal(err)
			}
			at := d
			if helper {
				at = d.By(byCarry{&requests})
			}
			var steps Steps
			c.steps(&steps)
			done, err := steps.Take(at)
			if done != c.done || c.err != nil && !errors.Is(err, c.err) || (err == nil) != (name == "all") {
				t.Errorf("%s, helper %v: %d were done, and %v", name, helper, done, err)
			}
			if helper != (requests == 1) {
				t.Errorf("%s took %d requests", name, requests)
			}
			if _, err := os.Stat(filepath.Join(root, "is")); err != nil {
				t.Error(name, err)
			}
			for _, rel := range []string{"made/a", "temp"} {
				if _, err := os.Stat(filepath.Join(root, rel)); (err == nil) != (c.left == rel) {
					t.Errorf("%s: %s: %v", name, rel, err)
				}
			}
			d.Close()
		}
	}
}

// Files are written together in one request, each whatever becomes of the others; what
// is on another file system, or somebody else's, is left to be written by itself.
func TestFilesWrittenTogether(t *testing.T) {
	for _, helper := range []bool{false, true} {
		root, requests := t.TempDir(), 0
		d, err := Open(root)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for _, name := range []string{"mine", "theirs"} {
			if err := os.Mkdir(filepath.Join(root, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Lchown(filepath.Join(root, "theirs"), 4711, 4711); err != nil {
			t.Fatal(err)
		}
		at := d
		if helper {
			at = d.By(byCarry{&requests})
		}
		write := Write{Mode: 0o600}
		var steps Steps
		steps.WriteFile("none/a", []byte("a"), write)
		steps.WriteFile("mine/a", []byte("a"), write)
		steps.WriteFile("mine/b", []byte("bb"), Write{Mode: 0o600, Max: 1})
		steps.WriteFile("theirs/a", []byte("a"), write)
		for i := range steps {
			steps[i].Whose, steps[i].Low, steps[i].High = filepath.Dir(steps[i].Rel), 4711, 4711
		}
		steps.RenameNew("mine/a", "mine/c")
		steps.WriteFile("b", []byte("b"), write)
		failures := steps.WriteFiles(at)
		for i, want := range []error{ErrApart, nil, ErrTooBig, ErrApart, unix.EPROTO, nil} {
			if !errors.Is(failures[i], want) || want == nil && failures[i] != nil {
				t.Errorf("helper %v: %d: %v, want %v", helper, i, failures[i], want)
			}
		}
		for _, rel := range []string{"mine/a", "b"} {
			if text, err := os.ReadFile(filepath.Join(root, rel)); err != nil || string(text) != filepath.Base(rel) {
				t.Errorf("%s: %q, %v", rel, text, err)
			}
		}
		if helper != (requests == 1) {
			t.Errorf("it took %d requests", requests)
		}
	}
	slash, err := Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer slash.Close()
	var steps Steps
	steps.WriteFile("proc/rlminit", nil, Write{})
	if err := steps.WriteFiles(slash)[0]; !errors.Is(err, ErrApart) {
		t.Errorf("below a mount point: %v", err)
	}
}
