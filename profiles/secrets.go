package profiles

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"

	"rlminit/internal/durable"
	"rlminit/service"
)

// secretsDir holds the secrets of profiles that were declared with them, where
// no service can look: PROFILE/N/NAME, of which the highest N counts. A set of
// secrets is there whole or not at all, and what runs keeps what it was given.
//
// They are under a profile's name before its directory is, and after it: whenever a
// kill or a disk that fails ends a creation, a rename or a deletion, a profile has its
// own, under whichever name. What lies under the name of none is nobody's: who takes
// the name begins with its own secrets or none, and a boot sweeps it.
const (
	privateDir  = ".rlminit"
	secretsDir  = privateDir + "/secrets"
	secretsMode = 0o700
	maxVersions = 1000
)

// Secrets are those of profiles, each a set under its profile's name.
type Secrets struct{ tree *tree }

// Dir is the directory whose files are a profile's secrets; "" if it has
// none.
func (s *Secrets) Dir(profile string) string {
	number, err := s.version(profile)
	if err != nil || number == 0 {
		return ""
	}
	return s.tree.ours.Path(versionDir(profile, number))
}

func versionDir(profile string, number int) string {
	return secretsDir + "/" + profile + "/" + strconv.Itoa(number)
}

// version is the number that counts; 0: the profile has no secrets.
func (s *Secrets) version(profile string) (number int, err error) {
	entries, err := s.tree.ours.ReadDir(secretsDir+"/"+profile, maxVersions)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name); err == nil && e.Type == fs.ModeDir {
			number = max(number, n)
		}
	}
	return number, err
}

// Of are those that a profile was given, by name.
func (s *Secrets) Of(profile string) (map[string]string, error) {
	number, err := s.version(profile)
	if err != nil || number == 0 {
		return nil, err
	}
	dir := versionDir(profile, number)
	entries, err := s.tree.ours.ReadDir(dir, service.MaxSecrets)
	if err != nil {
		return nil, err
	}
	secrets := map[string]string{}
	for _, e := range entries {
		value, err := s.tree.ours.ReadFile(dir+"/"+e.Name, service.MaxSecret)
		if err != nil {
			return nil, err
		}
		secrets[e.Name] = string(value)
	}
	return secrets, nil
}

// SetSecrets gives a profile these secrets, durably, and no other. changed is false
// where it has them already. It fails with ErrNotFound if there is no such profile.
func (s *Store) SetSecrets(name string, secrets map[string]string) (changed bool, err error) {
	_, release, err := s.hold(name)
	defer release()
	if err != nil {
		return false, err
	}
	return s.Secrets.save(name, secrets)
}

// save gives a profile these secrets, durably, and no other. changed is false where it
// has them already. The caller holds the name's lock.
func (s *Secrets) save(profile string, secrets map[string]string) (changed bool, err error) {
	is, err := s.Of(profile)
	if err == nil && maps.Equal(is, secrets) {
		return false, nil
	}
	if len(secrets) == 0 {
		return true, s.drop(profile)
	}
	number, err := s.version(profile)
	if err != nil {
		return false, err
	}
	if err := s.tree.ours.MkdirAll(secretsDir+"/"+profile, secretsMode); err != nil {
		return false, err
	}
	if err := s.tree.ours.CleanTemps(secretsDir + "/" + profile); err != nil {
		return false, err
	}
	temp := secretsDir + "/" + profile + "/" + durable.TempName()
	if err := s.tree.ours.Mkdir(temp, secretsMode); err != nil {
		return false, err
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if fault := service.CheckSecret(name); fault != "" {
			return false, refuse(ErrValue, "%q %s", name, fault)
		}
		if err := s.tree.ours.WriteFile(temp+"/"+name, []byte(secrets[name]), durable.Write{Mode: 0o600, Max: service.MaxSecret}); err != nil {
			return false, err
		}
	}
	if err := s.tree.ours.SyncDir(temp); err != nil {
		return false, err
	}
	if err := s.tree.ours.RenameNew(temp, versionDir(profile, number+1)); err != nil {
		return false, err
	}
	if number > 0 {
		s.discard(versionDir(profile, number))
	}
	return true, nil
}

