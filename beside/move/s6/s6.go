// Package s6 reads the trees of s6-overlay: service directories of s6 (version 2:
// /etc/services.d, /etc/cont-init.d), sources of s6-rc (version 3:
// /etc/s6-overlay/s6-rc.d), or both, as a version 3 image with old parts has them. The
// formats are those of s6-supervise, servicedir and s6-rc-compile; the table of what becomes
// of each file is in docs/import.md.
package s6

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"rlminit/beside/move"
)

// reader is one import.
type reader struct {
	tree    *move.Tree
	plan    *move.Plan
	units   map[string]*unit       // of s6-rc, by name
	order   []string               // their names, as they were found
	boots   bool                   // there is a bundle user, which says what starts at boot
	ready   []*move.Service        // those that are ready by a descriptor
	scanned map[string]bool        // scripts that were looked at
	changed map[*move.Service]bool // whose scripts change the user
	legacy  []*move.Service        // of services.d
}

// Places of an image that have something of s6-overlay's.
const (
	placeServices = "etc/services.d"
	placeInit     = "etc/cont-init.d"
	placeFinish   = "etc/cont-finish.d"
	placeFix      = "etc/fix-attrs.d"
	placeRC       = "etc/s6-overlay/s6-rc.d"
	placeBundles  = "etc/s6-overlay/user-bundles.d" // user and user2, since s6-overlay 3.2.3
)

// Is tells whether a directory is of s6: the root of an image with such a tree, its /etc, a
// directory of service directories or of sources, or one service directory.
func Is(t *move.Tree, dir string) bool {
	for _, place := range []string{placeServices, placeInit, placeRC} {
		for _, at := range []string{place, strings.TrimPrefix(place, "etc/")} {
			if _, is := t.Has(filepath.Join(dir, at)); is {
				return true
			}
		}
	}
	return isService(t, dir) || isRC(t, dir) || slices.ContainsFunc(dirs(t, dir), func(d string) bool { return isService(t, d) || isRC(t, d) })
}

func isService(t *move.Tree, dir string) bool {
	there, isDir := t.Has(filepath.Join(dir, "run"))
	return there && !isDir
}

func isRC(t *move.Tree, dir string) bool {
	there, isDir := t.Has(filepath.Join(dir, "type"))
	return there && !isDir
}

// dirs are the directories in one, sorted; none if it cannot be read.
func dirs(t *move.Tree, dir string) (all []string) {
	entries, err := t.List(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if _, is := t.Has(path); is && !strings.HasPrefix(e.Name(), ".") {
			all = append(all, path)
		}
	}
	return all
}

// Import reads these directories into a plan.
func Import(tree *move.Tree, paths []string, plan *move.Plan) error {
	r := &reader{tree: tree, plan: plan, units: map[string]*unit{}, scanned: map[string]bool{}, changed: map[*move.Service]bool{}}
	found := false
	for _, path := range paths {
		is, err := r.path(path)
		if err != nil {
			return err
		}
		found = found || is
	}
	if !found {
		return errors.New("there is no run, type, services.d or s6-rc.d in it; name the root of the image, or a directory of service directories")
	}
	r.compile()
	r.readiness()
	return nil
}

// path reads what a person named.
func (r *reader) path(path string) (found bool, err error) {
	there, dir := r.tree.Has(path)
	if !there || !dir {
		return false, errors.New(path + ": it is no directory; name the root of the image, or a directory of service directories")
	}
	for _, prefix := range []string{"etc/", ""} {
		in := func(place string) string { return filepath.Join(path, prefix, strings.TrimPrefix(place, "etc/")) }
		if prefix == "" && (found || filepath.Base(path) == "services.d" || filepath.Base(path) == "s6-rc.d") {
			break
		}
		found = r.inits(in(placeInit)) || found
		found = r.finishes(in(placeFinish)) || found
		found = r.fixes(in(placeFix)) || found
		for _, d := range dirs(r.tree, in(placeServices)) {
			found = r.service(d) || found
		}
		for _, d := range slices.Concat(dirs(r.tree, in(placeBundles)), dirs(r.tree, in(placeRC))) {
			found = r.source(d) || found
		}
	}
	switch {
	case found:
		return true, nil
	case filepath.Base(path) == "cont-init.d":
		return r.inits(path), nil
	case isRC(r.tree, path):
		return r.source(path), nil
	case isService(r.tree, path):
		return r.service(path), nil
	}
	for _, d := range dirs(r.tree, path) {
		switch {
		case isRC(r.tree, d) || filepath.Base(path) == "s6-rc.d":
			found = r.source(d) || found
		case isService(r.tree, d):
			found = r.service(d) || found
		}
	}
	return found, nil
}

// inits makes the scripts of cont-init.d into boot commands. As with s6-overlay, one that
// fails does not end the container.
func (r *reader) inits(dir string) (found bool) {
	for _, path := range r.scripts(dir) {
		found = true
		at := move.At{File: path, Line: 1}
		s := &move.Service{Source: filepath.Base(path), Name: filepath.Base(path), At: at}
		command := r.script(path, s)
		if command == nil {
			continue
		}
		s.Keys.Drop("user") // one for all of boot
		s.Keys.Drop("group")
		s.Keys.Set("command", command).Set("on_failure", "continue").Set("timeout", "1h")
		r.plan.Boot = append(r.plan.Boot, s)
		if !r.changed[s] {
			r.rooted(s, at)
		}
	}
	return found
}

// scripts are the files of a directory, in the order of their names.
func (r *reader) scripts(dir string) (paths []string) {
	entries, err := r.tree.List(dir)
	if err != nil {
		if there, _ := r.tree.Has(dir); there {
			r.plan.Leave(move.At{File: dir}, nil, move.Invalid, filepath.Base(dir), "it cannot be read: "+err.Error())
		}
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if there, isDir := r.tree.Has(path); there && !isDir && !strings.HasPrefix(e.Name(), ".") {
			paths = append(paths, path)
		} else if e.Type()&fs.ModeSymlink != 0 {
			r.plan.Leave(move.At{File: path}, nil, move.Missing, e.Name(), "what this link points to is not there, or is no file of the tree; name the root of the image by --root")
		}
	}
	return paths
}

func (r *reader) finishes(dir string) (found bool) {
	for _, path := range r.scripts(dir) {
		found = true
		r.plan.Leave(move.At{File: path, Line: 1}, nil, move.NoEqual, "cont-finish.d/"+filepath.Base(path), "rlminit runs nothing when the container stops; have a service do it when it gets its stop signal")
	}
	return found
}

func (r *reader) fixes(dir string) (found bool) {
	for _, path := range r.scripts(dir) {
		found = true
		r.plan.Leave(move.At{File: path, Line: 1}, nil, move.NoEqual, "fix-attrs.d/"+filepath.Base(path), "rlminit gives only paths of the volume to the user, by the key own; do the others in the image, by chown and chmod")
	}
	return found
}

// rooted says that something ran as root.
func (r *reader) rooted(s *move.Service, at move.At) {
	r.plan.Leave(at, s, move.Rights, "root", "s6 runs it as root, and nothing but PID 1 is root here: it runs as the container's user; give that user the files which it needs, do the rest in the image, or by the keys remap, own and dirs")
}
