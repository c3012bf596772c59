// Package systemd reads unit files: services, the sockets and timers that belong to them,
// and templates, which become kinds of gateway. It knows systemd.unit(5), systemd.service(5),
// systemd.exec(5), systemd.kill(5) and systemd.resource-control(5) as of version 257; the
// table of what becomes of each key is in docs/import.md. A key that it does not know is
// named, so that nothing is lost in silence.
package systemd

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rlminit/beside/move"
)

// reader is one import.
type reader struct {
	tree  *move.Tree
	plan  *move.Plan
	units map[string]*unitFile
	order []string // names of units, sorted

	made map[*unitFile]*move.Service
}

// places are where an image has units, the ones that count less first.
var places = []string{"usr/lib/systemd/system", "lib/systemd/system", "usr/local/lib/systemd/system", "etc/systemd/system", "run/systemd/system"}

// Is tells whether a directory has units, or is the root of an image that has.
func Is(t *move.Tree, dir string) bool {
	if hasUnits(t, dir) {
		return true
	}
	return slices.ContainsFunc(places, func(p string) bool { return hasUnits(t, filepath.Join(dir, p)) })
}

func hasUnits(t *move.Tree, dir string) bool {
	entries, err := t.List(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".service" {
			return true
		}
	}
	return false
}

// IsFile tells whether a file is a unit.
func IsFile(path string, _ []byte) bool { return isUnit(filepath.Base(path)) }

// Import reads the units by these paths into a plan.
func Import(tree *move.Tree, paths []string, plan *move.Plan) error {
	r := &reader{tree: tree, plan: plan, units: map[string]*unitFile{}, made: map[*unitFile]*move.Service{}}
	for _, path := range paths {
		there, dir := tree.Has(path)
		switch {
		case !there:
			return errors.New(path + ": there is no such file that may be read")
		case !dir:
			r.file(path)
			r.dropIns(filepath.Dir(path))
			continue
		}
		found := r.directory(path)
		for _, place := range places {
			if dir := filepath.Join(path, place); !found || filepath.Clean(path) == "/" {
				if _, is := tree.Has(dir); is {
					r.directory(dir)
				}
			}
		}
	}
	if len(r.units) == 0 && len(plan.Left()) == 0 {
		return errors.New("there is no unit in it; name unit files, a directory of them, or the root of an image")
	}
	for name := range r.units {
		r.order = append(r.order, name)
	}
	slices.Sort(r.order)
	r.services()
	return nil
}

// directory reads all units of a directory, and what lies beside them.
func (r *reader) directory(dir string) (found bool) {
	entries, err := r.tree.List(dir)
	if err != nil {
		r.plan.Leave(move.At{File: dir}, nil, move.Invalid, filepath.Base(dir), err.Error())
		return false
	}
	for _, e := range entries {
		if isUnit(e.Name()) && !e.IsDir() {
			r.file(filepath.Join(dir, e.Name()))
			found = true
		}
	}
	r.dropIns(dir)
	r.links(dir)
	return found
}

// file reads a unit. A link to another name is an alias, and one to /dev/null, or an empty
// file, a unit that is masked.
func (r *reader) file(path string) {
	name := filepath.Base(path)
	if to, err := os.Readlink(path); err == nil {
		switch base := filepath.Base(to); {
		case to == "/dev/null":
			delete(r.units, name)
			r.plan.Leave(move.At{File: path}, nil, move.Outside, move.Short(name), "it is masked, so systemd runs it never; nor does rlminit")
			return
		case base != name && newUnit(name, "").instance != "" && newUnit(base, "").template:
			r.instance(path)
			return
		case base != name && isUnit(base):
			if u := r.units[base]; u != nil {
				u.aliases = append(u.aliases, name)
			} else if there, _ := r.tree.Has(path); there {
				u = newUnit(base, path)
				u.aliases = []string{name}
				r.read(u, path)
			}
			return
		}
	}
	if old := r.units[name]; old != nil && old.at.File != path {
		r.plan.Leave(old.at, nil, move.Outside, move.Short(name), "a unit of that name in "+move.Short(filepath.Dir(path))+" takes its place, as with systemd")
	}
	r.read(newUnit(name, path), path)
}

func (r *reader) read(u *unitFile, path string) {
	data, err := r.tree.Read(path)
	if err == nil && len(data) == 0 {
		err = errors.New("it is empty, so systemd holds it masked, and runs it never; nor does rlminit")
	}
	if err == nil {
		u.options, err = parse(path, data)
	}
	if err != nil {
		r.plan.Leave(move.At{File: path}, nil, move.Invalid, move.Short(u.name), "it is left out: "+err.Error())
		return
	}
	u.aliases = append(u.aliases, r.units[u.name].aliasesOf()...)
	for _, n := range u.names("Install", "Alias") {
		u.aliases = append(u.aliases, n.unit)
	}
	r.units[u.name] = u
}

func (u *unitFile) aliasesOf() []string {
	if u == nil {
		return nil
	}
	return u.aliases
}

// dropIns reads NAME.d/*.conf, and of an instance those of its template too, for the units
// that are there.
func (r *reader) dropIns(dir string) {
	entries, err := r.tree.List(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		of, is := strings.CutSuffix(e.Name(), ".d")
		path := filepath.Join(dir, e.Name())
		if _, isDir := r.tree.Has(path); !is || !isDir || filepath.Ext(of) == "" {
			continue
		}
		for name, u := range r.units {
			if name == of || u.instance != "" && u.stem+"@"+filepath.Ext(name) == of {
				r.dropIn(u, path)
			}
		}
	}
}

func (r *reader) dropIn(u *unitFile, dir string) {
	entries, err := r.tree.List(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if filepath.Ext(path) != ".conf" || slices.ContainsFunc(u.options, func(o option) bool { return o.at.File == path }) {
			continue
		}
		data, err := r.tree.Read(path)
		var more []option
		if err == nil {
			more, err = parse(path, data)
		}
		if err != nil {
			r.plan.Leave(move.At{File: path}, nil, move.Invalid, move.Short(e.Name()), "it is left out: "+err.Error())
			continue
		}
		u.options = append(u.options, more...)
	}
}

// links reads the directories by which units are enabled. An instance of a template there is
// a profile.
func (r *reader) links(dir string) {
	entries, err := r.tree.List(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".wants") && !strings.HasSuffix(e.Name(), ".requires") {
			continue
		}
		wants, err := r.tree.List(filepath.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		for _, w := range wants {
			u := newUnit(w.Name(), "")
			switch own := r.units[w.Name()]; {
			case own != nil:
				own.wanted = true
			case u.instance != "" && r.units[u.stem+"@"+filepath.Ext(w.Name())] != nil:
				r.instance(filepath.Join(dir, e.Name(), w.Name()))
			}
		}
	}
}

// instance names an instance of a template.
func (r *reader) instance(path string) {
	u := newUnit(filepath.Base(path), path)
	if template := r.units[u.stem+"@"+filepath.Ext(u.name)]; template != nil {
		template.wanted = true
	}
	r.plan.Leave(u.at, nil, move.Near, move.Short(u.name), "an instance is a profile here, on the volume: rlminit profile create "+move.Short(u.instance)+" --kind "+move.Short(u.stem))
}