// begin gives who is about to take a name these secrets, and nothing of what lies
// under it. Where it fails, whether they are there may be in doubt, and of the profile
// nothing is.
func (s *Secrets) begin(profile string, secrets map[string]string) error {
	_, err := s.save(profile, secrets)
	if errors.Is(err, durable.ErrInDoubt) {
		err = errors.New(err.Error())
	}
	return err
}

// drop takes what lies under a name away, all of it or nothing.
func (s *Secrets) drop(profile string) error {
	gone := secretsDir + "/" + durable.TempName()
	err := s.tree.ours.RenameNew(secretsDir+"/"+profile, gone)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		s.discard(gone)
	}
	return err
}

// discard removes what no longer counts.
func (s *Secrets) discard(rel string) {
	if err := s.tree.ours.RemoveAll(rel); err != nil {
		s.tree.told.once(fmt.Sprintf("%v; it holds secrets that are no longer used", err))
	}
}

// forget removes what lies under a name that no profile has, not yet or no more. It says
// itself why it cannot.
func (s *Secrets) forget(name string) (gone bool) {
	err := s.drop(name)
	if err != nil {
		s.tree.told.once(fmt.Sprintf("%v; it holds secrets that are nobody's, and the next boot tries again", err))
	}
	return err == nil
}

// sweep removes what lies under the names of no profiles: a creation, a rename or a
// deletion was killed, or somebody has removed a profile by hand. profiles are those
// that there are. Where there are none at all, their directory may be missing for
// once, and what is removed here does not come back.
func (s *Secrets) sweep(profiles []string) {
	if len(profiles) == 0 {
		return
	}
	there := make(map[string]bool, len(profiles))
	for _, name := range profiles {
		there[name] = true
	}
	entries, err := s.tree.ours.ReadDir(secretsDir, maxProfiles)
	s.tree.told.failure(err)
	for _, e := range entries {
		if !there[e.Name] && e.Name != Default && ValidName(e.Name) {
			s.sweepOne(e.Name)
		}
	}
}

func (s *Secrets) sweepOne(name string) {
	defer s.tree.names.lock(name)()
	// One that cannot be read, or lacks its marker, is not gone.
	if _, err := s.tree.home.Lstat(dirOf(name)); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if s.forget(name) {
		s.tree.told.say(fmt.Sprintf("the secrets kept for a profile %s are removed: there is no such profile", name))
	}
}

// add gives who has a directory already these secrets, beside its own if it is known as
// a profile. takeBack gives it the earlier ones again where what was to follow failed
// with why.
func (s *Secrets) add(profile string, known bool, secrets map[string]string) (takeBack func(why error) error, err error) {
	nothing := func(why error) error { return why }
	if known && len(secrets) == 0 {
		return nothing, nil
	}
	var before map[string]string
	if known {
		if before, err = s.Of(profile); err != nil {
			return nothing, err
		}
	}
	all := map[string]string{}
	maps.Copy(all, before)
	maps.Copy(all, secrets)
	if err := checkSecrets(all); err != nil {
		return nothing, err
	}
	_, err = s.save(profile, all)
	return func(why error) error {
		if _, err := s.save(profile, before); err != nil {
			return fmt.Errorf("%w; its secrets are changed already, and that cannot be taken back (%w); %w", why, err, durable.ErrInDoubt)
		}
		return why
	}, err
}

// checkSecrets refuses what cannot be a secret.
func checkSecrets(secrets map[string]string) error {
	if len(secrets) > service.MaxSecrets {
		return refuse(ErrValue, "%d secrets are too many; a profile can have %d", len(secrets), service.MaxSecrets)
	}
	for name, value := range secrets {
		if fault := service.CheckSecret(name); fault != "" {
			return refuse(ErrValue, "%q %s", name, fault)
		}
		if len(value) > service.MaxSecret {
			return refuse(ErrValue, "the secret %s is longer than %d bytes", name, service.MaxSecret)
		}
	}
	return nil
}
