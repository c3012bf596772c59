package service

import (
	"fmt"
	"slices"
	"strings"

	"rlminit/internal/document"
)

// maxProfileName is the length of the longest profile name, in bytes.
const maxProfileName = 64

// ValidProfileName tells whether name has the form of a profile's name,
// [a-z0-9][a-z0-9_-]{0,63}.
func ValidProfileName(name string) bool {
	if name == "" || len(name) > maxProfileName {
		return false
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case i > 0 && (c == '_' || c == '-'):
		default:
			return false
		}
	}
	return true
}

// CheckProfileForm says why no profile can have a name, whatever services there are; "" if
// one can.
func CheckProfileForm(name string) string {
	if !ValidProfileName(name) {
		return fmt.Sprintf("%s is not a profile name; use a-z, 0-9, - and _, at most %d of them, the first a letter or a digit",
			document.Quote(name), maxProfileName)
	}
	if Reserved(name) {
		return fmt.Sprintf("%q is a reserved name; choose another", name)
	}
	return ""
}

// CheckProfilePrefix says why no new profile can have a name that reads like that of
// another profile's service; "" if it does not. A profile that has it already keeps it.
func CheckProfilePrefix(name string) string {
	if !strings.HasPrefix(name, GatewayPrefix) {
		return ""
	}
	return fmt.Sprintf("%s is refused: names that begin with %s are those of services; leave that out", document.Quote(name), GatewayPrefix)
}

// CheckProfileTaken says why no profile can have a name beside services of the
// configuration; "" if one can.
func CheckProfileTaken(name string, services []string) string {
	if !Shadows(name, services) {
		return ""
	}
	return fmt.Sprintf("%q is the name of a service in the configuration; choose another", name)
}

// CheckNewProfile says why no new profile can have a name beside services of the
// configuration; "" if one can.
func CheckNewProfile(name string, services []string) string {
	for _, fault := range []string{CheckProfileForm(name), CheckProfileTaken(name, services), CheckProfilePrefix(name)} {
		if fault != "" {
			return fault
		}
	}
	return ""
}

// Shadows tells whether one of the services has the name of a profile, or of its gateway.
func Shadows(name string, services []string) bool {
	return slices.Contains(services, name) || slices.Contains(services, GatewayPrefix+name)
}
