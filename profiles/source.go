package profiles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/document"
	"rlminit/internal/durable"
	"rlminit/journal"
	"rlminit/profiles/archive"
	"rlminit/service"
)

// A profile can be made of another one, be had back from the trash, and get
// another name. What a kill between two steps leaves:
//
//	clone    a directory aside, which the next boot removes; or the whole profile
//	import   the same, and one of the log; or the log without the profile; or both
//	restore  the entry in the trash, perhaps with a new port in its state file; or
//	         the whole profile
//	rename   the old name; or the new one with the log still under the old, which
//	         the next boot moves; or all of it

// clone copies another profile's files aside, without what is that one's alone:
// its state, and what is removed at boot.
func (s *Store) clone(from, temp string, env map[string]string, settings *Settings) error {
	if from == Default {
		return refuse(ErrName, "the profile %q is the home directory itself, and cannot be cloned", from)
	}
	if _, err := s.load(from); err != nil {
		return err
	}
	source, err := s.home.OpenDir(dirOf(from))
	if err != nil {
		return err
	}
	defer source.Close()
	if err := s.copyFrom(source, temp, ownerOf(s.home, s.owners, dirOf(from))); err != nil {
		return err
	}
	for _, pattern := range append([]string{settings.StateFile}, settings.RemoveAtBoot...) {
		if err := s.removeAll(temp, pattern); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	bare := *settings
	bare.Template = ""
	return s.furnish(temp, env, &bare)
}

// copyFrom copies a profile's directory aside. Who may read one that is its own
// user's is that user, who is given the copy to write it, and only for that.
func (s *Store) copyFrom(source *durable.Dir, temp string, uid uint32) error {
	if uid != 0 {
		if err := s.giveDir(temp, uid); err != nil {
			return err
		}
	}
	if err := s.home.CopyFiles(source, temp, dirMode); err != nil {
		return err
	}
	return s.takeBackDir(temp)
}

// unpack puts an archive aside: the profile's files into temp, and those of its
// log, if there are any, into the directory that it returns.
func (s *Store) unpack(a *archive.Archive, temp string, settings *Settings) (log string, err error) {
	if err := s.ours.MkdirAll(gatewayLogs, dirMode); err != nil {
		return "", err
	}
	log = gatewayLogs + "/" + durable.TempName()
	if err := s.ours.Mkdir(log, dirMode); err != nil {
		return "", err
	}
	err = a.Unpack(archive.Place{Dir: s.home, Rel: temp}, archive.Place{Dir: s.ours, Rel: log}, settings.StateFile)
	if errors.Is(err, archive.ErrFault) {
		err = refuse(ErrValue, "%v", err)
	}
	for _, pattern := range settings.RemoveAtBoot {
		if err == nil {
			if err = s.removeAll(temp, pattern); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
	}
	if err != nil {
		return log, err
	}
	switch marked, err := isRegular(s.home, temp+"/"+settings.Marker); {
	case err != nil:
		return log, err
	case !marked:
		return log, refuse(ErrValue, "the archive has no %s, which is what makes a directory a profile here", settings.Marker)
	}
	return log, nil
}

// portOf is the port that a creation asks for: an import has that of its profile
// again, if it is one of ours and free.
func (s *Store) portOf(name string, how Creation, r PortRange) int {
	if how.Port != 0 || how.Import == nil || how.Import.Port < r.First || how.Import.Port > r.Last {
		return how.Port
	}
	if _, free := s.ports.claim(name, how.Import.Port); !free {
		return 0
	}
	return how.Import.Port
}

// Trashed is a profile in the trash.
type Trashed struct {
	Entry   string // the directory's name there
	Profile string
	At      time.Time // when it was deleted
}

// trashEntry is the name of one: that of the profile, the time, and a number
// where there are several of one second.
var trashEntry = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(.+)-(\d{8}T\d{6}Z)(?:-\d+)?$`) })

// Trash lists what is in the trash, by profile, the newest of each last.
func (s *Store) Trash() ([]Trashed, error) {
	entries, err := s.home.ReadDir(trashDir, maxProfiles)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil && !errors.Is(err, durable.ErrTooBig) {
		return nil, err
	}
	var list []Trashed
	for _, e := range entries {
		m := trashEntry().FindStringSubmatch(e.Name)
		if m == nil || !ValidName(m[1]) {
			continue
		}
		if at, err := time.Parse("20060102T150405Z", m[2]); err == nil {
			list = append(list, Trashed{Entry: e.Name, Profile: m[1], At: at})
		}
	}
	slices.SortFunc(list, func(a, b Trashed) int {
		if a.Profile != b.Profile {
			return strings.Compare(a.Profile, b.Profile)
		}
		if n := a.At.Compare(b.At); n != 0 {
			return n
		}
		if n := len(a.Entry) - len(b.Entry); n != 0 {
			return n // …Z, …Z-2, …Z-10
		}
		return strings.Compare(a.Entry, b.Entry)
	})
	return list, nil
}

// trashed finds the entry that a person means: by its own name, or the newest of
// a profile's.
func (s *Store) trashed(name string) (Trashed, error) {
	list, err := s.Trash()
	if err != nil {
		return Trashed{}, err
	}
	for _, t := range slices.Backward(list) {
		if t.Entry == name || t.Profile == name {
			return t, nil
		}
	}
	return Trashed{}, refuse(ErrNotFound, "nothing of %s is in the trash; rlminit profile list --trash shows what is", document.Quote(name))
}

// restore takes a profile out of the trash. Its state is put right where it lies,
// and then one rename makes it a profile.
func (s *Store) restore(name string, how Creation, settings *Settings) (p Profile, err error) {
	t, err := s.trashed(how.Restore)
	if err != nil {
		return Profile{}, err
	}
	dir := trashDir + "/" + t.Entry
	state, err := s.readRecord(s.home, dir+"/"+settings.StateFile)
	if err != nil {
		return Profile{}, err
	}
	if state.Origin == service.Corrupt {
		state = stateFile{version: 1}
	}
	done := s.ports.hold(name)
	defer func() { done(err == nil) }()
	port := how.Port
	if port == 0 && state.Port != 0 {
		if _, free := s.ports.claim(name, state.Port); free {
			port = state.Port
		}
	}
	if port, err = s.takePort(name, port, settings.Ports); err != nil {
		return Profile{}, err
	}
	switch {
	case how.asked != service.IntentNone:
		state.Desired = how.asked
	case state.Desired == service.IntentNone:
		state.Desired = settings.InitialState
	}
	state.Profile, state.Seen, state.PID, state.StartTime = name, service.SeenStopped, 0, 0
	state.Port, state.UpdatedAt = port, s.now()
	if err := s.home.WriteFile(dir+"/"+settings.StateFile, state.encode(), durable.Write{Mode: 0o640, Names: true}); err != nil {
		return Profile{}, err
	}
	if err := s.home.MkdirAll(profilesDir, dirMode); err != nil {
		return Profile{}, err
	}
	err = s.home.RenameNew(dir, dirOf(name))
	if errors.Is(err, unix.EEXIST) {
		err = s.exists(name)
	}
	if err != nil {
		return Profile{}, err
	}
	if err := s.created(profileBody{Profile: name, Desired: state.Desired, Restored: t.Entry, Actor: how.Actor}); err != nil {
		if e := s.home.RenameNew(dirOf(name), dir); e != nil {
			err = fmt.Errorf("%w; %w", err, durable.ErrInDoubt)
		}
		return Profile{}, err
	}
	return s.load(name)
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
	if err := CheckName(to, s.settings.Load().Services); err != nil {
		return err
	}
	if err := s.checkFresh(to); err != nil {
		return err
	}
	if _, err := s.load(from); err != nil {
		return err
	}
	_, err := s.home.Lstat(dirOf(to))
	switch {
	case err == nil:
		return refuse(ErrExists, "profile %q cannot be renamed: %s exists already; choose another name", from, s.home.Path(dirOf(to)))
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}

// Rename gives a profile another name, durably; port, intent and log stay its
// own. Its gateway must have been stopped. by is who asked; nil: rlminit itself.
func (s *Store) Rename(from, to string, by *Actor) (p Profile, err error) {
	if err := s.prime(); err != nil {
		return Profile{}, err
	}
	// Of two at once in opposite directions both want both locks.
	first, second := Gateway(from).key(), Gateway(to).key()
	if second < first {
		first, second = second, first
	}
	defer s.names.lock(first)()
	if first != second {
		defer s.names.lock(second)()
	}
	if err := s.CheckRename(from, to); err != nil {
		return Profile{}, err
	}
	before, err := s.load(from)
	if err != nil {
		return Profile{}, err
	}
	if err := s.home.RenameNew(dirOf(from), dirOf(to)); err != nil {
		return Profile{}, err
	}
	intent := before.Record.Desired
	s.forget(from)
	if before.Port != 0 {
		s.ports.claim(to, before.Port)
	}
	s.renamed(profileBody{Profile: from, To: to, Desired: intent, Actor: by})
	s.moveLog(from, to)
	if err := s.update(Gateway(to), durably, func(f *stateFile) { f.Desired = intent }); err != nil {
		// It has its name; what still says the old one is put right at the next
		// change.
		s.sayOnce(err.Error())
	}
	return s.load(to)
}

// renamed records a new name. The directory's counts: a journal that cannot be
// written to is put right at the next boot.
func (s *Store) renamed(p profileBody) {
	l := s.ledger.Load()
	if l == nil {
		s.learn(p.To, p.Desired)
	} else if err := l.append(context.Background(), true, journal.Entry{Type: TypeRenamed, Body: p}); err != nil {
		s.sayOnce(err.Error())
	}
}

// gatewayLogs is where the logs of profiles lie.
const gatewayLogs = "logs/gateways"

// moveLog has a profile's log follow its name.
func (s *Store) moveLog(from, to string) {
	old, next := gatewayLogs+"/"+from, gatewayLogs+"/"+to
	if _, err := s.ours.Lstat(old); errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err := s.placeLog(old, next); err != nil {
		s.sayOnce(fmt.Sprintf("%v; the log of %s from before its new name is still in %s", err, to, s.ours.Path(old)))
	}
}

// placeLog gives a log the name of its profile. One that an earlier profile of
// that name has left is kept aside.
func (s *Store) placeLog(from, to string) error {
	err := s.ours.RenameNew(from, to)
	if errors.Is(err, unix.EEXIST) {
		if _, err = moveNew(s.ours, to, s.dated(to+".before-")); err == nil {
			err = s.ours.RenameNew(from, to)
		}
	}
	return err
}

// finishRename has the log of a profile follow that a kill kept from it: the
// state file still has the old name, and nobody else has it.
func (s *Store) finishRename(name string) {
	settings := s.settings.Load()
	f, err := s.readRecord(s.home, Gateway(name).file(settings))
	if err != nil || f.Origin != service.Recorded || f.Profile == name || name == Default || !ValidName(f.Profile) {
		return
	}
	if _, err := s.home.Lstat(dirOf(f.Profile)); !errors.Is(err, fs.ErrNotExist) {
		return // a copy of another profile's directory, say
	}
	s.moveLog(f.Profile, name)
	defer s.names.lock(Gateway(name).key())()
	if err := s.update(Gateway(name), durably, func(*stateFile) {}); err != nil {
		s.sayOnce(err.Error())
	}
}
