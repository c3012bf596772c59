package profiles

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/internal/durable"
	"rlminit/job"
	"rlminit/profiles/secrets"
	"rlminit/profiles/statefile"
	"rlminit/service"
)

// A profile can be made of another one, be had back from the trash, and get
// another name. What a kill between two steps leaves:
//
//	clone    a directory aside, which the next boot removes; or the whole profile
//	import   the same, and one of the log; or the log without the profile; or both
//	restore  the entry in the trash, perhaps with a new port, or the other intent that
//	         was asked for, in its state file; or the whole profile
//	rename   the old name; or the new one with the log still under the old, which
//	         the next boot moves; or all of it
//
// Its secrets are under a name before the profile is. A rename copies them first, and
// removes those of the old name last, so that a kill leaves them under both: whichever
// name the profile has, it has its secrets. Under the other one the next boot removes
// them, or the caller that takes that name before. A deletion and a restore do the same between a
// profile's name and its entry in the trash.

// restore takes a profile out of the trash. Its state is put right where it lies,
// and then one rename makes it a profile.
func (s *Store) restore(name string, how Creation, settings *Settings) (p Profile, err error) {
	t, err := s.Trash.find(how.Restore)
	if err != nil {
		return Profile{}, err
	}
	dir := trashDir + "/" + t.Entry
	if err := s.Ownership.complete(dir); err != nil {
		return Profile{}, s.Trash.missed(t.Entry, err)
	}
	file := dir + "/" + settings.StateFile
	text, err := s.tree.home.ReadFile(file, statefile.Max)
	state, err := statefile.Understood(text, err)
	if err != nil {
		return Profile{}, err
	}
	if state.Origin == service.Corrupt {
		state = statefile.File{Version: 1}
	}
	b, err := s.beginningIn(dir, settings)
	if err != nil {
		return Profile{}, err
	}
	done := s.ports.Hold(name)
	defer func() { done(err == nil) }()
	if state.Port, err = takePort(s.ports, name, s.ownPort(name, how.Port, state.Port), b, settings, s.tree.told); err != nil {
		return Profile{}, err
	}
	reborn(&state, how.Intent, b)
	state.Profile, state.UpdatedAt = name, s.tree.now()
	err = s.tree.home.WriteFile(file, state.Encode(), durable.Write{Mode: 0o640, Names: true})
	if err == nil {
		err = s.tree.home.MkdirAll(profilesDir, dirMode)
	}
	if err == nil {
		err = s.Secrets.Revive(name, t.Entry, how.Secrets, how.uid())
	}
	if err == nil {
		err = s.tree.removeSessions(dir)
	}
	if err == nil {
		err = s.Ownership.move(dir, dirOf(name))
	}
	if errors.Is(err, unix.EEXIST) {
		err = s.list.exists(name)
	}
	if err = s.Trash.missed(t.Entry, err); err != nil {
		s.unrestored(name, file, text, err)
		return Profile{}, err
	}
	if err := s.Records.created(profileBody{Profile: name, Desired: state.Desired, Restored: t.Entry, Actor: how.Actor}); err != nil {
		if e := s.Ownership.move(dirOf(name), dir); e != nil {
			return Profile{}, fmt.Errorf("%w; %w", err, durable.ErrInDoubt)
		}
		s.unrestored(name, file, text, err)
		return Profile{}, err
	}
	s.Secrets.Forget(secrets.Trashed(t.Entry))
	return s.list.load(name)
}

