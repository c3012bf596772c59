package journal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A journal whose directory somebody removes or moves away, whatever lies in its place then:
// nothing is written to what is another's, which is said once; and as soon as the way is free
// what counts is written anew, and a boot finds it.
func TestRemovedJournal(t *testing.T) {
	remove := func(dir string) error { return os.RemoveAll(dir) }
	for name, c := range map[string]struct {
		remove, put func(dir string) error // put: what lies in its place; nil: nothing
		says        string
	}{
		"removed": {remove: remove},
		"moved":   {remove: func(dir string) error { return os.Rename(dir, dir+"-moved") }},
		"a link": {remove, func(dir string) error {
			return errors.Join(os.Mkdir(dir+"-elsewhere", 0o777), os.Symlink(dir+"-elsewhere", dir))
		}, "a symbolic link"},
		"a file": {remove, func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, "directory"},
		"another's": {remove, func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777), os.Chown(dir, 1500, 1500))
		}, "it belongs to uid 1500"},
		"another's below": {remove, func(dir string) error {
			below := filepath.Join(dir, "journal")
			return errors.Join(os.MkdirAll(below, 0o777), os.Chown(below, 1500, 1500))
		}, "it belongs to uid 1500"},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "another's") && os.Geteuid() != 0 {
				t.Skip("needs root, to give directories away")
			}
			d, path := home(t)
			var passed, gone atomic.Int64 // ns; how often it was asked for the directory
			o := &opened{texts: &texts{}}
			j, err := Open(d, Options{
				Boot: "a", Folds: map[string]Fold{"texts": o.texts}, Gone: func() { gone.Add(1) },
				Say: func(line string) { o.said = append(o.said, line) },
				Now: func() time.Time { return time.Unix(1e9, passed.Load()) },
			})
			if err != nil {
				t.Fatal(err)
			}
			o.Journal = j
			o.add(t, "before")
			dir := filepath.Join(path, Home)
			if err := c.remove(dir); err != nil {
				t.Fatal(err)
			}
			if c.put != nil {
				if err := c.put(dir); err != nil {
					t.Fatal(err)
				}
				for range 10 {
					if _, err := o.Append(context.Background(), say("refused")); err == nil || !strings.Contains(err.Error(), c.says) {
						t.Fatalf("%v, want %q", err, c.says)
					}
				}
				var found []string
				_ = filepath.WalkDir(path, func(file string, e os.DirEntry, err error) error {
					if err == nil && e.Type().IsRegular() && file != dir {
						found = append(found, file)
					}
					return nil
				})
				if len(found) > 0 || gone.Load() != 1 {
					t.Errorf("there is %q, and the directory was asked for %d times", found, gone.Load())
				}
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
				passed.Store(int64(againWithin))
			}
			o.add(t, "after")
			o.Close()
			if n := strings.Count(strings.Join(o.said, "\n"), "cannot make the journal again"); (n == 1) != (c.put != nil) {
				t.Errorf("it says %q", o.said)
			}
			next := openHome(t, d, "b")
			defer next.Close()
			if got := next.has(); !slices.Equal(got, []string{"before", "after"}) {
				t.Errorf("the next boot has %q", got)
			}
		})
	}
}

// untraced is a disk that does not show that a name leads to a file.
type untraced struct{ disk }

func (untraced) named(string, file) bool { return false }

// Where a name is never seen to lead to the segment that has it, nothing is concluded from
// that.
func TestUntracedSegments(t *testing.T) {
	d, path := home(t)
	o := openModel(t, untraced{directory{dir: d, rel: Dir}}, "a")
	o.add(t, "a", "b", "c")
	o.Close()
	if files, err := filepath.Glob(filepath.Join(path, Dir, "*"+segmentSuffix)); err != nil || len(files) != 1 || len(o.said) > 0 {
		t.Errorf("%q, %v: %q", files, err, o.said)
	}
}
