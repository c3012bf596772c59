package profiles

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"rlminit/internal/document"
	"rlminit/profiles/overrides"
	"rlminit/service"
)

// Other is the profile.yaml with other variables; a nil value removes one. Comments and
// other keys stay. Values are taken as they are: a $ is written as $$, so that nothing in
// them is expanded.
func (p Profile) Other(changes map[string]*string) ([]byte, error) {
	if err := cmp.Or(checkChanges(changes), p.Fault); err != nil {
		return nil, err
	}
	return overrides.Set(p.overridesPath(), p.overrides, overrides.Changes{Environment: changes})
}

// checkChanges is checkEnvironment of changes.
func checkChanges(changes map[string]*string) error {
	set := map[string]string{}
	for key, value := range changes {
		set[key] = ""
		if value != nil {
			set[key] = *value
		}
	}
	return checkEnvironment(set)
}

// additions makes a map of values one of changes.
func additions(env map[string]string) map[string]*string {
	changes := make(map[string]*string, len(env))
	for key, value := range env {
		changes[key] = &value
	}
	return changes
}

// given are the variables that say which profile a gateway serves. One that was
// told another's would write to that one's files.
var given = []string{"PROFILE", "PROFILE_DIR", "PORT"}

// checkEnvironment refuses what cannot stand in an environment, or is not for
// a profile to say.
func checkEnvironment(env map[string]string) error {
	for key, value := range env {
		if fault := service.CheckVariable(key); fault != "" {
			return refuse(ErrValue, "%s: %s", document.Quote(key), fault)
		}
		switch {
		case slices.Contains(given, key):
			return refuse(ErrValue, "%s is what rlminit itself gives the gateway; use another name", key)
		case !utf8.ValidString(key), !utf8.ValidString(value):
			return refuse(ErrValue, "the variable %s is not UTF-8", document.Quote(key))
		case strings.ContainsRune(value, 0):
			return refuse(ErrValue, "the value of %s holds a NUL byte", key)
		case len(key)+1+len(value) > document.MaxString:
			return refuse(ErrValue, "the value of %s is longer than the %d bytes that a program can be given",
				key, document.MaxString-len(key)-1)
		}
	}
	return nil
}
