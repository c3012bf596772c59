package profiles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/internal/document"
	"rlminit/internal/durable"
	"rlminit/journal"
	"rlminit/profiles/archive"
	"rlminit/service"
)

// Creation says how a profile is created.
type Creation struct {
	Environment map[string]string
	Port        int               // 0: the next free one of the range
	Intent      service.Intent    // IntentNone: gateway.initial_state
	ExistOK     bool              // take what is there as it is, and make a profile of it
	Secrets     map[string]string // kept apart from its directory: CREDENTIALS_DIRECTORY
	Text        []byte            // its profile.yaml, whole; nil: the template's, with Environment
	Clone       string            // the profile whose files it begins with, in place of the template's
	Restore     string            // what it is in the trash: an entry, or the newest of a profile; "" for none
	Import      *archive.Archive  // what its directory and its log begin with; nil for none
	Actor       *Actor            // who asked; nil: rlminit itself

	asked service.Intent // Intent as the caller gave it
}

// newOverrides is the profile.yaml of a profile that overrides nothing yet.
const newOverrides = `# What this profile overrides of the gateway template: environment, command,
# restart, ready, health, stop, log; limits may be lowered. A change is taken up
# by rlminit reload.
`

// Create makes a profile with its intent recorded, durably: it appears whole or
// not at all. made is false where it was there and Creation.ExistOK took it;
// its intent stays as recorded then, its environment gets the new values.
// Otherwise a taken name is ErrExists; of several creations of one name at
// once, one succeeds.
func (s *Store) Create(name string, how Creation) (p Profile, made bool, err error) {
	settings := s.settings.Load()
	if err := CheckName(name, settings.Services); err != nil {
		return Profile{}, false, err
	}
	if err := checkEnvironment(how.Environment); err != nil {
		return Profile{}, false, err
	}
	if err := checkSecrets(how.Secrets); err != nil {
		return Profile{}, false, err
	}
	if how.Port < 0 || how.Port > 65535 {
		return Profile{}, false, refuse(ErrValue, "port %d is not in 1-65535", how.Port)
	}
	if how.asked = how.Intent; how.Intent == service.IntentNone {
		how.Intent = settings.InitialState
		if i := how.Import; i != nil && (i.Desired == string(service.Running) || i.Desired == string(service.Stopped)) {
			how.Intent = service.Intent(i.Desired)
		}
	}
	if err := s.prime(); err != nil {
		return Profile{}, false, err
	}
	defer s.names.lock(Gateway(name).key())()
	if err := s.checkFresh(name); err != nil {
		return Profile{}, false, err
	}
	_, err = s.home.Lstat(dirOf(name))
	switch {
	case err == nil && how.ExistOK:
		takeBack, err := s.addSecrets(name, how.Secrets)
		if err != nil {
			return Profile{}, false, err
		}
		if p, err = s.adopt(name, how, settings); err != nil {
			err = takeBack(err)
		}
		return p, false, err
	case err == nil && how.Import != nil:
		return Profile{}, false, refuse(ErrExists, "%s exists already; --as NEW gives what is imported another name", s.home.Path(dirOf(name)))
	case err == nil:
		return Profile{}, false, s.exists(name)
	case !errors.Is(err, fs.ErrNotExist):
		return Profile{}, false, err
	}
	p, err = s.create(name, how, settings)
	return p, err == nil, err
}

// checkFresh refuses a name that reads like a gateway's, which would be that of
// another profile's service. A profile that has it already keeps it.
func (s *Store) checkFresh(name string) error {
	if !strings.HasPrefix(name, service.GatewayPrefix) {
		return nil
	}
	if _, err := s.load(name); !errors.Is(err, ErrNotFound) {
		return err
	}
	return refuse(ErrName, "%s is refused: names that begin with %s are those of services; leave that out",
		document.Quote(name), service.GatewayPrefix)
}

func (s *Store) exists(name string) error {
	if _, err := s.load(name); errors.Is(err, ErrNotFound) {
		return refuse(ErrExists, "%s exists, but is no profile (it lacks %s); rlminit profile create --exist-ok %s makes it one",
			s.home.Path(dirOf(name)), s.settings.Load().Marker, name)
	}
	return refuse(ErrExists, "profile %q exists already; --exist-ok takes it as it is", name)
}

