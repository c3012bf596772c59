package secrets

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"rlminit/internal/durable"
	"rlminit/service"
)

// trashName is the directory of the secrets of deleted profiles, by entry of the trash. No
// profile can have that name.
const trashName = ".trash"

// Trashed is the name under which the secrets of an entry of the trash are.
func Trashed(entry string) string { return trashName + "/" + entry }

// Names are the names of a profile's secrets, in order.
func (s *Sets) Names(profile string) ([]string, error) {
	number, err := s.Version(profile)
	if err != nil || number == 0 {
		return nil, err
	}
	entries, err := s.dir.ReadDir(versionDir(profile, number), service.MaxSecrets)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	return names, err
}

// Bury copies a profile's secrets to an entry of the trash, durably, before its directory
// goes there. Older secrets under the entry's name are removed.
func (s *Sets) Bury(profile, entry string) error { return s.copy(profile, Trashed(entry)) }

// Revive begins a profile with the secrets of an entry of the trash, beside these, which
// win. As with Begin, nothing is of the profile where it fails.
func (s *Sets) Revive(profile, entry string, secrets map[string]string, by *uint32) error {
	if err := s.copy(Trashed(entry), profile); err != nil {
		return certain(err)
	}
	if len(secrets) == 0 {
		return nil
	}
	all, err := s.Of(profile)
	if err != nil {
		return certain(err)
	}
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, secrets)
	return s.Begin(profile, all, by)
}

// Move copies the secrets of a profile to a name that nobody has yet.
func (s *Sets) Move(from, to string) error { return certain(s.copy(from, to)) }

func (s *Sets) copy(from, to string) error {
	if err := s.drop(to); err != nil {
		return err
	}
	number, err := s.newest(from) // also of an empty set: its number is not given again
	if err != nil || number == 0 {
		return err
	}
	secrets, err := s.Of(from)
	if err != nil {
		return err
	}
	return s.write(to, number, secrets, s.Since(from))
}

// lostFile has the names of the secrets of an entry of the trash that were forgotten on
// purpose.
const lostFile = "forgotten"

// Lose removes the secrets of an entry of the trash, and keeps their names, which Lost
// returns until the entry goes. With names it removes these alone, without any all.
func (s *Sets) Lose(entry string, names ...string) (lost []string, err error) {
	holder := Trashed(entry)
	values, err := s.Of(holder)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(names) == 0 || slices.Contains(names, name) {
			lost = append(lost, name)
			delete(values, name)
		}
	}
	if len(lost) == 0 {
		return nil, nil
	}
	before := s.Lost(entry)
	if _, err := s.Save(holder, values, nil); err != nil {
		return nil, err
	}
	if err := s.dir.MkdirAll(Home+"/"+holder, mode); err != nil {
		return nil, err
	}
	all := slices.Concat(before, lost)
	slices.Sort(all)
	text := strings.Join(slices.Compact(all), "\n")
	return lost, s.dir.WriteFile(Home+"/"+holder+"/"+lostFile, []byte(text), durable.Write{Mode: 0o600})
}

// Lost are the names that Lose has kept of an entry.
func (s *Sets) Lost(entry string) []string {
	b, err := s.dir.ReadFile(Home+"/"+Trashed(entry)+"/"+lostFile, maxSince)
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}

// Strays are the names under which something lies, of profiles and of entries of the trash,
// that are none of these: a creation, a rename, a deletion or a restore was killed, or
// somebody has removed a profile by hand.
func (s *Sets) Strays(profiles, entries []string) (names []string) {
	add := func(dir, prefix string, there []string) {
		known := make(map[string]bool, len(there))
		for _, name := range there {
			known[name] = true
		}
		found, err := s.dir.ReadDir(dir, maxNames)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.say(err.Error())
		}
		for _, e := range found {
			if prefix+e.Name != trashName && !known[e.Name] && !durable.IsTemp(e.Name) {
				names = append(names, prefix+e.Name)
			}
		}
	}
	add(Home, "", profiles)
	add(Home+"/"+trashName, trashName+"/", entries)
	return names
}

// IsCopy tells whether all that lies under a name lies under one of some others too, since the
// same moment: others may have been given the same values.
func (s *Sets) IsCopy(name string, others []string) bool {
	mine, err := s.Of(name)
	if err != nil {
		return false
	}
	for _, other := range others {
		theirs, err := s.Of(other)
		if err == nil && within(mine, theirs) && s.sameSince(mine, name, other) {
			return true
		}
	}
	return len(mine) == 0
}

// sameSince tells whether secrets have their values under two names since the same moments.
func (s *Sets) sameSince(secrets map[string]string, name, other string) bool {
	mine, theirs := s.Since(name), s.Since(other)
	for secret := range secrets {
		if a, b := mine[secret], theirs[secret]; a.Version != b.Version || !a.At.Equal(b.At) {
			return false
		}
	}
	return true
}

func within(some, all map[string]string) bool {
	for name, value := range some {
		if is, has := all[name]; !has || is != value {
			return false
		}
	}
	return true
}
