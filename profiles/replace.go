package profiles

import (
	"bytes"
	"errors"
	"io/fs"

	"rlminit/config"
	"rlminit/internal/durable"
	"rlminit/service"
)

// Text is the profile's profile.yaml as it was found; nil: there is none.
func (p Profile) Text() []byte { return p.overrides }

// Replace writes a profile's profile.yaml whole, durably; nil removes it. What
// is so already is not written. A broken profile can be mended by it.
func (s *Store) Replace(name string, text []byte) (Profile, error) {
	if err := s.prime(); err != nil {
		return Profile{}, err
	}
	defer s.names.lock(Gateway(name).key())()
	if _, err := s.load(name); err != nil {
		return Profile{}, err
	}
	if err := s.replace(dirOf(name), text); err != nil {
		return Profile{}, err
	}
	return s.load(name)
}

// With is the profile as it would be with another profile.yaml.
func (p Profile) With(text []byte) Profile {
	p.overrides, p.Fault = text, nil
	return p
}

// Valid says what is wrong with a profile's definition, each fault on a line.
func (p Profile) Valid(c *config.Config) error {
	_, err := p.Definition(c)
	return err
}

// ReplaceFrom is Replace, unless somebody else has changed the text that the new
// one is made of: that is ErrBroken. A nil base is whatever is there.
func (s *Store) ReplaceFrom(name string, base *string, text []byte) (Profile, error) {
	if err := s.prime(); err != nil {
		return Profile{}, err
	}
	defer s.names.lock(Gateway(name).key())()
	p, err := s.load(name)
	if err != nil {
		return Profile{}, err
	}
	if base != nil && string(p.overrides) != *base {
		return Profile{}, refuse(ErrBroken, "the profile.yaml of %s was changed by somebody else meanwhile; take that up and try again", name)
	}
	if err := s.replace(dirOf(name), text); err != nil {
		return Profile{}, err
	}
	return s.load(name)
}

// replace is Replace for one who holds the name's lock.
func (s *Store) replace(dir string, text []byte) error {
	file := below(dir, overridesFile)
	if text == nil {
		gone := below(dir, durable.TempName())
		err := s.home.RenameNew(file, gone)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			_ = s.home.RemoveAll(gone) // or the next boot does
		}
		return err
	}
	is, err := s.home.ReadFile(file, maxOverrides)
	if info, e := s.home.Lstat(file); err == nil && e == nil && info.Perm == 0o600 && bytes.Equal(is, text) {
		return nil
	}
	return s.home.WriteFile(file, text, durable.Write{Mode: 0o600, Max: maxOverrides, Names: true})
}

// Discard moves a profile into the trash under a name that the caller has
// chosen, durably, so that Restore finds it again whatever happens in between.
// Its gateway must have been stopped. It fails with ErrNotFound if there is no
// such profile.
func (s *Store) Discard(name, trash string) error {
	if name == Default {
		return refuse(ErrName, "the profile %q is the home directory itself", name)
	}
	if err := s.prime(); err != nil {
		return err
	}
	defer s.names.lock(Gateway(name).key())()
	if _, err := s.load(name); err != nil {
		return err
	}
	if err := s.makeTrash(); err != nil {
		return err
	}
	if err := s.takeBackDir(dirOf(name)); err != nil {
		return err
	}
	if err := s.home.RenameNew(dirOf(name), trashDir+"/"+trash); err != nil {
		return err
	}
	s.forget(name)
	s.withoutSecrets(name)
	return nil
}

// Restore takes a profile back out of the trash, as it was. It fails with
// fs.ErrNotExist where the trash does not have it, and with ErrExists where
// there is one of that name again.
func (s *Store) Restore(name, trash string) (Profile, error) {
	if err := s.prime(); err != nil {
		return Profile{}, err
	}
	defer s.names.lock(Gateway(name).key())()
	if _, err := s.home.Lstat(dirOf(name)); err == nil {
		return Profile{}, s.exists(name)
	}
	if err := s.home.RenameNew(trashDir+"/"+trash, dirOf(name)); err != nil {
		return Profile{}, err
	}
	p, err := s.load(name)
	if err == nil && p.Record.Desired != service.IntentNone {
		s.learn(name, p.Record.Desired)
	}
	return p, err
}