// create builds the profile aside and renames it into place.
func (s *Store) create(name string, how Creation, settings *Settings) (p Profile, err error) {
	if how.Restore != "" {
		return s.restore(name, how, settings)
	}
	done := s.ports.hold(name)
	defer func() { done(err == nil) }()
	port, err := s.takePort(name, s.portOf(name, how, settings.Ports), settings.Ports)
	if err != nil {
		return Profile{}, err
	}
	temp := profilesDir + "/" + durable.TempName()
	err = s.home.Mkdir(temp, dirMode)
	if errors.Is(err, fs.ErrNotExist) { // somebody has taken the directory above away
		if err = s.home.MkdirAll(profilesDir, dirMode); err == nil {
			err = s.home.Mkdir(temp, dirMode)
		}
	}
	if err != nil {
		return Profile{}, err
	}
	state := stateFile{version: 1}
	state.Profile, state.Desired, state.Seen = name, how.Intent, service.SeenStopped
	state.Port, state.UpdatedAt = port, s.now()
	log, text := "", how.Text
	switch {
	case how.Import != nil:
		log, err = s.unpack(how.Import, temp, settings)
	case how.Clone != "":
		err = s.clone(how.Clone, temp, how.Environment, settings)
	case settings.Template == "":
		text = nil
		err = begin(s.home, temp, how, settings)
	default:
		err = s.furnish(temp, how.Environment, settings)
	}
	if err == nil && text != nil {
		err = s.replace(temp, text)
	}
	if err == nil {
		err = s.home.WriteFile(temp+"/"+settings.StateFile, state.encode(), durable.Write{Mode: 0o640})
	}
	if err == nil {
		err = s.home.SyncDir(temp)
	}
	if err == nil {
		// Before there is a gateway that could start without them.
		_, err = s.SaveSecrets(name, how.Secrets)
	}
	if err == nil && log != "" {
		placed := gatewayLogs + "/" + name
		switch err = s.placeLog(log, placed); {
		case err == nil:
			log = placed
		case errors.Is(err, durable.ErrInDoubt): // of the log's name; of the profile there is no doubt
			s.undo(placed)
			err = errors.New(err.Error())
		}
	}
	if err == nil {
		err = s.home.RenameNew(temp, dirOf(name))
	}
	undo := func() {
		s.undo(temp, log)
		if e := s.dropSecrets(name); e != nil {
			s.sayOnce(e.Error())
		}
	}
	switch {
	case errors.Is(err, durable.ErrInDoubt): // it may be there
		return Profile{}, err
	case err != nil:
		undo()
		if errors.Is(err, unix.EEXIST) { // somebody else's mkdir
			err = s.exists(name)
		}
		return Profile{}, err
	}
	if err = s.created(profileBody{Profile: name, Desired: how.Intent, Clone: how.Clone, Actor: how.Actor}); err != nil {
		if e := s.home.RenameNew(dirOf(name), temp); e != nil {
			return Profile{}, fmt.Errorf("%w; %w", err, durable.ErrInDoubt)
		}
		undo()
		return Profile{}, err
	}
	return s.load(name)
}

// undo removes what was made of something that did not come about; "" is nothing.
func (s *Store) undo(made ...string) {
	for _, rel := range made {
		if rel == "" {
			continue
		}
		if err := s.takeBackDir(rel); err != nil {
			s.sayOnce(err.Error())
		}
		if err := s.dirFor(rel).RemoveAll(rel); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.sayOnce(err.Error())
		}
	}
}

// created records a new profile.
func (s *Store) created(p profileBody) error {
	l := s.ledger.Load()
	if l == nil {
		s.learn(p.Profile, p.Desired)
		return nil
	}
	return l.append(context.Background(), false, journal.Entry{Type: TypeCreated, Body: p})
}

// takePort gives name the port asked for, or one of the range.
func (s *Store) takePort(name string, port int, r PortRange) (int, error) {
	if port == 0 {
		port = s.ports.allot(name, r)
		if port == 0 && r.size() > 0 {
			s.sayOnce(fullRange(name, r))
		}
		return port, nil
	}
	if owner, ok := s.ports.claim(name, port); !ok {
		if owner == name {
			return 0, refuse(ErrExists, "profile %q has port %d; a port stays with its profile", name, s.ports.of(name))
		}
		return 0, refuse(ErrPortTaken, "port %d belongs to profile %q; choose another, or leave out --port", port, owner)
	}
	return port, nil
}

// furnish puts the template, the marker and the environment into a directory,
// each only where it is missing.
func (s *Store) furnish(dir string, env map[string]string, settings *Settings) error {
	if settings.Template != "" {
		if err := s.copyTemplate(settings.Template, dir); err != nil {
			return err
		}
	}
	marker := dir + "/" + settings.Marker
	marked, err := isRegular(s.home, marker)
	if err != nil {
		return err
	}
	if !marked && settings.Marker != overridesFile {
		if err := s.home.WriteFile(marker, nil, durable.Write{Mode: 0o640}); err != nil {
			return err
		}
	}
	overrides, err := s.home.ReadFile(dir+"/"+overridesFile, maxOverrides)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if len(env) == 0 && settings.Marker != overridesFile {
			return nil
		}
		overrides = []byte(newOverrides)
	case err != nil:
		return err
	}
	return s.writeOverrides(dir, overrides, additions(env))
}

