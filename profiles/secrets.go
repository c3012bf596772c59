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

// Save gives a profile these secrets, durably, and no other. changed is
// false where it has them already.
func (s *Secrets) Save(profile string, secrets map[string]string) (changed bool, err error) {
	defer s.tree.names.lock("secrets/" + profile)()
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
	for _, dir := range []string{privateDir, secretsDir, secretsDir + "/" + profile} {
		if err := s.tree.ours.Mkdir(dir, secretsMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return false, err
		}
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
		if err := s.tree.ours.RemoveAll(versionDir(profile, number)); err != nil {
			s.tree.told.once(fmt.Sprintf("%v; it holds secrets that are no longer used", err))
		}
	}
	return true, nil
}

// drop takes a profile's secrets away.
func (s *Secrets) drop(profile string) error {
	err := s.tree.ours.RemoveAll(secretsDir + "/" + profile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// add gives a profile these secrets beside those that it has. takeBack gives
// it the earlier ones again where what was to follow failed with why.
func (s *Secrets) add(profile string, secrets map[string]string) (takeBack func(why error) error, err error) {
	nothing := func(why error) error { return why }
	if len(secrets) == 0 {
		return nothing, nil
	}
	before, err := s.Of(profile)
	if err != nil {
		return nothing, err
	}
	all := map[string]string{}
	maps.Copy(all, before)
	maps.Copy(all, secrets)
	if err := checkSecrets(all); err != nil {
		return nothing, err
	}
	_, err = s.Save(profile, all)
	return func(why error) error {
		if _, err := s.Save(profile, before); err != nil {
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
