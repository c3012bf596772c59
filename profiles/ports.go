package profiles

import (
	"fmt"
	"maps"
	"slices"

	"rlminit/config"
	"rlminit/profiles/ports"
	"rlminit/service"
)

// PortRange is the range that ports are taken from.
type PortRange = ports.Range

// wantedPort is the port that a creation asks for: an import has that of its profile
// again, if it is one of ours and free.
func wantedPort(book *ports.Book, name string, how *Creation, r PortRange, settings *Settings) int {
	if how.Port != 0 || how.Import == nil || how.Import.Port < r.First || how.Import.Port > r.Last || settings.Held[how.Import.Port] != "" {
		return how.Port
	}
	if _, free := book.Claim(name, how.Import.Port); !free {
		return 0
	}
	return how.Import.Port
}

// check refuses a port that was asked for and that no profile is to have.
func (how *Creation) check(kind string, settings *Settings) error {
	r := settings.beginning(kind).Range
	switch port := how.Port; {
	case port == 0:
		return nil
	case port < 0 || port > 65535:
		return refuse(ErrValue, "port %d is not in 1-65535", port)
	case settings.Held[port] != "":
		return refuse(ErrPortTaken, "port %d belongs to %s; choose another, or leave out --port", port, settings.Held[port])
	case !how.PortAny && r.Size() > 0 && (port < r.First || port > r.Last):
		return refuse(ErrValue, "port %d is not in %s, %d-%d; choose one of those, or add --port-any", port, PortsKey(kind), r.First, r.Last)
	}
	return nil
}

// Owned tells whether a port is another profile's than the named one.
func (s *Store) Owned(name string, port int) bool {
	if s.list.prime() != nil {
		return false
	}
	_, free := s.ports.Copy().Claim(name, port)
	return !free
}

// Portless are those of new profiles, each with its kind, that would find no port left, if all of
// them were made in the order of their names with such settings: the first of them, how many
// there are, and the range that is too small. Nothing is given away by it.
func (s *Store) Portless(kinds map[string]string, settings Settings) (first string, more int, in PortRange, err error) {
	if err := s.list.prime(); err != nil {
		return "", 0, in, err
	}
	book := s.ports.Copy()
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		r := settings.beginning(kinds[name]).Range
		if r.Size() == 0 || book.Allot(name, r, settings.Held) != 0 {
			continue
		}
		if more++; first == "" {
			first, in = name, r
		}
	}
	return first, max(0, more-1), in, nil
}

// PortsKey is the key of the configuration with the ports of a kind.
func PortsKey(kind string) string {
	if config.KindCalled(kind) == service.DefaultKind {
		return "gateway.ports"
	}
	return "gateways." + kind + ".ports"
}

func fullRange(name, kind string, r PortRange) string {
	return fmt.Sprintf("profile %s has no port: all of %d-%d are taken; widen %s", name, r.First, r.Last, PortsKey(kind))
}

// takePort gives name the port asked for, or one of the range that its kind begins with.
func takePort(book *ports.Book, name string, port int, b Beginning, settings *Settings, told *told) (int, error) {
	if port == 0 {
		port = book.Allot(name, b.Range, settings.Held)
		if port == 0 && b.Range.Size() > 0 {
			told.once(fullRange(name, b.kind, b.Range))
		}
		return port, nil
	}
	if owner, ok := book.Claim(name, port); !ok {
		if owner == name {
			return 0, refuse(ErrExists, "profile %q has port %d; a port stays with its profile", name, book.Of(name))
		}
		return 0, refuse(ErrPortTaken, "port %d belongs to profile %q; choose another, or leave out --port", port, owner)
	}
	return port, nil
}
