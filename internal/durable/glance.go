package durable

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Glance is what is seen of a directory at one look.
type Glance struct {
	Odd    bool         // it takes a closer look, by OpenDir and what follows
	Marked bool         // its marker is a regular file; else nothing was read
	Files  []GlanceFile // what was asked for, in that order
}

// GlanceFile is a file, whole; one that is not There is nowhere.
type GlanceFile struct {
	There bool
	Data  []byte
}

// Glances looks into the directories of these names below d: where marker is a
// regular file, files are read, of at most max bytes each. Anything else than a
// directory with regular files is Odd. What is asked of many costs a helper
// one request.
func (d *Dir) Glances(names []string, marker string, files []string, max int64) ([]Glance, error) {
	if d.helper != nil {
		a, _, err := d.ask(Request{Op: OpGlances, Rels: names, Rel: marker, Others: files, Max: max})
		if err == nil && len(a.Glances) != len(names) {
			err = d.fail("read", ".", unix.EPROTO)
		}
		return a.Glances, err
	}
	all := make([]Glance, len(names))
	for i, name := range names {
		all[i] = glance(d.fd, name, marker, files, max)
	}
	return all, nil
}

func glance(dirfd int, name, marker string, files []string, max int64) (g Glance) {
	fd, err := openBeneath(dirfd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == unix.ENOENT || err == unix.ENOTDIR {
		return g
	}
	if err != nil {
		return Glance{Odd: true}
	}
	defer unix.Close(fd)
	own := &Dir{fd: fd} // without a path: what goes wrong is odd, and not told
	switch st, err := lstatAt(fd, marker); {
	case err == unix.ENOENT:
		return g
	case err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG:
		return Glance{Odd: true}
	}
	g.Marked = true
	for _, file := range files {
		data, err := own.ReadFile(file, max)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Glance{Odd: true}
		}
		g.Files = append(g.Files, GlanceFile{err == nil, data})
	}
	return g
}

// Tidy does CleanTemps in the directories of these names below d, and removes
// from each what the patterns of Glob name. It returns those where something could
// not be done, which takes a closer look.
func (d *Dir) Tidy(names, patterns []string) (left []string) {
	if d.helper != nil {
		a, _, err := d.ask(Request{Op: OpTidy, Rels: names, Others: patterns})
		if err != nil {
			return names
		}
		for _, e := range a.Entries {
			left = append(left, e.Name)
		}
		return left
	}
	for _, name := range names {
		if err := d.tidy(name, patterns); err != nil && !errors.Is(err, fs.ErrNotExist) {
			left = append(left, name)
		}
	}
	return left
}

func (d *Dir) tidy(name string, patterns []string) error {
	own, err := d.OpenDir(name)
	if err != nil {
		return err
	}
	defer own.Close()
	first := own.CleanTemps(".")
	failed := func(err error) {
		if err != nil && !errors.Is(err, fs.ErrNotExist) && first == nil {
			first = err
		}
	}
	for _, pattern := range patterns {
		found, err := own.Glob(pattern)
		failed(err)
		for _, rel := range found {
			failed(own.RemoveAll(rel))
		}
	}
	return first
}
