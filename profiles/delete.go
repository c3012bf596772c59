package profiles

import (
	"context"
	"errors"
	"path"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/journal"
)

// Delete takes a profile away, durably: into the trash, whose path it returns,
// or for good with purge. Its gateway must have been stopped. A broken profile
// can be deleted too. It fails with ErrNotFound if there is none. by is who asked;
// nil: rlminit itself.
func (s *Store) Delete(name string, purge bool, by *Actor) (trash string, err error) {
	if name == Default {
		return "", refuse(ErrName, "the profile %q is the home directory itself; take gateway.default out of the configuration", name)
	}
	if err := s.prime(); err != nil {
		return "", err
	}
	defer s.names.lock(Gateway(name).key())()
	if _, err := s.load(name); err != nil {
		return "", err
	}
	dir := dirOf(name)
	if purge {
		err = s.purge(dir)
	} else {
		trash, err = s.discard(dir, name)
	}
	if err != nil {
		return "", err
	}
	s.forget(name)
	s.deleted(profileBody{Profile: name, Trash: trashEntryOf(trash), Actor: by})
	return trash, s.dropSecrets(name)
}

// trashEntryOf is the entry of a path in the trash; "" of none.
func trashEntryOf(trash string) string {
	if trash == "" {
		return ""
	}
	return path.Base(trash)
}

// deleted records that a profile is gone. The directory's end is what counts: a
// journal that cannot be written to is put right at the next boot.
func (s *Store) deleted(p profileBody) {
	if l := s.ledger.Load(); l != nil {
		if err := l.append(context.Background(), true, journal.Entry{Type: TypeDeleted, Body: p}); err != nil {
			s.sayOnce(err.Error())
		}
	}
}

// discard moves the profile into the trash.
func (s *Store) discard(dir, name string) (string, error) {
	if err := s.home.MkdirAll(trashDir, dirMode); err != nil {
		return "", err
	}
	to, err := s.moveNew(dir, s.dated(trashDir+"/"+name+"-"))
	return s.home.Path(to), err
}

// purge moves the profile out of sight first, so that it is gone at once and
// whole; what a crash leaves, PrepareBoot removes.
func (s *Store) purge(dir string) error {
	temp := profilesDir + "/" + durable.TempName()
	err := s.home.RenameNew(dir, temp)
	switch {
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.EBUSY):
		// A directory of an overlay's lower layer cannot be moved, a mount
		// point neither. Without its marker it is no profile any more.
		temp = dir
		if err := s.home.RemoveAll(dir + "/" + s.settings.Load().Marker); err != nil {
			return err
		}
		if err := s.home.SyncDir(dir); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	if err := s.home.RemoveAll(temp); err != nil {
		return err
	}
	return s.home.SyncDir(profilesDir)
}
