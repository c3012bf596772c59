package profiles

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/internal/durable"
	"rlminit/profiles/archive"
	"rlminit/profiles/overrides"
	"rlminit/profiles/secrets"
	"rlminit/profiles/statefile"
	"rlminit/service"
)

// Creation says how a profile is created.
type Creation struct {
	Kind        string   // "": the default
	Command     []string // nil: its kind's
	Environment map[string]string
	Port        int               // 0: the next free one of the range
	PortAny     bool              // it need not be in the range
	Intent      service.Intent    // IntentNone: initial_state of its kind
	ExistOK     bool              // take the present directory as it is, and make a profile of it
	Secrets     map[string]string // kept apart from its directory: CREDENTIALS_DIRECTORY
	Text        []byte            // its profile.yaml, whole; nil: the template's, with Environment
	Clone       string            // the profile whose files it begins with, in place of the template's
	Restore     string            // its entry in the trash, or a profile whose newest is meant; "" for none
	Import      *archive.Archive  // what its directory and its log begin with; nil for none
	Actor       *Actor            // the requester; nil: rlminit itself
}

// Create makes a profile with its intent recorded, durably: it appears whole or
// not at all. made is false where it was there and Creation.ExistOK took it;
// its intent stays as recorded then, its environment gets the new values.
// Otherwise a taken name is ErrExists; of several creations of one name at
// once, one succeeds.
func (s *Store) Create(name string, how Creation) (p Profile, made bool, err error) {
	settings := s.tree.settings.Load()
	if err := cmp.Or(CheckName(name, settings.Services), checkEnvironment(how.Environment), refused(secrets.Check(how.Secrets)), how.check(s.list.kindOf(how), settings)); err != nil {
		return Profile{}, false, err
	}
	if err := s.list.prime(); err != nil {
		return Profile{}, false, err
	}
	defer s.tree.names.lock(name)()
	if err := s.checkFresh(name); err != nil {
		return Profile{}, false, err
	}
	if how.plain(s.list.kindOf(how), settings) && !how.ExistOK {
		p, err = s.create(name, how, settings)
		return p, err == nil, err
	}
	_, err = s.tree.home.Lstat(dirOf(name))
	switch {
	case err == nil && how.ExistOK:
		_, none := s.list.load(name)
		takeBack, err := s.Secrets.Add(name, !errors.Is(none, ErrNotFound), how.Secrets, how.uid())
		if err != nil {
			return Profile{}, false, refused(err)
		}
		if p, err = s.adopt(name, how, settings); err != nil {
			err = takeBack(err)
		}
		return p, false, err
	case err == nil && how.Import != nil:
		return Profile{}, false, refuse(ErrExists, "%s exists already; --as NEW gives what is imported another name", s.tree.home.Path(dirOf(name)))
	case err == nil && how.Clone != "":
		if _, err := s.list.load(how.Clone); err != nil {
			return Profile{}, false, err
		}
		return Profile{}, false, refuse(ErrExists, "profile %q cannot be cloned: %s exists already; choose another name", how.Clone, s.tree.home.Path(dirOf(name)))
	case err == nil && how.Restore != "":
		if _, err := s.Trash.find(how.Restore); err != nil {
			return Profile{}, false, err
		}
		return Profile{}, false, refuse(ErrExists, "%s exists already; --as NEW gives what is restored another name", s.tree.home.Path(dirOf(name)))
	case err == nil:
		return Profile{}, false, s.list.exists(name)
	case !errors.Is(err, fs.ErrNotExist):
		return Profile{}, false, err
	}
	p, err = s.create(name, how, settings)
	return p, err == nil, err
}

// uid is the caller's; nil: rlminit itself.
func (how *Creation) uid() *uint32 {
	if how.Actor == nil {
		return nil
	}
	return &how.Actor.UID
}

// kindOf is the kind of a profile that is to be made, as far as the request and a profile
// that it is a clone of tell. begins reads it in the directory once that is there.
func (c *catalogue) kindOf(how Creation) string {
	switch {
	case how.Kind != "":
		return how.Kind
	case how.Text != nil:
		return config.KindIn(how.Text)
	case how.Clone == "" || how.Clone == Default:
		return ""
	}
	p, release, err := c.hold(how.Clone)
	release()
	if err != nil {
		return "" // which the clone then fails with
	}
	return p.Kind()
}

// changes are a creation's values for the profile's own file.
func (how *Creation) changes() overrides.Changes {
	return overrides.Changes{Kind: how.Kind, Command: how.Command, Environment: additions(how.Environment)}
}

// checkFresh refuses a name that reads like a gateway's, which would be that of
// another profile's service. A profile that has it already keeps it.
func (s *Store) checkFresh(name string) error {
	refused := misnamed(service.CheckProfilePrefix(name))
	if refused == nil {
		return nil
	}
	if _, err := s.list.load(name); !errors.Is(err, ErrNotFound) {
		return err
	}
	return refused
}

