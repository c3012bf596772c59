package durable

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Repeatable tells whether a request may be carried out by two, one after the other or
// both at once, the second time with Again, and the last answer is right.
func (r *Request) Repeatable() bool { return r.Op != OpAppend }

// isDone makes ready for a request that is carried out once more: what the first attempt
// has left of a new thing is taken away. It tells whether all was done already, which
// is to be made durable again.
func (r *Request) isDone(d *Dir, a *Answer) bool {
	switch r.Op {
	case OpMkdir: // nobody has put anything there yet
		_ = inParent(d.fd, r.Rel, func(at int, base string) error { return unix.Unlinkat(at, base, unix.AT_REMOVEDIR) })
	case OpOpenRegular:
		if info, err := d.Lstat(r.Rel); r.Flags&unix.O_EXCL != 0 && err == nil && info.Type == 0 && info.Size == 0 {
			_ = d.RemoveAll(r.Rel)
		}
	case OpSymlink:
		if target, err := d.Readlink(r.Rel); err == nil && target == r.To {
			_ = d.RemoveAll(r.Rel)
		}
	case OpCopyTree: // into what is not finished yet; else names are taken
		if entries, err := d.ReadDir(r.To, mostEntries); err == nil && IsTemp(path.Base(r.To)) {
			for _, e := range entries {
				_ = d.RemoveAll(path.Join(r.To, e.Name))
			}
		}
	case OpRename, OpRenameNew:
		return d.isMoved(r, a)
	case OpTake:
		return r.Steps.areDone(d, a)
	}
	return false
}

// isMoved tells whether a name was moved, from where it was.
func (d *Dir) isMoved(r *Request, a *Answer) bool {
	_, err := d.Lstat(r.To)
	if _, before := d.Lstat(r.Rel); err != nil || !errors.Is(before, fs.ErrNotExist) {
		return false
	}
	err = d.SyncDir(path.Dir(r.To))
	if above := path.Dir(r.Rel); err == nil && above != path.Dir(r.To) {
		err = d.SyncDir(above)
	}
	a.Failure = FailureOf(err)
	return true
}

// areDone tells whether steps that make a directory aside, and then move it to its place,
// were taken: what they write is there. Else nothing of it is left aside.
func (s Steps) areDone(d *Dir, a *Answer) bool {
	if len(s) == 0 {
		return true
	}
	last := s[len(s)-1]
	written := last.Op == OpRenameNew
	for _, r := range s {
		if rel, is := strings.CutPrefix(r.Rel, last.Rel+"/"); is && written && r.Op == OpWriteFile {
			data, err := d.ReadFile(path.Join(last.To, rel), int64(len(r.Data)))
			written = err == nil && bytes.Equal(data, r.Data)
		}
	}
	if written && d.isMoved(&last, a) {
		a.Done = len(s)
		return true
	}
	for _, r := range s {
		if r.Op == OpMkdir && IsTemp(path.Base(r.Rel)) {
			_ = d.RemoveAll(r.Rel)
		}
	}
	return false
}
