// Package secrets keeps the secrets of profiles that were declared with them, where no
// service can look: PROFILE/N/NAME, of which the highest N counts, and PROFILE/N.json,
// which tells of each since when it has its value. A set of secrets is there whole or not
// at all, and what runs keeps what it was given.
//
// They are under a profile's name before its directory is, and after it: whenever a
// kill or a disk that fails ends a creation, a rename or a deletion, a profile has its
// own, under whichever name. Those of a deleted profile are below .trash, under the name
// of its entry in the trash, and a restore brings them back. Secrets under a name
// that no profile has are nobody's: the next profile of that name begins with its own or none.
// A boot removes copies, and never a secret.
package secrets

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"rlminit/internal/durable"
	"rlminit/journal"
	"rlminit/service"
)

// Home is where they are on the volume.
const Home = journal.Home + "/secrets"

const (
	mode        = 0o700
	maxVersions = 1000
	maxNames    = 100_000
)

// Sets are those of profiles, each under its profile's name. A caller who changes one holds
// the lock of its name.
type Sets struct {
	dir *durable.Dir
	say func(string)
}

// In are the sets on a volume. say is told of what is not removed as it should be.
func In(volume *durable.Dir, say func(string)) *Sets { return &Sets{volume, say} }

// Dir is the directory whose files are a profile's secrets; "" if it has
// none.
func (s *Sets) Dir(profile string) string {
	number, err := s.Version(profile)
	if err != nil || number == 0 {
		return ""
	}
	return s.dir.Path(versionDir(profile, number))
}

func versionDir(profile string, number int) string {
	return Home + "/" + profile + "/" + strconv.Itoa(number)
}

// Version is the number of the secrets that a profile has; 0: it has none. No other
// secrets of the profile ever have that number: what a process was started with is told
// by it.
func (s *Sets) Version(profile string) (number int, err error) {
	number, err = s.newest(profile)
	if err != nil || number == 0 {
		return 0, err
	}
	entries, err := s.dir.ReadDir(versionDir(profile, number), service.MaxSecrets)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	return number, nil
}

// newest is the highest number, also where its set is empty; 0: there is none.
func (s *Sets) newest(profile string) (number int, err error) {
	entries, err := s.dir.ReadDir(Home+"/"+profile, maxVersions)
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

// Holders are the names under which something lies; nil: that cannot be told.
func (s *Sets) Holders() map[string]bool {
	entries, err := s.dir.ReadDir(Home, maxNames)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	names := make(map[string]bool, len(entries))
	for _, e := range entries {
		if e.Name != trashName && !durable.IsTemp(e.Name) {
			names[e.Name] = true
		}
	}
	return names
}

// Of are those that a profile was given, by name.
func (s *Sets) Of(profile string) (map[string]string, error) {
	number, err := s.Version(profile)
	if err != nil || number == 0 {
		return nil, err
	}
	dir := versionDir(profile, number)
	entries, err := s.dir.ReadDir(dir, service.MaxSecrets)
	if err != nil {
		return nil, err
	}
	secrets := map[string]string{}
	for _, e := range entries {
		value, err := s.dir.ReadFile(dir+"/"+e.Name, service.MaxSecret)
		if err != nil {
			return nil, err
		}
		secrets[e.Name] = string(value)
	}
	return secrets, nil
}

// Save gives a profile these secrets, durably, and no other. changed is false where it
// has them already. by is the caller's uid; nil: nobody knows.
func (s *Sets) Save(profile string, secrets map[string]string, by *uint32) (changed bool, err error) {
	is, err := s.Of(profile)
	if err == nil && maps.Equal(is, secrets) {
		return false, nil
	}
	if err := Check(secrets); err != nil {
		return false, err
	}
	number, err := s.newest(profile)
	if err != nil {
		return false, err
	}
	since, at := s.Since(profile), time.Now().UTC()
	for name := range since {
		if _, stays := secrets[name]; !stays {
			delete(since, name)
		}
	}
	for name, value := range secrets {
		if before, had := is[name]; !had || before != value {
			since[name] = Given{Version: number + 1, At: at, UID: by}
		}
	}
	if err := s.write(profile, number+1, secrets, since); err != nil {
		return false, err
	}
	s.Tidy(profile)
	return true, nil
}

// write writes a set of secrets as one of a number, which counts from the last rename on.
func (s *Sets) write(profile string, number int, secrets map[string]string, since map[string]Given) error {
	if err := s.dir.MkdirAll(Home+"/"+profile, mode); err != nil {
		return err
	}
	if err := s.dir.CleanTemps(Home + "/" + profile); err != nil {
		return err
	}
	temp := Home + "/" + profile + "/" + durable.TempName()
	if err := s.dir.Mkdir(temp, mode); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if err := s.dir.WriteFile(temp+"/"+name, []byte(secrets[name]), durable.Write{Mode: 0o600, Max: service.MaxSecret}); err != nil {
			return err
		}
	}
	if err := s.dir.SyncDir(temp); err != nil {
		return err
	}
	if len(secrets) > 0 {
		if err := s.writeSince(profile, number, since); err != nil {
			return err
		}
	}
	return s.dir.RenameNew(temp, versionDir(profile, number))
}

