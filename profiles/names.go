package profiles

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"rlminit/config"
	"rlminit/service"
)

// Default is the name of the profile that is the home directory itself.
const Default = config.DefaultProfile

// GatewayName is the name of the service that runs a profile.
func GatewayName(profile string) string { return service.GatewayPrefix + profile }

// The kinds of refusal, for errors.Is.
var (
	ErrExists    = errors.New("exists already")
	ErrNotFound  = errors.New("no such profile")
	ErrName      = errors.New("not a profile name")
	ErrValue     = errors.New("not a value that can be used")
	ErrPortTaken = errors.New("port is taken")
	ErrBroken    = errors.New("the profile is broken")
	ErrShadowed  = errors.New("a service has the name")
)

// Refusal is an error that the caller of an operation brought about, not the
// system. Its text says what to do instead.
type Refusal struct {
	Kind error // one of the Err values
	Text string
}

func (r *Refusal) Error() string { return r.Text }
func (r *Refusal) Unwrap() error { return r.Kind }

func refuse(kind error, format string, args ...any) error {
	return &Refusal{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// ValidName tells whether name has the form of a profile's name,
// [a-z0-9][a-z0-9_-]{0,63}.
func ValidName(name string) bool { return service.ValidProfileName(name) }

// CheckName refuses a name that no profile may get. services are the names of
// static services.
func CheckName(name string, services []string) error {
	return cmp.Or(checkForm(name), CheckTaken(name, services))
}

// CheckTaken refuses a name that one of the static services has.
func CheckTaken(name string, services []string) error {
	return misnamed(service.CheckProfileTaken(name, services))
}

// checkForm refuses a name that no profile can have, whatever services there are.
func checkForm(name string) error { return misnamed(service.CheckProfileForm(name)) }

// misnamed is the fault of a name as an error; nil: "".
func misnamed(fault string) error {
	if fault == "" {
		return nil
	}
	return refuse(ErrName, "%s", fault)
}

// Shadowed tells whether a service of the configuration has the profile's name: it was
// added while the container was down, or at the very moment that the profile was made.
func (p Profile) Shadowed() bool { return errors.Is(p.Fault, ErrShadowed) }

// shadow is the fault of a profile that there is, and whose name a service has.
func (p *Profile) shadow(services []string) {
	if service.Shadows(p.Name, services) {
		p.Fault = refuse(ErrShadowed, "the profile in %s cannot be run: the configuration has a service %s; give the profile another name: rlminit profile rename %s NEW, or the service, and rlminit reload",
			p.Dir, p.Name, p.Name)
	}
}

// Check says why there can be no profile of that name; one that there is may
// have it.
func (s *Store) Check(name string) error {
	if err := CheckName(name, s.tree.settings.Load().Services); err != nil {
		return err
	}
	return s.checkFresh(name)
}

// Unmarked says why a directory of that name among the profiles is none; "" if
// there is no such directory, or it is one.
func (s *Store) Unmarked(name string) string {
	name = strings.TrimPrefix(name, service.GatewayPrefix)
	marker := s.tree.settings.Load().Marker
	if marker == "" || !ValidName(name) {
		return ""
	}
	at := profilesDir + "/" + name
	if there, err := s.tree.home.Lstat(at); err != nil || there.Type != fs.ModeDir {
		return ""
	}
	if _, err := s.tree.home.Lstat(at + "/" + marker); errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("%s is no profile: it has no %s; make one with: touch %s", s.tree.home.Path(at), marker, s.tree.home.Path(at+"/"+marker))
	}
	return ""
}
