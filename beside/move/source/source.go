// Package source knows the sources of `rlminit import`: which there are, how each is
// recognised by what lies at a path, and which package reads it. It owns nothing.
package source

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rlminit/beside/move"
	"rlminit/beside/move/compose"
	"rlminit/beside/move/procfile"
	"rlminit/beside/move/s6"
	"rlminit/beside/move/supervisord"
	"rlminit/beside/move/systemd"
)

// Source is one that import reads.
type Source struct {
	Name string

	isFile func(path string, data []byte) bool // tells whether a file is of this source
	isDir  func(t *move.Tree, dir string) bool // the same of a directory; nil: if inside has something of it
	read   func(t *move.Tree, paths []string, p *move.Plan) error
	inside []string      // patterns of files that are meant where a directory is named; nil: the directory is
	stop   time.Duration // how long a service may take to stop where nobody has said so
}

// sources are in the order in which they are asked whether a path is theirs.
var sources = []Source{
	{Name: "s6", isDir: s6.Is, read: s6.Import, stop: 5 * time.Second},
	{
		Name: "supervisord", isFile: isSupervisord, read: supervisord.Import, stop: 10 * time.Second,
		inside: []string{"supervisord.conf", "etc/supervisord.conf", "etc/supervisor/supervisord.conf", "conf.d/*.conf", "*.ini"},
	},
	{
		Name: "compose", isFile: isCompose, read: compose.Import, stop: 10 * time.Second,
		inside: []string{"compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"},
	},
	{Name: "systemd", isFile: systemd.IsFile, isDir: systemd.Is, read: systemd.Import, stop: 90 * time.Second},
	{Name: "procfile", isFile: procfile.Is, read: procfile.Import, inside: []string{"Procfile"}},
}

// Names are those of all sources.
func Names() (names []string) {
	for _, s := range sources {
		names = append(names, s.Name)
	}
	return names
}

// Named is the source of a name.
func Named(name string) (*Source, error) {
	for i, s := range sources {
		if s.Name == name {
			return &sources[i], nil
		}
	}
	return nil, fmt.Errorf("cannot import from %q: it is none of %s", name, strings.Join(Names(), ", "))
}

// Recognise is the source that the paths are of.
func Recognise(t *move.Tree, paths []string) (*Source, error) {
	var found *Source
	for _, path := range paths {
		there, dir := t.Has(path)
		if !there {
			return nil, fmt.Errorf("cannot read %s: there is no such file", path)
		}
		i := slices.IndexFunc(sources, func(s Source) bool { return s.is(t, path, dir) })
		switch {
		case i < 0:
			return nil, fmt.Errorf("cannot tell what %s is; say so by --from: %s", path, strings.Join(Names(), ", "))
		case found != nil && found != &sources[i]:
			return nil, fmt.Errorf("cannot import %s and %s at once; import each by itself, and put what you want of both into one file", found.Name, sources[i].Name)
		}
		found = &sources[i]
	}
	return found, nil
}

// Read reads the paths into a plan.
func (s *Source) Read(t *move.Tree, paths []string) (*move.Plan, error) {
	plan := &move.Plan{From: s.Name}
	if t.Root != "/" {
		plan.Shown = t.Target
	}
	files, err := s.files(t, paths)
	if err == nil {
		err = s.read(t, files, plan)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot import: %w", err)
	}
	plan.Defaults(s.stop)
	return plan, nil
}

// files are those that the source reads where a person names directories.
func (s *Source) files(t *move.Tree, paths []string) (files []string, err error) {
	for _, path := range paths {
		_, dir := t.Has(path)
		if !dir || s.inside == nil {
			files = append(files, path)
			continue
		}
		found := s.within(path)
		if len(found) == 0 {
			return nil, fmt.Errorf("there is none of %s in %s; name the file", strings.Join(s.inside, ", "), path)
		}
		files = append(files, found...)
	}
	return files, nil
}

// within are the files in a directory that match the first pattern that any does.
func (s *Source) within(dir string) []string {
	for _, pattern := range s.inside {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err == nil && len(found) > 0 {
			slices.Sort(found)
			return found
		}
	}
	return nil
}

// is tells whether what lies at a path is of this source.
func (s *Source) is(t *move.Tree, path string, dir bool) bool {
	if dir && s.isDir != nil {
		return s.isDir(t, path)
	}
	if dir {
		found := s.within(path)
		if len(found) == 0 {
			return false
		}
		path = found[0]
	}
	data, err := t.Read(path)
	return err == nil && s.isFile != nil && s.isFile(path, data)
}

func isSupervisord(_ string, data []byte) bool {
	for l := range strings.Lines(string(data)) {
		l = strings.TrimSpace(l)
		for _, section := range []string{"[program:", "[supervisord]", "[group:", "[include]", "[eventlistener:", "[fcgi-program:"} {
			if strings.HasPrefix(l, section) {
				return true
			}
		}
	}
	return false
}

func isCompose(path string, data []byte) bool {
	if ext := filepath.Ext(path); ext != ".yaml" && ext != ".yml" {
		return false
	}
	for l := range strings.Lines(string(data)) {
		if strings.HasPrefix(l, "services:") || strings.HasPrefix(l, "include:") {
			return true
		}
	}
	return false
}
