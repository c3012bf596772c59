package profiles

import (
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
	return s.ReplaceFrom(name, nil, text)
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
	if err := s.list.prime(); err != nil {
		return Profile{}, err
	}
	defer s.tree.names.lock(Gateway(name).key())()
	p, err := s.list.load(name)
	if err != nil {
		return Profile{}, err
	}
	if base != nil && string(p.overrides) != *base {
		return Profile{}, refuse(ErrBroken, "the profile.yaml of %s was changed by somebody else meanwhile; take that up and try again", name)
	}
	if err := s.furnisher.replace(dirOf(name), text); err != nil {
		return Profile{}, err
	}
	return s.list.load(name)
}

// Discard moves a profile into the trash under a name that the caller has
// chosen, durably, so that Restore finds it again whatever happens in between.
// Its gateway must have been stopped. It fails with ErrNotFound if there is no
// such profile.
func (s *Store) Discard(name, trash string) error {
	if name == Default {
		return refuse(ErrName, "the profile %q is the home directory itself", name)
	}
	if err := s.list.prime(); err != nil {
		return err
	}
	defer s.tree.names.lock(Gateway(name).key())()
	if _, err := s.list.load(name); err != nil {
		return err
	}
	if err := s.Trash.make(); err != nil {
		return err
	}
	s.Records.keepsIntent(name)
	if err := s.Ownership.takeBack(dirOf(name)); err != nil {
		return err
	}
	if err := s.tree.home.RenameNew(dirOf(name), trashDir+"/"+trash); err != nil {
		return err
	}
	s.Records.forget(name)
	s.Secrets.forget(name)
	return nil
}

// Restore takes a profile back out of the trash, as it was, with these secrets: its
// own went when it was put there. It fails with fs.ErrNotExist where the trash does
// not have it, and with ErrExists where there is one of that name again.
func (s *Store) Restore(name, trash string, secrets map[string]string) (Profile, error) {
	if err := s.list.prime(); err != nil {
		return Profile{}, err
	}
	defer s.tree.names.lock(Gateway(name).key())()
	_, err := s.tree.home.Lstat(dirOf(name))
	switch {
	case err == nil:
		return Profile{}, s.exists(name)
	case !errors.Is(err, fs.ErrNotExist):
		return Profile{}, err // it may have secrets of its own
	}
	err = s.Secrets.begin(name, secrets)
	if err == nil {
		err = s.tree.home.RenameNew(trashDir+"/"+trash, dirOf(name))
	}
	if err != nil {
		if !errors.Is(err, durable.ErrInDoubt) {
			s.Secrets.forget(name)
		}
		return Profile{}, err
	}
	p, err := s.list.load(name)
	if err == nil && p.Record.Desired != service.IntentNone {
		s.Records.learn(name, p.Record.Desired)
	}
	return p, err
}
