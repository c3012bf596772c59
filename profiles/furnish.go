package profiles

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"rlminit/internal/durable"
	"rlminit/job"
	"rlminit/profiles/archive"
	"rlminit/profiles/overrides"
)

// furnisher fills a new profile's directory, and changes its
// profile.yaml. It records nothing and holds no lock: both are its caller's.
type furnisher struct {
	tree      *tree
	ownership *Ownership
	list      *catalogue
}

// newOverrides is the profile.yaml of a profile that overrides nothing yet.
const newOverrides = `# What this profile has of its own: kind, command, environment, env_file, requires,
# wants, after, ready, health, restart, stop, log, schedules; limits may be lowered.
# A change is taken up by rlminit reload.
`

// begin is furnish and replace for a directory that is empty, and whose names are made
// durable together: nothing need be looked for. It returns the profile.yaml, nil for
// none.
func begin(steps *durable.Steps, home *durable.Dir, dir string, how Creation, settings *Settings) (text []byte, err error) {
	text = how.Text
	if text == nil && (!how.changes().None() || settings.Marker == overridesFile) {
		text, err = overrides.Set(home.Path(dir+"/"+overridesFile), []byte(newOverrides), how.changes())
		if err != nil {
			return nil, refuse(ErrBroken, "%v", err)
		}
	}
	if settings.Marker != overridesFile {
		steps.WriteFile(dir+"/"+settings.Marker, nil, durable.Write{Mode: 0o640})
	}
	if text != nil {
		steps.WriteFile(dir+"/"+overridesFile, text, durable.Write{Mode: 0o600, Max: maxOverrides})
	}
	return text, nil
}

// furnish puts a template ("": none), the marker and what the profile has of its own into
// a directory, each only where it is missing.
func (f *furnisher) furnish(dir, template string, own overrides.Changes, settings *Settings) error {
	if template != "" {
		if err := f.copyTemplate(template, dir); err != nil {
			return err
		}
	}
	marker := dir + "/" + settings.Marker
	marked, err := isRegular(f.tree.home, marker)
	if err != nil {
		return err
	}
	if !marked && settings.Marker != overridesFile {
		if err := f.tree.home.WriteFile(marker, nil, durable.Write{Mode: 0o640}); err != nil {
			return err
		}
	}
	text, err := f.tree.home.ReadFile(dir+"/"+overridesFile, maxOverrides)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if own.None() && settings.Marker != overridesFile {
			return nil
		}
		text = []byte(newOverrides)
	case err != nil:
		return err
	}
	return f.writeOverrides(dir, text, own)
}

// copyTemplate copies the template. It is root's, and read each time, so that
// it may change while rlminit runs.
func (f *furnisher) copyTemplate(template, dir string) error {
	from, err := f.tree.home.OpenLike(template)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot copy the template %s: there is no such directory; make it, or take gateway.template out of the configuration", template)
	}
	if err != nil {
		return err
	}
	defer from.Close()
	return f.tree.home.CopyTree(from, dir, durable.Copy{DirMode: dirMode})
}

// mark puts the marker into a directory that lacks it; what else a new profile
// gets is not forced upon one that somebody has made.
func (f *furnisher) mark(dir string, own overrides.Changes, settings *Settings) error {
	if err := f.furnish(dir, "", own, settings); err != nil {
		return err
	}
	return f.tree.home.SyncDir(dir)
}

// writeOverrides changes the text of a profile.yaml and writes it into dir, unless it is
// there as it should be.
func (f *furnisher) writeOverrides(dir string, text []byte, changes overrides.Changes) error {
	file := below(dir, overridesFile)
	changed, err := overrides.Set(f.tree.home.Path(file), text, changes)
	if err != nil {
		return refuse(ErrBroken, "%v", err)
	}
	return f.replace(dir, changed)
}

// undo removes the files of a profile that did not come about; "" is nothing.
func (f *furnisher) undo(made ...string) {
	for _, rel := range made {
		if rel == "" {
			continue
		}
		f.tree.told.failure(f.ownership.removeAll(rel))
	}
}

// replace is Replace for a caller that holds the name's lock.
func (f *furnisher) replace(dir string, text []byte) error {
	file := below(dir, overridesFile)
	if text == nil && f.tree.settings.Load().Marker == overridesFile {
		text = []byte{} // what makes the directory a profile is not removed
	}
	if text == nil {
		gone := below(dir, durable.TempName())
		err := f.tree.home.RenameNew(file, gone)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			_ = f.tree.home.RemoveAll(gone) // or the next boot does
		}
		return err
	}
	is, err := f.tree.home.ReadFile(file, maxOverrides)
	if info, e := f.tree.home.Lstat(file); err == nil && e == nil && info.Perm == 0o600 && bytes.Equal(is, text) {
		return nil
	}
	return f.tree.home.WriteFile(file, text, durable.Write{Mode: 0o600, Max: maxOverrides, Names: true})
}

// clone copies another profile's files aside, without what is that one's alone:
// its state, what its jobs keep there, and what is removed at boot.
func (f *furnisher) clone(from, temp string, own overrides.Changes, settings *Settings) error {
	if from == Default {
		return refuse(ErrName, "the profile %q is the home directory itself, and cannot be cloned", from)
	}
	if _, err := f.list.load(from); err != nil {
		return err
	}
	source, err := f.tree.home.OpenDir(dirOf(from))
	if err != nil {
		return err
	}
	defer source.Close()
	if err := f.ownership.copyFrom(source, dirOf(from), temp); err != nil {
		return err
	}
	for _, pattern := range append([]string{settings.StateFile, job.SessionsDir, job.UndoDir}, settings.RemoveAtBoot...) {
		if err := f.tree.removeAll(temp, pattern); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return f.furnish(temp, "", own, settings)
}

// unpack puts an archive aside: the profile's files into temp, and those of its
// log, if there are any, into the directory that it returns.
func (f *furnisher) unpack(a *archive.Archive, temp string, settings *Settings) (log string, err error) {
	if err := f.tree.ours.MkdirAll(gatewayLogs, dirMode); err != nil {
		return "", err
	}
	log = gatewayLogs + "/" + durable.TempName()
	if err := f.tree.ours.Mkdir(log, dirMode); err != nil {
		return "", err
	}
	err = a.Unpack(archive.Place{Dir: f.tree.home, Rel: temp}, archive.Place{Dir: f.tree.ours, Rel: log}, settings.StateFile)
	if errors.Is(err, archive.ErrFault) {
		err = refuse(ErrValue, "%v", err)
	}
	for _, pattern := range settings.RemoveAtBoot {
		if err == nil {
			if err = f.tree.removeAll(temp, pattern); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
	}
	if err != nil {
		return log, err
	}
	switch marked, err := isRegular(f.tree.home, temp+"/"+settings.Marker); {
	case err != nil:
		return log, err
	case !marked:
		return log, refuse(ErrValue, "the archive has no %s, which is what makes a directory a profile here", settings.Marker)
	}
	return log, nil
}