func (c *catalogue) exists(name string) error {
	if _, err := c.load(name); errors.Is(err, ErrNotFound) {
		return refuse(ErrExists, "%s exists, but is no profile (it lacks %s); rlminit profile create --exist-ok %s makes it one",
			c.tree.home.Path(dirOf(name)), c.tree.settings.Load().Marker, name)
	}
	return refuse(ErrExists, "profile %q exists already; --exist-ok takes it as it is", name)
}

// create builds the profile aside and renames it into place.
func (s *Store) create(name string, how Creation, settings *Settings) (p Profile, err error) {
	if err := s.Records.beginAnew(name); err != nil {
		return Profile{}, err
	}
	if how.Restore != "" {
		return s.restore(name, how, settings)
	}
	done := s.ports.Hold(name)
	defer func() { done(err == nil) }()
	temp, kind := profilesDir+"/"+durable.TempName(), s.list.kindOf(how)
	if how.plain(kind, settings) {
		return s.createPlain(name, temp, how, settings)
	}
	log, err := s.furnishAside(name, temp, kind, &how, settings)
	if err == nil {
		err = s.tree.home.RenameNew(temp, dirOf(name))
	}
	if err = s.created(name, temp, how, err, func() { s.undo(name, true, temp, log) }); err != nil {
		return Profile{}, err
	}
	return s.list.load(name)
}

// begins decides the beginning of a new profile with the given profile.yaml: the port of
// its kind's range, and the desired state that the request, the archive or its kind says.
// Every way to make a profile comes through here; a restore, which has a state already,
// asks for the same Beginning.
func (s *Store) begins(name string, text []byte, how *Creation, settings *Settings) (state statefile.File, err error) {
	b := settings.beginning(config.KindIn(text))
	if i := how.Import; how.Intent == service.IntentNone && i != nil && (i.Desired == string(service.Running) || i.Desired == string(service.Stopped)) {
		how.Intent = service.Intent(i.Desired)
	}
	how.Intent = cmp.Or(how.Intent, b.InitialState)
	state.Version, state.Profile, state.Desired, state.Seen = 1, name, how.Intent, service.SeenStopped
	state.UpdatedAt = s.tree.now()
	state.Port, err = takePort(s.ports, name, wantedPort(s.ports, name, how, b.Range, settings), b, settings, s.tree.told)
	return state, err
}

// plain tells whether a profile of a kind begins with the request's values alone.
func (how *Creation) plain(kind string, settings *Settings) bool {
	return how.Import == nil && how.Clone == "" && how.Restore == "" && settings.beginning(kind).Template == ""
}

// createPlain makes such a profile, in one request if no secrets are to be in their
// place before it is.
func (s *Store) createPlain(name, temp string, how Creation, settings *Settings) (p Profile, err error) {
	before, err := s.Secrets.Version(name)
	if err != nil {
		return Profile{}, err
	}
	secret := before > 0 || len(how.Secrets) > 0
	var steps durable.Steps
	steps.Absent(dirOf(name))
	steps.Mkdir(temp, dirMode)
	text, err := begin(&steps, s.tree.home, temp, how, settings)
	if err != nil {
		return Profile{}, err
	}
	state, err := s.begins(name, text, &how, settings)
	if err != nil {
		return Profile{}, err
	}
	said := state.Encode()
	steps.WriteFile(temp+"/"+settings.StateFile, said, durable.Write{Mode: 0o640})
	steps.SyncDir(temp)
	if !secret {
		steps.RenameNew(temp, dirOf(name))
	}
	done, err := steps.Take(s.tree.home)
	if done == 1 && errors.Is(err, fs.ErrNotExist) { // somebody has taken the directory above away
		if err = s.tree.home.MkdirAll(profilesDir, dirMode); err == nil {
			_, err = steps.Take(s.tree.home)
		}
	}
	saves := err == nil && secret
	if saves {
		if err = s.Secrets.Begin(name, how.Secrets, how.uid()); err == nil {
			err = s.tree.home.RenameNew(temp, dirOf(name))
		}
	}
	if err = s.created(name, temp, how, err, func() { s.undo(name, saves, temp) }); err != nil {
		return Profile{}, err
	}
	// It is what was just written.
	f, _ := statefile.Understood(said, nil)
	list := []Profile{{Name: name, Dir: s.tree.home.Path(dirOf(name)), Record: s.Records.known(name, f), overrides: text}}
	s.list.settlePorts(list, settings)
	s.list.settleSecrets(list)
	return list[0], nil
}

// undo removes the files of a creation that fails, with its secrets where it may have
// saved some.
func (s *Store) undo(name string, secrets bool, made ...string) {
	s.furnisher.undo(made...)
	if secrets {
		s.Secrets.Forget(name)
	}
}