// Tidy removes what no longer counts of a profile's: a kill may have left it.
func (s *Sets) Tidy(profile string) {
	entries, err := s.dir.ReadDir(Home+"/"+profile, maxVersions)
	if err != nil {
		return // as a rule there is nothing
	}
	newest, _ := s.newest(profile)
	for _, e := range entries {
		if n, err := strconv.Atoi(strings.TrimSuffix(e.Name, sinceSuffix)); err == nil && n < newest {
			s.discard(Home + "/" + profile + "/" + e.Name)
		}
	}
}

// Begin gives who is about to take a name these secrets, and nothing of what lies
// under it. Where it fails, whether they are there may be in doubt, and of the profile
// nothing is.
func (s *Sets) Begin(profile string, secrets map[string]string, by *uint32) error {
	_, err := s.give(profile, false, secrets, by)
	return certain(err)
}

// give is Save, which leaves no trace of secrets that there were under the name where no
// profile has had it yet.
func (s *Sets) give(profile string, known bool, secrets map[string]string, by *uint32) (changed bool, err error) {
	if !known && len(secrets) == 0 {
		return true, s.drop(profile)
	}
	return s.Save(profile, secrets, by)
}

// certain is an error of what is not there yet, so that nothing is in doubt.
func certain(err error) error {
	if errors.Is(err, durable.ErrInDoubt) {
		err = errors.New(err.Error())
	}
	return err
}

// drop takes what lies under a name away, all of it or nothing.
func (s *Sets) drop(profile string) error {
	gone := Home + "/" + durable.TempName()
	err := s.dir.RenameNew(Home+"/"+profile, gone)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		s.discard(gone)
	}
	return err
}

// discard removes what no longer counts.
func (s *Sets) discard(rel string) {
	if err := s.dir.RemoveAll(rel); err != nil {
		s.say(fmt.Sprintf("%v; it holds secrets that are no longer used", err))
	}
}

// Forget removes what lies under a name that no profile has, not yet or no more. It says
// itself why it cannot.
func (s *Sets) Forget(name string) (gone bool) {
	err := s.drop(name)
	if err != nil {
		s.say(fmt.Sprintf("%v; it holds secrets that are nobody's; remove it yourself", err))
	}
	return err == nil
}

// Add gives who has a directory already these secrets, beside its own if it is known as
// a profile. takeBack gives it the earlier ones again where what was to follow failed
// with why.
func (s *Sets) Add(profile string, known bool, secrets map[string]string, by *uint32) (takeBack func(why error) error, err error) {
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
	if err := Check(all); err != nil {
		return nothing, err
	}
	_, err = s.give(profile, known, all, by)
	return func(why error) error {
		if _, err := s.give(profile, known, before, by); err != nil {
			return fmt.Errorf("%w; its secrets are changed already, and that cannot be taken back (%w); %w", why, err, durable.ErrInDoubt)
		}
		return why
	}, err
}

// Invalid is what cannot be a secret, and why.
type Invalid string

func (i Invalid) Error() string { return string(i) }

func invalid(format string, args ...any) error { return Invalid(fmt.Sprintf(format, args...)) }

// Check refuses what cannot be a secret: the error is Invalid.
func Check(secrets map[string]string) error {
	if len(secrets) > service.MaxSecrets {
		return invalid("%d secrets are too many; a profile can have %d", len(secrets), service.MaxSecrets)
	}
	for name, value := range secrets {
		if fault := service.CheckSecret(name); fault != "" {
			return invalid("%q %s", name, fault)
		}
		if len(value) > service.MaxSecret {
			return invalid("the secret %s is longer than %d bytes", name, service.MaxSecret)
		}
	}
	return nil
}