// removeSessions removes what sessions have left in a directory in the trash: they ended
// when it was deleted, and nobody owns it.
func (v *tree) removeSessions(dir string) error {
	err := v.removeAll(dir, job.SessionsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ownPort is the port that was asked for, else the profile's own from before if it is free,
// else 0.
func (s *Store) ownPort(name string, asked, before int) int {
	if asked == 0 && before != 0 {
		if _, free := s.ports.Claim(name, before); free {
			return before
		}
	}
	return asked
}

// beginningIn is the Beginning of the kind that the profile.yaml in a directory names.
func (s *Store) beginningIn(dir string, settings *Settings) (Beginning, error) {
	text, err := s.tree.home.ReadFile(dir+"/"+overridesFile, maxOverrides)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Beginning{}, err
	}
	return settings.beginning(config.KindIn(text)), nil
}

// reborn makes of the state that a profile had when it was deleted what it is to have
// when it is restored.
func reborn(state *statefile.File, asked service.Intent, b Beginning) {
	switch {
	case asked != service.IntentNone:
		state.Desired = asked
	case state.Desired == service.IntentNone:
		state.Desired = b.InitialState
	}
	state.Seen, state.PID, state.StartTime = service.SeenStopped, 0, 0
}

// unrestored has a state file in the trash have the text again that it had before a
// restore that has failed with why: the next one is not to find what that one was asked
// for. Nor does anybody find its secrets, unless it may be there.
func (s *Store) unrestored(name, file string, text []byte, why error) {
	if !errors.Is(why, durable.ErrInDoubt) {
		s.Secrets.Forget(name)
	}
	var err error
	if len(text) > 0 {
		err = s.tree.home.WriteFile(file, text, durable.Write{Mode: 0o640})
	} else {
		err = s.tree.home.RemoveAll(file)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.tree.told.say(fmt.Sprintf("%v; it may have what a restore asked for that was refused", err))
	}
}

// CheckRename refuses what Rename would, as far as that is known without doing
// it.
func (s *Store) CheckRename(from, to string) error {
	switch {
	case from == Default:
		return refuse(ErrName, "the profile %q is the home directory itself, and keeps its name", from)
	case from == to:
		return refuse(ErrExists, "profile %q has that name already", from)
	}
	if err := CheckName(to, s.tree.settings.Load().Services); err != nil {
		return err
	}
	if err := s.checkFresh(to); err != nil {
		return err
	}
	if _, err := s.list.load(from); err != nil {
		return err
	}
	_, err := s.tree.home.Lstat(dirOf(to))
	switch {
	case err == nil:
		return refuse(ErrExists, "profile %q cannot be renamed: %s exists already; choose another name", from, s.tree.home.Path(dirOf(to)))
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}

// Rename gives a profile another name, durably; port, intent, secrets and log stay
// its own. Its gateway must have been stopped. by is the requester; nil: rlminit itself.
func (s *Store) Rename(from, to string, by *Actor) (p Profile, err error) {
	if err := s.list.prime(); err != nil {
		return Profile{}, err
	}
	// Of two at once in opposite directions both want both locks.
	first, second := from, to
	if second < first {
		first, second = second, first
	}
	defer s.tree.names.lock(first)()
	if first != second {
		defer s.tree.names.lock(second)()
	}
	if err := s.CheckRename(from, to); err != nil {
		return Profile{}, err
	}
	before, err := s.list.load(from)
	if err != nil {
		return Profile{}, err
	}
	s.Records.keepsIntent(from) // a rest in the middle is known by that
	err = s.move(from, to, profileBody{Profile: from, To: to, Desired: before.Record.Desired, Actor: by})
	if err != nil {
		return Profile{}, err
	}
	s.Records.forget(from)
	if before.Port != 0 {
		s.ports.Claim(to, before.Port)
	}
	s.tree.moveLog(from, to)
	// It has its name; what still says the old one is put right at the next change.
	s.tree.told.failure(s.Records.restate(to, copyMode))
	return s.list.load(to)
}

// move moves a profile's directory and records it. Its secrets are under both names
// meanwhile, and stay so where it is in doubt which one it has.
func (s *Store) move(from, to string, record profileBody) (err error) {
	free := to // the name that is nobody's in the end
	defer func() {
		if !errors.Is(err, durable.ErrInDoubt) {
			s.Secrets.Forget(free)
		}
	}()
	if err := s.Secrets.Move(from, to); err != nil {
		return err
	}
	if err := s.Records.beginAnew(to); err != nil {
		return err
	}
	if err := s.tree.home.RenameNew(dirOf(from), dirOf(to)); err != nil {
		return err
	}
	if err = s.Records.renamed(record); err != nil { // its desired state would be that of its state file, which is a copy
		if e := s.tree.home.RenameNew(dirOf(to), dirOf(from)); e != nil {
			err = fmt.Errorf("%w; %w", err, durable.ErrInDoubt)
		}
		return err
	}
	free = from
	return nil
}

// gatewayLogs is where the logs of profiles lie.
const gatewayLogs = "logs/gateways"

// moveLog has a profile's log follow its name.
func (v *tree) moveLog(from, to string) {
	old, next := gatewayLogs+"/"+from, gatewayLogs+"/"+to
	if _, err := v.ours.Lstat(old); errors.Is(err, fs.ErrNotExist) {
		return
	}
	v.told.failure(v.setAside(old))
	if err := v.placeLog(old, next); err != nil {
		v.told.once(fmt.Sprintf("%v; the log of %s from before its new name is still in %s", err, to, v.ours.Path(old)))
	}
}

// setAside has the file of a log that is written to be one of those before, as a
// rotation does. Who follows the log under the old name has it open, and would be shown
// what the new one writes.
func (v *tree) setAside(log string) error {
	err := v.ours.RenameNew(log+"/current", log+"/"+v.now().UTC().Format("20060102T150405.000000Z")+".log")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// placeLog gives a log the name of its profile. One that an earlier profile of
// that name has left is kept aside.
func (v *tree) placeLog(from, to string) error {
	err := v.ours.RenameNew(from, to)
	if errors.Is(err, unix.EEXIST) {
		if _, err = moveNew(v.ours, to, v.dated(to+".before-")); err == nil {
			err = v.ours.RenameNew(from, to)
		}
	}
	return err
}

// finishRename has the log of a profile follow that a kill kept from it: the
// state file still has the old name, and nobody else has it.
func (s *Store) finishRename(name string) {
	f, err := statefile.Read(s.tree.home, s.tree.stateFileOf(name))
	if err != nil || f.Origin != service.Recorded || f.Profile == name || name == Default || !ValidName(f.Profile) {
		return
	}
	if _, err := s.tree.home.Lstat(dirOf(f.Profile)); !errors.Is(err, fs.ErrNotExist) {
		return // a copy of another profile's directory, say
	}
	s.tree.moveLog(f.Profile, name)
	defer s.tree.names.lock(name)()
	s.tree.told.failure(s.Records.restate(name, copyMode))
}