// furnishAside makes a profile's directory as temp, and puts its secrets and its log,
// which it returns, in their places.
func (s *Store) furnishAside(name, temp, kind string, how *Creation, settings *Settings) (log string, err error) {
	err = s.tree.home.Mkdir(temp, dirMode)
	if errors.Is(err, fs.ErrNotExist) { // somebody has taken the directory above away
		if err = s.tree.home.MkdirAll(profilesDir, dirMode); err == nil {
			err = s.tree.home.Mkdir(temp, dirMode)
		}
	}
	if err == nil && (how.Import != nil || how.Clone != "") {
		err = s.Ownership.aside(name, temp)
	}
	switch {
	case err != nil:
	case how.Import != nil:
		log, err = s.furnisher.unpack(how.Import, temp, settings)
	case how.Clone != "":
		err = s.furnisher.clone(how.Clone, temp, how.changes(), settings)
	default:
		err = s.furnisher.furnish(temp, settings.beginning(kind).Template, how.changes(), settings)
	}
	if err == nil && how.Text != nil {
		err = s.furnisher.replace(temp, how.Text)
	}
	if err == nil {
		err = s.stateAside(name, temp, how, settings)
	}
	if err == nil {
		err = s.tree.home.SyncDir(temp)
	}
	if err == nil {
		// Before there is a gateway that could start without them.
		err = s.Secrets.Begin(name, how.Secrets, how.uid())
	}
	if err == nil && log != "" {
		placed := gatewayLogs + "/" + name
		switch err = s.tree.placeLog(log, placed); {
		case err == nil:
			log = placed
		case errors.Is(err, durable.ErrInDoubt): // of the log's name; of the profile there is no doubt
			s.furnisher.undo(placed)
			err = errors.New(err.Error())
		}
	}
	return log, err
}

// stateAside writes the state file of a profile whose directory is furnished as temp.
func (s *Store) stateAside(name, temp string, how *Creation, settings *Settings) error {
	text, err := s.tree.home.ReadFile(temp+"/"+overridesFile, maxOverrides)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	state, err := s.begins(name, text, how, settings)
	if err != nil {
		return err
	}
	return s.tree.home.WriteFile(temp+"/"+settings.StateFile, state.Encode(), durable.Write{Mode: 0o640})
}

// created records a profile that is in its place, unless err says why it is not. What
// has failed is undone.
func (s *Store) created(name, temp string, how Creation, err error, undo func()) error {
	switch {
	case errors.Is(err, durable.ErrInDoubt): // it may be there
		return err
	case err != nil:
		undo()
		if errors.Is(err, unix.EEXIST) { // somebody else's mkdir
			err = s.list.exists(name)
		}
		return err
	}
	if err = s.Records.created(profileBody{Profile: name, Desired: how.Intent, Clone: how.Clone, Actor: how.Actor}); err != nil {
		if e := s.tree.home.RenameNew(dirOf(name), temp); e != nil {
			return fmt.Errorf("%w; %w", err, durable.ErrInDoubt)
		}
		undo()
		return err
	}
	return nil
}

// adopt makes a profile of a directory that is there, and leaves its content.
func (s *Store) adopt(name string, how Creation, settings *Settings) (Profile, error) {
	dir := dirOf(name)
	p, err := s.list.load(name)
	switch {
	case errors.Is(err, ErrNotFound):
		if how.Port != 0 {
			if _, err := takePort(s.ports, name, how.Port, settings.beginning(how.Kind), settings, s.tree.told); err != nil {
				return Profile{}, err
			}
		}
		if err := s.furnisher.mark(dir, how.changes(), settings); err != nil {
			return Profile{}, err
		}
		if p, err = s.list.load(name); err != nil {
			return Profile{}, err
		}
	case err != nil:
		return Profile{}, err
	case p.Unread():
		return Profile{}, p.Fault
	case p.Fault != nil:
		return Profile{}, refuse(ErrBroken, "%v", p.Fault)
	case how.Port != 0 && how.Port != p.Port:
		return Profile{}, refuse(ErrExists, "profile %q has port %d; a port stays with its profile", name, p.Port)
	case !how.changes().None():
		if err := s.furnisher.writeOverrides(dir, p.overrides, how.changes()); err != nil {
			return Profile{}, err
		}
	}
	intent := cmp.Or(how.Intent, settings.beginning(p.Kind()).InitialState)
	if p.Record.Desired != service.IntentNone {
		intent = service.IntentNone
	}
	if intent != service.IntentNone {
		if err := s.Records.created(profileBody{Profile: name, Desired: intent, Actor: how.Actor}); err != nil {
			return Profile{}, err
		}
	}
	s.tree.copied(s.Records.restate(name, copyMode))
	return s.list.load(name)
}
