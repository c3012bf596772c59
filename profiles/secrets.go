package profiles

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"rlminit/profiles/secrets"
)

// SetSecrets gives a profile these secrets, durably, and no other. changed is false
// where it has them already. by is the caller's uid. It fails with ErrNotFound if there is no such profile.
func (s *Store) SetSecrets(name string, set map[string]string, by *uint32) (changed bool, err error) {
	_, release, err := s.list.hold(name)
	defer release()
	if err != nil {
		return false, err
	}
	changed, err = s.Secrets.Save(name, set, by)
	return changed, refused(err)
}

// Lost are the names of the secrets that a restore cannot bring back, for they were
// forgotten on purpose. restore is as in a Creation; "": there are none.
func (s *Store) Lost(restore string) []string {
	if restore == "" {
		return nil
	}
	t, err := s.Trash.find(restore)
	if err != nil {
		return nil // as the restore itself says
	}
	return s.Secrets.Lost(t.Entry)
}

// ForgetSecrets removes secrets that are kept of a profile, its own and those in the trash,
// and of one that is not there what was left of it. It tells where they were.
func (s *Store) ForgetSecrets(name string, keys []string, by *uint32) (own bool, trash []string, err error) {
	if err := checkForm(name); err != nil {
		return false, nil, err
	}
	defer s.tree.names.lock(name)()
	list, err := s.Trash.List()
	if err != nil {
		return false, nil, err
	}
	entries := []string{}
	for _, t := range list {
		if t.Profile == name {
			entries = append(entries, t.Entry)
		}
	}
	for _, stray := range s.Secrets.Strays([]string{name}, entries) {
		if entry, is := strings.CutPrefix(stray, secrets.Trashed("")); is && profileOf(entry) == name {
			entries = append(entries, entry)
		}
	}
	for _, entry := range entries {
		lost, err := s.Secrets.Lose(entry, keys...)
		if err != nil {
			return own, trash, err
		}
		if len(lost) > 0 {
			trash = append(trash, entry)
		}
	}
	has, err := s.Secrets.Of(name)
	if err != nil {
		return own, trash, err
	}
	before := len(has)
	for _, key := range keys {
		delete(has, key)
	}
	if _, err := s.tree.home.Lstat(dirOf(name)); len(has) == 0 && errors.Is(err, fs.ErrNotExist) {
		return before > 0, trash, s.Secrets.Begin(name, nil, by) // nothing is left under the name of nobody
	}
	own, err = s.Secrets.Save(name, has, by)
	return own, trash, err
}

// refused is a text that cannot be a secret, as a refusal; any other error stays as it is.
func refused(err error) error {
	var invalid secrets.Invalid
	if errors.As(err, &invalid) {
		return refuse(ErrValue, "%v", err)
	}
	return err
}

// sweepSecrets removes copies of secrets that a kill has left under the names of no
// profiles, of which these are those that there are, and under those of no entries of the
// trash. Secrets of which there is no other copy stay, and are said. Where there are no profiles at all,
// their directory may be missing for once.
func (s *Store) sweepSecrets(profiles []string) {
	for _, name := range s.Secrets.Strays(nil, nil) { // of all, those in the trash too
		s.Secrets.Tidy(name)
	}
	if len(profiles) == 0 {
		return
	}
	holders := s.Secrets.Holders()
	trash, err := s.Trash.List()
	if err != nil {
		s.tree.told.once(err.Error())
		return
	}
	entries, owners := make([]string, 0, len(trash)), []string(nil)
	for _, t := range trash {
		entries = append(entries, t.Entry)
		owners = append(owners, secrets.Trashed(t.Entry))
	}
	for _, name := range profiles {
		if holders[name] {
			owners = append(owners, name)
		}
	}
	for _, name := range s.Secrets.Strays(profiles, entries) {
		if name != Default {
			s.sweepSecretsOf(name, owners)
		}
	}
}

func (s *Store) sweepSecretsOf(name string, owners []string) {
	profile, deleted := name, false
	if t, is := strings.CutPrefix(name, secrets.Trashed("")); is {
		one, known := s.Trash.entry(t)
		if deleted = true; !known {
			one.Profile = profileOf(t)
		}
		profile = one.Profile
	}
	if !ValidName(profile) {
		return
	}
	defer s.tree.names.lock(profile)()
	if !deleted {
		// One that cannot be read, or lacks its marker, is not gone.
		if _, err := s.tree.home.Lstat(dirOf(name)); !errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	if s.Secrets.IsCopy(name, owners) {
		s.Secrets.Forget(name)
		return
	}
	s.tree.told.say(fmt.Sprintf("secrets of a profile %s are kept, and there is no such profile any more; rlminit profile secret forget %s NAME removes one", profile, profile))
}
