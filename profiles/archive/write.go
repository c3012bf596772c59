package archive

import (
	"archive/tar"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	if err := w.tree(profile, ".", profilePart, 0); err != nil {
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

// tree writes a directory and all below it, in the order of the names.
func (w *writer) tree(d *durable.Dir, rel, name string, depth int) error {
	info, err := d.Lstat(rel)
	if err != nil {
		return unlessGone(err)
	}
	if depth > maxDepth {
		return fmt.Errorf("cannot export %s: it is more than %d directories deep", d.Path(rel), maxDepth)
	}
	if err := w.header(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: int64(info.Perm & 0o777), ModTime: info.Modified}); err != nil {
		return err
	}
	entries, err := d.ReadDir(rel, maxEntries)
	if err != nil {
		return unlessGone(err)
	}
	slices.SortFunc(entries, func(a, b durable.Entry) int { return cmp.Compare(a.Name, b.Name) })
	for _, e := range entries {
		if depth == 0 && (durable.IsTemp(e.Name) || job.Keeps(e.Name)) {
			continue
		}
		at, named := e.Name, name+"/"+e.Name
		if rel != "." {
			at = rel + "/" + e.Name
		}
		info, err := d.Lstat(at)
		switch {
		case err != nil:
			err = unlessGone(err)
		case info.Type == fs.ModeDir:
			err = w.tree(d, at, named, depth+1)
		case info.Type == 0:
			err = w.file(d, at, named)
		case info.Type == fs.ModeSymlink:
			err = w.link(d, at, named, info)
		default:
			w.note(d.Path(at) + " is left out: it is neither a file nor a directory nor a link")
		}
		if err != nil {
			return err
		}
	}
	return nil
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
		if err := w.file(d, e.Name, logPart+"/"+e.Name); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) link(d *durable.Dir, at, name string, info durable.Info) error {
	target, err := d.Readlink(at)
	if err != nil {
		return unlessGone(err)
	}
	if why := outside(name, target); why != "" {
		w.note(fmt.Sprintf("%s is left out: it is a link %s", d.Path(at), why))
		return nil
	}
	return w.header(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777, ModTime: info.Modified})
}

// file writes as much of a file as it had when it was opened: a log grows.
func (w *writer) file(d *durable.Dir, at, name string) error {
	f, err := d.OpenRegular(at, unix.O_RDONLY, 0)
	if errors.Is(err, durable.ErrNotRegular) {
		return nil // since a moment ago
	}
	if err != nil {
		return unlessGone(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(info.Mode().Perm()), Size: info.Size(), ModTime: info.ModTime()}
	if err := w.header(h); err != nil {
		return err
	}
	n, err := io.Copy(w.tar, io.LimitReader(f, info.Size()))
	if err == nil && n < info.Size() {
		w.note(d.Path(at) + " became shorter while it was read; stop the profile to export it as it is at one moment")
		_, err = io.CopyN(w.tar, zeros{}, info.Size()-n)
	}
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