// begin is furnish and replace for a directory that is empty, and whose names are made
// durable together: nothing need be looked for.
func begin(home *durable.Dir, dir string, how Creation, settings *Settings) (err error) {
	text := how.Text
	if text == nil && (len(how.Environment) > 0 || settings.Marker == overridesFile) {
		text, err = editEnvironment(home.Path(dir+"/"+overridesFile), []byte(newOverrides), additions(how.Environment))
		if err != nil {
			return refuse(ErrBroken, "%v", err)
		}
	}
	if settings.Marker != overridesFile {
		err = home.WriteFile(dir+"/"+settings.Marker, nil, durable.Write{Mode: 0o640})
	}
	if err == nil && text != nil {
		err = home.WriteFile(dir+"/"+overridesFile, text, durable.Write{Mode: 0o600, Max: maxOverrides})
	}
	return err
}

// copyTemplate copies the template. It is root's, and read each time, so that
// it may change while rlminit runs.
func (s *Store) copyTemplate(template, dir string) error {
	from, err := s.home.OpenLike(template)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot copy the template %s: there is no such directory; make it, or take gateway.template out of the configuration", template)
	}
	if err != nil {
		return err
	}
	defer from.Close()
	return s.home.CopyTree(from, dir, dirMode)
}

// adopt makes a profile of a directory that is there, and leaves what it holds.
func (s *Store) adopt(name string, how Creation, settings *Settings) (Profile, error) {
	dir := dirOf(name)
	p, err := s.load(name)
	switch {
	case errors.Is(err, ErrNotFound):
		if how.Port != 0 {
			if _, err := s.takePort(name, how.Port, settings.Ports); err != nil {
				return Profile{}, err
			}
		}
		if err := s.mark(dir, how.Environment, settings); err != nil {
			return Profile{}, err
		}
		if p, err = s.load(name); err != nil {
			return Profile{}, err
		}
	case err != nil:
		return Profile{}, err
	case p.Fault != nil:
		return Profile{}, refuse(ErrBroken, "%v", p.Fault)
	case how.Port != 0 && how.Port != p.Port:
		return Profile{}, refuse(ErrExists, "profile %q has port %d; a port stays with its profile", name, p.Port)
	case len(how.Environment) > 0:
		if err := s.writeOverrides(dir, p.overrides, additions(how.Environment)); err != nil {
			return Profile{}, err
		}
	}
	intent := how.Intent
	if p.Record.Desired != service.IntentNone {
		intent = service.IntentNone
	}
	if s.ledger.Load() != nil && intent != service.IntentNone {
		if err := s.created(profileBody{Profile: name, Desired: intent, Actor: how.Actor}); err != nil {
			return Profile{}, err
		}
	}
	err = s.update(Gateway(name), durably, func(f *stateFile) {
		if intent != service.IntentNone {
			f.Desired = intent
		}
		if f.Seen == service.SeenNone {
			f.Seen = service.SeenStopped
		}
	})
	switch {
	case err == nil:
	case s.ledger.Load() != nil: // the file is a copy, and follows
		s.sayOnce(err.Error() + "; the journal has it, and counts")
	default:
		return Profile{}, err
	}
	return s.load(name)
}

// mark puts the marker into a directory that lacks it; what else a new profile
// gets is not forced upon one that somebody has made.
func (s *Store) mark(dir string, env map[string]string, settings *Settings) error {
	bare := *settings
	bare.Template = ""
	if err := s.furnish(dir, env, &bare); err != nil {
		return err
	}
	return s.home.SyncDir(dir)
}

// learn remembers an intent that has just been saved.
func (s *Store) learn(name string, intent service.Intent) {
	s.mu.Lock()
	s.intents[Gateway(name)] = intent
	s.mu.Unlock()
}

// writeOverrides changes the environment in the text of a profile.yaml and
// writes it into dir, unless it is there as it should be.
func (s *Store) writeOverrides(dir string, text []byte, changes map[string]*string) error {
	file := below(dir, overridesFile)
	changed, err := editEnvironment(s.home.Path(file), text, changes)
	if err != nil {
		return refuse(ErrBroken, "%v", err)
	}
	if info, err := s.home.Lstat(file); err == nil && info.Type == 0 && info.Perm == 0o600 && bytes.Equal(text, changed) {
		return nil
	}
	return s.home.WriteFile(file, changed, durable.Write{Mode: 0o600, Max: maxOverrides, Names: true})
}
