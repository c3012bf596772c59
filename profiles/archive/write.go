package archive

import (
	"archive/tar"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/job"
)

// Write writes a profile as an archive, without what jobs keep in its directory. log may
// be nil. note is told, a line each, what else is left out and what has changed while it
// was read; what vanishes meanwhile was not there.
func Write(to io.Writer, m Manifest, profile, log *durable.Dir, note func(string)) error {
	w := &writer{tar: tar.NewWriter(to), note: note}
	m.Format = Format
	if err := w.document(manifestName, m, m.At); err != nil {
		return err
	}
	if err := w.directory(profile, profilePart, 0); err != nil {
		return err
	}
	if log != nil {
		if err := w.log(log); err != nil {
			return err
		}
	}
	if err := w.document(endName, end{w.entries}, m.At); err != nil {
		return err
	}
	return w.tar.Close()
}

type writer struct {
	tar     *tar.Writer
	note    func(string)
	entries int
}

func (w *writer) document(name string, v any, at time.Time) error {
	content, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	content = append(content, '\n')
	if err := w.header(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o640, Size: int64(len(content)), ModTime: at}); err != nil {
		return err
	}
	_, err = w.tar.Write(content)
	return err
}

func (w *writer) header(h *tar.Header) error {
	w.entries++
	h.ModTime = h.ModTime.Truncate(time.Second) // else each takes a header more
	return w.tar.WriteHeader(h)
}

// directory writes an open directory and all below it, in the order of the names. It is
// walked by descriptor, so that nothing on the way to it can be exchanged meanwhile.
func (w *writer) directory(d *durable.Dir, name string, depth int) error {
	info, err := d.Lstat(".")
	if err != nil {
		return unlessGone(err)
	}
	if depth > maxDepth {
		return fmt.Errorf("cannot export %s: it is more than %d directories deep", d.Path("."), maxDepth)
	}
	if err := w.header(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: int64(info.Perm & 0o777), ModTime: info.Modified}); err != nil {
		return err
	}
	entries, err := d.ReadDir(".", maxEntries)
	if err != nil {
		return unlessGone(err)
	}
	slices.SortFunc(entries, func(a, b durable.Entry) int { return cmp.Compare(a.Name, b.Name) })
	for _, e := range entries {
		if depth == 0 && (durable.IsTemp(e.Name) || job.Keeps(e.Name)) {
			continue
		}
		if err := w.settle(d, e.Name, name+"/"+e.Name, depth); err != nil {
			return err
		}
	}
	return nil
}

// attempts is how often a name, or a file, that changes is looked at again.
const attempts = 5

// settle writes what has a name. What is exchanged for something of another kind between
// the look and the opening is looked at again; of what is exchanged each time nothing is
// written, which is said.
func (w *writer) settle(d *durable.Dir, at, name string, depth int) error {
	for range attempts {
		again, err := w.entry(d, at, name, depth)
		if !again {
			return err
		}
	}
	w.note(d.Path(at) + " is left out: it was exchanged for something else each time it was read; stop the profile to export it")
	return nil
}

// entry is one attempt of settle. Nothing is written where it is to be done again.
func (w *writer) entry(d *durable.Dir, at, name string, depth int) (again bool, err error) {
	info, err := d.Lstat(at)
	if err != nil {
		return false, unlessGone(err)
	}
	switch info.Type {
	case fs.ModeDir:
		below, err := d.OpenDir(at)
		if err != nil {
			return exchanged(err), unlessGone(err)
		}
		defer below.Close()
		return false, w.directory(below, name, depth+1)
	case 0:
		f, err := d.OpenRegular(at, unix.O_RDONLY, 0)
		if err != nil {
			return exchanged(err), unlessGone(err)
		}
		defer f.Close()
		return false, w.file(f, name)
	case fs.ModeSymlink:
		target, err := d.Readlink(at)
		if err != nil {
			return exchanged(err), unlessGone(err)
		}
		return false, w.link(d.Path(at), name, target, info)
	}
	w.note(d.Path(at) + " is left out: it is neither a file nor a directory nor a link")
	return false, nil
}

// exchanged tells whether an error is that of a name that has become another kind of
// thing: readlink(2) of no link is EINVAL.
func exchanged(err error) bool {
	return errors.Is(err, durable.ErrNotRegular) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EINVAL)
}

// log writes a log's files, and nothing else that lies there.
func (w *writer) log(d *durable.Dir) error {
	entries, err := d.ReadDir(".", maxEntries)
	if err != nil {
		return unlessGone(err)
	}
	slices.SortFunc(entries, func(a, b durable.Entry) int { return cmp.Compare(a.Name, b.Name) })
	for _, e := range entries {
		info, err := d.Lstat(e.Name)
		if err != nil || info.Type != 0 || !logName().MatchString(e.Name) {
			continue
		}
		f, err := d.OpenRegular(e.Name, unix.O_RDONLY, 0)
		if err == nil {
			info, failed := f.Stat()
			if err = failed; err == nil {
				err = w.stream(f, logPart+"/"+e.Name, info)
			}
			f.Close()
		} else if exchanged(err) {
			err = nil // since a moment ago
		}
		if err := unlessGone(err); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) link(path, name, target string, info durable.Info) error {
	if why := outside(name, target); why != "" {
		w.note(fmt.Sprintf("%s is left out: it is a link %s", path, why))
		return nil
	}
	return w.header(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777, ModTime: info.Modified})
}

// maxWhole is up to how many bytes of a file are read before any is written, so that
// one that changes meanwhile can be read again.
const maxWhole = 1 << 20

// file writes a file as it was at one moment, if it is small and is left alone long
// enough, and else says that it has changed.
func (w *writer) file(f *os.File, name string) error {
	before, err := f.Stat()
	for range attempts {
		if err != nil || before.Size() > maxWhole {
			break
		}
		content := make([]byte, before.Size())
		n, failed := io.ReadFull(io.NewSectionReader(f, 0, before.Size()), content)
		if failed != nil && !errors.Is(failed, io.EOF) && !errors.Is(failed, io.ErrUnexpectedEOF) {
			return failed
		}
		var after fs.FileInfo
		if after, err = f.Stat(); err == nil && same(before, after) && n == len(content) {
			return w.content(name, after, content)
		}
		before = after
	}
	if err != nil {
		return err
	}
	if err := w.stream(f, name, before); err != nil {
		return err
	}
	if after, err := f.Stat(); err == nil && !same(before, after) {
		w.note(f.Name() + " changed while it was read; stop the profile to export it as it is at one moment")
	}
	return nil
}

func same(before, after fs.FileInfo) bool {
	return before.Size() == after.Size() && before.ModTime().Equal(after.ModTime())
}

func (w *writer) content(name string, info fs.FileInfo, content []byte) error {
	if err := w.regular(name, info); err != nil {
		return err
	}
	_, err := w.tar.Write(content)
	return err
}

func (w *writer) regular(name string, info fs.FileInfo) error {
	return w.header(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(info.Mode().Perm()), Size: info.Size(), ModTime: info.ModTime()})
}

// stream writes as much of a file as it had when it was looked at: a log grows. What is
// missing of one that has become shorter is zeros.
func (w *writer) stream(f *os.File, name string, info fs.FileInfo) error {
	if err := w.regular(name, info); err != nil {
		return err
	}
	n, err := io.Copy(w.tar, io.NewSectionReader(f, 0, info.Size()))
	if err == nil && n < info.Size() {
		_, err = io.CopyN(w.tar, zeros{}, info.Size()-n)
	}
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// unlessGone is an error but for that of what has vanished, which was not there.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
