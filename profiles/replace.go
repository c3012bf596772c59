package profiles

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/internal/durable"
	"rlminit/internal/kernel"
	"rlminit/profiles/secrets"
)

// Text is the profile's profile.yaml as it was found; nil: there is none.
func (p Profile) Text() []byte { return p.overrides }

// Replace writes a profile's profile.yaml whole, durably; nil removes it. What
// is so already is not written. A broken profile can be mended by it.
func (s *Store) Replace(name string, text []byte) (Profile, error) {
	return s.ReplaceFrom(name, Base{}, text)
}

// With is the profile as it would be with another profile.yaml.
func (p Profile) With(text []byte) Profile {
	p.overrides, p.Fault = text, nil
	return p
}

// Valid names the faults of a profile's definition, one on a line.
func (p Profile) Valid(c *config.Config) error {
	_, err := p.Definition(c)
	return err
}

// Base is the origin of a new profile.yaml. A nil field is any.
type Base struct {
	ID   *string // the profile whose text it was, as ToEdit has it
	Text *string

	Check func(Profile) error // says why the profile that is there keeps its text; nil: nothing
}

// ToEdit is a profile, and what tells it from another one that has its name later:
// which directory it is. Two that were just made have the same text.
func (s *Store) ToEdit(name string) (p Profile, id string, err error) {
	p, release, err := s.list.hold(name)
	defer release()
	if err == nil {
		id, err = s.tree.identity(dirOf(name))
	}
	return p, id, err
}

// identity tells a directory from every other, under whatever name it is: by its
// inode, and its birth where the file system knows it, for a number is given away
// again when its directory is gone. Not by the device, whose number the next boot may
// change.
func (v *tree) identity(dir string) (string, error) {
	fd, err := v.home.Handle(dir)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var st unix.Statx_t
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st)
	if kernel.Refused(err) { // then nothing tells its birth
		var known unix.Stat_t
		err = unix.Fstat(fd, &known)
		st.Ino = known.Ino
	}
	if err != nil {
		return "", fmt.Errorf("cannot look at %s: %w", v.home.Path(dir), err)
	}
	if st.Mask&unix.STATX_BTIME == 0 {
		return strconv.FormatUint(st.Ino, 10), nil
	}
	return fmt.Sprintf("%d-%d.%09d", st.Ino, st.Btime.Sec, st.Btime.Nsec), nil
}

// ReplaceFrom is Replace, unless the profile is another one than the text is of, or
// somebody else has changed its origin: that is ErrBroken.
func (s *Store) ReplaceFrom(name string, base Base, text []byte) (Profile, error) {
	return s.list.change(name, func(p Profile) error {
		if base.ID != nil {
			switch id, err := s.tree.identity(dirOf(name)); {
			case err != nil:
				return err
			case id != *base.ID:
				return refuse(ErrBroken, "%s is another profile by now: the one that your text is of was renamed or deleted meanwhile", name)
			}
		}
		if base.Check != nil {
			if err := base.Check(p); err != nil {
				return err
			}
		}
		if base.Text != nil && string(p.overrides) != *base.Text {
			return refuse(ErrBroken, "the profile.yaml of %s was changed by somebody else meanwhile; take that up and try again", name)
		}
		return s.furnisher.replace(dirOf(name), text)
	})
}

// Discard moves a profile into the trash under a name that the caller has
// chosen, durably, so that Restore finds it again whatever happens in between.
// Its gateway must have been stopped. It fails with ErrNotFound if there is no
// such profile.
func (s *Store) Discard(name, trash string) error {
	_, err := s.remove(name, func(dir string) (string, error) {
		s.Records.keepsIntent(name)
		return trash, s.Trash.put(dir, name, trash, s.Secrets)
	})
	return err
}

// Restore takes a profile back out of the trash, as it was, with these secrets, in the
// place of its own. by is the caller's uid. It fails with fs.ErrNotExist where the trash does
// not have it, with ErrExists where there is one of that name again, and with ErrName
// where a service has it.
func (s *Store) Restore(name, trash string, set map[string]string, by *uint32) (Profile, error) {
	if err := s.list.prime(); err != nil {
		return Profile{}, err
	}
	defer s.tree.names.lock(name)()
	if err := CheckTaken(name, s.tree.settings.Load().Services); err != nil {
		return Profile{}, err // it could not be run
	}
	_, err := s.tree.home.Lstat(dirOf(name))
	switch {
	case err == nil:
		return Profile{}, s.list.exists(name)
	case !errors.Is(err, fs.ErrNotExist):
		return Profile{}, err // it may have secrets of its own
	}
	if err = s.Ownership.complete(trashDir + "/" + trash); err == nil {
		err = s.Secrets.Revive(name, trash, nil, by)
	}
	if err == nil {
		err = s.Secrets.Begin(name, set, by)
	}
	if err == nil {
		err = s.Ownership.move(trashDir+"/"+trash, dirOf(name))
	}
	if err != nil {
		if !errors.Is(err, durable.ErrInDoubt) {
			s.Secrets.Forget(name)
		}
		return Profile{}, err
	}
	s.Secrets.Forget(secrets.Trashed(trash))
	return s.list.load(name)
}
