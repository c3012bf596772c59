package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

const temp = ".rlminit-0123456789abcdef.tmp"

// creation makes a directory aside, and moves it to its place.
func creation() Steps {
	var s Steps
	s.Absent("made")
	s.Mkdir(temp, 0o750)
	s.WriteFile(temp+"/one", []byte("1"), Write{Mode: 0o640})
	s.WriteFile(temp+"/two", nil, Write{Mode: 0o600})
	s.SyncDir(temp)
	s.RenameNew(temp, "made")
	return s
}

// tree is what is in a directory: paths with modes and contents.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		content := ""
		switch info.Mode().Type() {
		case 0:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = string(data)
		case fs.ModeSymlink:
			content, _ = os.Readlink(path)
		}
		rel, _ := filepath.Rel(root, path)
		if !IsTemp(filepath.Base(rel)) || e.IsDir() { // a file that was not finished is swept by others
			all[rel] = fmt.Sprint(info.Mode(), content)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// furnished is a directory with something in it, and one beside it to be copied.
func furnished(t *testing.T) (d, from *Dir) {
	t.Helper()
	root, other := t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(root, "file"), []byte("old"), 0o600), os.MkdirAll(filepath.Join(root, "dir/below"), 0o700),
		os.Mkdir(filepath.Join(root, temp[:len(temp)-5]+"1.tmp"), 0o700),
		os.WriteFile(filepath.Join(other, "a"), []byte("a"), 0o600), os.MkdirAll(filepath.Join(other, "sub/sub"), 0o700),
		os.WriteFile(filepath.Join(other, "sub/b"), []byte("b"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for at, dir := range map[string]**Dir{root: &d, other: &from} {
		opened, err := Open(at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { opened.Close() })
		*dir = opened
	}
	return d, from
}

// carried carries a request out until the step at which a process is killed, counted from
// 0; over tells that it came to its end.
func carried(r Request, d, from *Dir, kill int) (a Answer, over bool) {
	defer func() {
		d.Fail(nil)
		if why := recover(); why != nil && why != "killed" {
			panic(why)
		}
	}()
	steps := 0
	d.Fail(func(string) error {
		if steps == kill {
			panic("killed")
		}
		steps++
		return nil
	})
	fds := []int{d.fd}
	if r.Op == OpCopyTree {
		fds = append(fds, from.fd)
	}
	var opened []int
	switch r.Op {
	case OpTake:
		r.Steps.take(d, &a)
	default:
		a.Failure = FailureOf(r.carry(d, fds, &a, &opened))
	}
	for _, fd := range opened {
		unix.Close(fd)
	}
	return a, true
}

// Whenever whoever carries a request out is killed, the next one brings it to the end to
// which it would have come.
func TestARequestIsCarriedOutOnceMore(t *testing.T) {
	aside := temp[:len(temp)-5] + "1.tmp"
	for name, r := range map[string]Request{
		"mkdir":        {Op: OpMkdir, Rel: "new", Mode: 0o751},
		"mkdir all":    {Op: OpMkdirAll, Rel: "x/y/z", Mode: 0o750},
		"rename":       {Op: OpRename, Rel: "file", To: "dir/below/file"},
		"rename over":  {Op: OpRename, Rel: "dir", To: aside},
		"rename new":   {Op: OpRenameNew, Rel: "dir", To: "moved"},
		"write":        {Op: OpWriteFile, Rel: "file", Data: []byte("new"), Mode: 0o640, Names: true},
		"write new":    {Op: OpWriteFile, Rel: "dir/new", Data: []byte("new"), Mode: 0o640},
		"remove":       {Op: OpRemoveAll, Rel: "dir"},
		"chmod":        {Op: OpChmod, Rel: "file", Mode: 0o640},
		"link":         {Op: OpSymlink, Rel: "link", To: "/etc"},
		"made by us":   {Op: OpOpenRegular, Rel: "dir/excl", Flags: unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL, Mode: 0o600},
		"copy":         {Op: OpCopyTree, To: aside, Mode: 0o750},
		"creation":     {Op: OpTake, Steps: creation()},
		"part of one":  {Op: OpTake, Steps: creation()[:5]},
		"the rest":     {Op: OpTake, Steps: Steps{{Op: OpWriteFile, Rel: "dir/f", Mode: 0o600}, {Op: OpRenameNew, Rel: "dir", To: "made"}}},
		"sync":         {Op: OpSyncDir, Rel: "dir"},
		"many written": {Op: OpWriteFiles, Steps: Steps{{Op: OpWriteFile, Rel: "dir/f", Data: []byte("x"), Mode: 0o600}}},
	} {
		t.Run(name, func(t *testing.T) {
			again := func(r Request, d, from *Dir) error {
				fds := []int{d.fd}
				if r.Op == OpCopyTree {
					fds = append(fds, from.fd)
				}
				a, opened := Carry(r, fds)
				for _, fd := range opened {
					unix.Close(fd)
				}
				if want := len(r.Steps); a.Failure == nil && a.Done != want {
					t.Errorf("%d of %d steps", a.Done, want)
				}
				return a.Failure.Err()
			}
			d, from := furnished(t)
			if err := again(r, d, from); err != nil {
				t.Fatal(err)
			}
			want := tree(t, d.Path("."))
			for kill, over := 0, false; !over; kill++ {
				d, from := furnished(t)
				if r.Op == OpWriteFiles {
					over = true
				} else if a, ended := carried(r, d, from, kill); ended {
					if err := a.Failure.Err(); err != nil {
						t.Fatal(err)
					}
					over = true
				}
				once := r
				once.Again = true
				for range 2 {
					if err := again(once, d, from); err != nil {
						t.Errorf("killed at step %d: %v", kill, err)
					}
					if got := tree(t, d.Path(".")); !maps.Equal(got, want) {
						t.Errorf("killed at step %d: %v, want %v", kill, got, want)
					}
				}
			}
		})
	}
}

// What was there before is nobody's first attempt.
func TestOnceMoreTakesNothingForItsOwn(t *testing.T) {
	other := creation()
	other[0].Rel, other[5].To = "dir", "dir"
	for name, c := range map[string]struct {
		r    Request
		want error
	}{
		"a directory that has something": {Request{Op: OpMkdir, Rel: "dir", Mode: 0o700}, unix.EEXIST},
		"a file":                         {Request{Op: OpMkdir, Rel: "file", Mode: 0o700}, unix.EEXIST},
		"a file with something":          {Request{Op: OpOpenRegular, Rel: "file", Flags: unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL}, unix.EEXIST},
		"another link":                   {Request{Op: OpSymlink, Rel: "file", To: "/etc"}, unix.EEXIST},
		"both names":                     {Request{Op: OpRenameNew, Rel: "file", To: "dir"}, unix.EEXIST},
		"neither name":                   {Request{Op: OpRename, Rel: "none", To: "nowhere"}, unix.ENOENT},
		"another of the name":            {Request{Op: OpTake, Steps: other}, unix.EEXIST},
		"a copy onto what is there":      {Request{Op: OpCopyTree, To: "dir", Mode: 0o700}, unix.EEXIST},
	} {
		d, from := furnished(t)
		if err := os.WriteFile(d.Path("dir/a"), []byte("kept"), 0o600); err != nil {
			t.Fatal(err)
		}
		before := tree(t, d.Path("."))
		fds := []int{d.fd}
		if c.r.Op == OpCopyTree {
			fds = append(fds, from.fd)
		}
		c.r.Again = true
		if a, _ := Carry(c.r, fds); !errors.Is(a.Failure.Err(), c.want) {
			t.Errorf("%s: %v", name, a.Failure.Err())
		}
		after := tree(t, d.Path("."))
		if c.r.Op == OpCopyTree {
			delete(after, "dir/sub") // as far as it came
			delete(after, "dir/sub/b")
			delete(after, "dir/sub/sub")
		}
		if !maps.Equal(after, before) {
			t.Errorf("%s: %v, and %v before", name, after, before)
		}
	}
}
