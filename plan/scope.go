package plan

import (
	"fmt"
	"path"
	"strings"

	"rlminit/service"
)

// Scope bounds a plan: all, profiles, profile/NAME,
// configuration, or service/NAME, which is that service in the configuration.
type Scope string

// The scopes that name nothing.
const (
	All           Scope = "all"           // profiles, and the configuration
	Profiles      Scope = "profiles"      // every profile
	Configuration Scope = "configuration" // root's

	// Values is what rlminit profile set decides about: no profile as a whole. No plan has it.
	Values Scope = "values"
)

const (
	profileScope = "profile/"
	serviceScope = "service/"
)

// ParseScope reads a person's text. The error names a right one.
func ParseScope(s string) (Scope, error) {
	kind, name, named := strings.Cut(s, "/")
	switch {
	case s == string(All), s == string(Profiles), s == string(Configuration):
		return Scope(s), nil
	case named && (kind == "profile" || kind == "service") && service.CheckName(name) == "":
		return Scope(s), nil
	}
	return "", fmt.Errorf("%q is no scope; write all, profiles, profile/NAME, configuration or service/NAME", s)
}

// Profile tells whether a profile is within the scope.
func (s Scope) Profile(name string) bool {
	return s == All || s == Profiles || string(s) == profileScope+name
}

// Configures tells whether the configuration, or a service of it, is within the
// scope.
func (s Scope) Configures() bool {
	return s == All || s == Configuration || strings.HasPrefix(string(s), serviceScope)
}

// Profiles tells whether any profile is.
func (s Scope) Profiles() bool {
	return s == All || s == Profiles || strings.HasPrefix(string(s), profileScope)
}

// Named is the name of the one profile or service that the scope is about.
func (s Scope) Named() (kind, name string, one bool) {
	kind, name, one = strings.Cut(string(s), "/")
	return kind, name, one
}

// Covers tells whether a rule of apply.allow, a scope that may have the
// wildcards of path.Match in its name, is good for a subject: profile/NAME or
// service/NAME.
func Covers(rule, subject string) bool {
	switch rule {
	case string(All):
		return true
	case string(Profiles):
		return strings.HasPrefix(subject, profileScope)
	}
	fits, _ := path.Match(rule, subject)
	return fits
}
