package profiles

import (
	"io/fs"
	"path"

	"rlminit/internal/durable"
	"rlminit/profiles/secrets"
)

// Delete takes a profile away, durably: into the trash, whose path it returns,
// or for good with purge, where it returns the path of what could not be removed,
// "" as a rule: the next boot tries that again. Its gateway must have been stopped. A broken profile
// can be deleted too. It fails with ErrNotFound if there is none. by is the requester;
// nil: rlminit itself.
func (s *Store) Delete(name string, purge bool, by *Actor) (trash string, err error) {
	return s.remove(name, func(dir string) (trash string, err error) {
		record := profileBody{Profile: name, Actor: by}
		if purge {
			trash, err = s.Trash.purge(dir)
		} else {
			s.Records.keepsIntent(name)
			trash, err = s.Trash.take(dir, name, s.Secrets)
			record.Trash = path.Base(trash)
		}
		if err == nil {
			s.Records.deleted(record)
		}
		return trash, err
	})
}

// remove has away take a profile's directory away, and forgets the rest of it. It returns
// what away does.
func (s *Store) remove(name string, away func(dir string) (string, error)) (where string, err error) {
	if err := s.deletable(name); err != nil {
		return "", err
	}
	_, release, err := s.list.hold(name)
	defer release()
	if err != nil {
		return "", err
	}
	if where, err = away(dirOf(name)); err != nil {
		return "", err
	}
	s.Records.forget(name)
	s.Secrets.Forget(name)
	return where, nil
}

// Purge takes an entry out of the trash for good, durably, and returns the path of what
// could not be removed, as Delete does. release is told which one it is, and calls
// takeOut, after which it is gone, or says why it stays; what it returns wins. It fails
// with ErrNotFound if there is none. by is the requester; nil: rlminit itself.
func (s *Store) Purge(entry string, by *Actor, release func(t Trashed, takeOut func() error) error) (left string, err error) {
	one, ok := s.Trash.entry(entry)
	if !ok {
		return "", notThere(entry)
	}
	temp := ""
	err = release(one, func() (err error) {
		temp, err = s.Trash.takeOut(entry)
		return err
	})
	if err != nil {
		return "", err
	}
	s.Secrets.Forget(secrets.Trashed(entry)) // a kill before that leaves them, and the next boot says so
	s.Records.purged(profileBody{Profile: one.Profile, Trash: entry, Actor: by})
	return s.Trash.remove(temp), nil
}

// CheckDelete refuses what Delete would, as far as can be known without the profile being
// touched: the gateway runs on then. A disk that only fails when it is written to is
// found out by a directory that is made and removed again; a full one keeps nobody from
// deleting.
func (s *Store) CheckDelete(name string, purge bool) error {
	if err := s.deletable(name); err != nil {
		return err
	}
	if !purge {
		if there, err := s.tree.home.Lstat(trashDir); err == nil && there.Type == fs.ModeDir {
			if err := s.tree.home.Writable(trashDir); err != nil {
				return err
			}
		}
	}
	temp := profilesDir + "/" + durable.TempName()
	err := s.tree.home.Mkdir(temp, dirMode)
	if err == nil {
		err = s.tree.home.SyncDir(profilesDir)
		if e := s.tree.home.RemoveAll(temp); err == nil {
			err = e
		}
	}
	if durable.Room(err) != "" {
		return nil
	}
	return err
}

// deletable is CheckDelete as far as names and rights tell.
func (s *Store) deletable(name string) error {
	if name == Default {
		return refuse(ErrName, "the profile %q is the home directory itself; take gateway.default out of the configuration", name)
	}
	return s.tree.home.Writable(profilesDir)
}
