package profiles

import (
	"context"
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/journal"
)

// Delete takes a profile away, durably: into the trash, whose path it returns,
// or for good with purge, where it returns the path of what could not be removed,
// "" as a rule: the next boot tries that again. Its gateway must have been stopped. A broken profile
// can be deleted too. It fails with ErrNotFound if there is none. by is who asked;
// nil: rlminit itself.
func (s *Store) Delete(name string, purge bool, by *Actor) (trash string, err error) {
	if err := s.CheckDelete(name); err != nil {
		return "", err
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
		trash, err = s.purge(dir)
	} else {
		trash, err = s.discard(dir, name)
	}
	if err != nil {
		return "", err
	}
	s.forget(name)
	record := profileBody{Profile: name, Actor: by}
	if !purge {
		record.Trash = path.Base(trash)
	}
	s.deleted(record)
	s.withoutSecrets(name)
	return trash, nil
}

// withoutSecrets removes the secrets of a profile that is gone. A new one of its
// name does not get what cannot be removed.
func (s *Store) withoutSecrets(name string) {
	if err := s.dropSecrets(name); err != nil {
		s.sayOnce(fmt.Sprintf("%v; they are of the profile %s, which is deleted: remove them yourself", err, name))
	}
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

// makeTrash makes the trash. Any service may have put something else in its place,
// and that keeps nobody from deleting.
func (s *Store) makeTrash() error {
	err := s.home.MkdirAll(trashDir, dirMode)
	if !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) {
		return err
	}
	kept, moved := moveNew(s.home, trashDir, s.dated(trashDir+".in-the-way-"))
	if moved != nil {
		return err
	}
	s.say(fmt.Sprintf("%s was no directory; it is now %s", s.home.Path(trashDir), s.home.Path(kept)))
	return s.home.MkdirAll(trashDir, dirMode)
}

// discard moves the profile into the trash.
func (s *Store) discard(dir, name string) (string, error) {
	if err := s.makeTrash(); err != nil {
		return "", err
	}
	if err := s.takeBackDir(dir); err != nil {
		return "", err // it cannot be moved to another directory by anybody else
	}
	to, err := moveNew(s.home, dir, s.dated(trashDir+"/"+name+"-"))
	if err != nil {
		return "", err
	}
	return s.home.Path(to), nil
}

// purge moves the profile out of sight first, so that it is gone at once and
// whole; what a crash leaves, PrepareBoot removes. left is what could not be
// removed.
func (s *Store) purge(dir string) (left string, err error) {
	if err := s.takeBackDir(dir); err != nil {
		return "", err
	}
	temp := profilesDir + "/" + durable.TempName()
	err = s.home.RenameNew(dir, temp)
	if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EBUSY) {
		// A directory of an overlay's lower layer cannot be moved, a mount
		// point neither. Without its marker it is no profile any more.
		temp = dir
		marker := dir + "/" + s.settings.Load().Marker
		err = s.home.RenameNew(marker, dir+"/"+durable.TempName())
	}
	if err != nil {
		return "", err
	}
	if err := s.home.RemoveAll(temp); err != nil {
		s.sayOnce(err.Error())
		return s.home.Path(temp), nil
	}
	if err := s.home.SyncDir(profilesDir); err != nil {
		s.sayOnce(err.Error()) // after a power cut the next boot may have to remove it again
	}
	return "", nil
}

// CheckDelete refuses what Delete would, as far as that is known without doing
// anything: the gateway runs on then.
func (s *Store) CheckDelete(name string) error {
	if name == Default {
		return refuse(ErrName, "the profile %q is the home directory itself; take gateway.default out of the configuration", name)
	}
	return s.home.Writable(profilesDir)
}
