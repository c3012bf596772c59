package durable

import (
	"errors"
	"io/fs"
	"path"
	"strings"
)

// maxGlob bounds how many names of one directory are held against a pattern.
const maxGlob = 100_000

// Glob returns the paths below d that a pattern names. Between slashes it is one
// of path.Match, and as in a shell only one that begins with a dot fits a name
// that does. No link is followed: one is found where the pattern ends, and leads
// nowhere. A path without *, ?, [ and \ is returned as it is, there or not. It
// returns what it found and the first error.
func (d *Dir) Glob(pattern string) (found []string, first error) {
	found = []string{"."}
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		var next []string
		for _, dir := range found {
			if !strings.ContainsAny(part, `*?[\`) {
				next = append(next, path.Join(dir, part))
				continue
			}
			names, err := d.matching(dir, part, i < len(parts)-1)
			if err != nil && first == nil {
				first = err
			}
			next = append(next, names...)
		}
		found = next
	}
	return found, first
}

// matching returns the paths in directory dir, of directories alone if that is
// asked, whose names fit one part of a pattern.
func (d *Dir) matching(dir, part string, directories bool) (found []string, err error) {
	entries, err := d.ReadDir(dir, maxGlob)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if fits, _ := path.Match(part, e.Name); !fits || e.Name[0] == '.' && part[0] != '.' {
			continue
		}
		at := path.Join(dir, e.Name)
		if directories && e.Type != fs.ModeDir {
			if info, err := d.Lstat(at); e.Type != fs.ModeIrregular || err != nil || info.Type != fs.ModeDir {
				continue
			}
		}
		found = append(found, at)
	}
	return found, err
}
