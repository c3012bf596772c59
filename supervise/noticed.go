package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"log/slog"
	"slices"
	"strings"

	"rlminit/config"
	"rlminit/document"
	"rlminit/profiles"
	"rlminit/service"
)

// What others than the registrar do in the service directory. A slot is read and
// defined, or defined and published, under s.slotting: or what was read could be
// older than what is in force. The loop never takes it.

// noticed looks at a slot that somebody may have put there, changed or taken
// away by hand.
func (s *Supervisor) noticed(name string) {
	if source, err := s.slots.read(name, definitionFile, definitionMax); s.knows(name, source, err) {
		return // as a rule: it was the registrar
	}
	s.slotting.Lock()
	defer s.slotting.Unlock()
	source, err := s.slots.read(name, definitionFile, definitionMax)
	if s.knows(name, source, err) {
		return
	}
	if missing(err) {
		s.ask(func() {
			if u := s.units[name]; u != nil && !s.leaving[name] {
				slog.Info("a service was taken out of the service directory", "service", name)
				s.leaving[name], u.takenOut, u.survived = true, true, true
				s.remove(u, "taken out of the service directory", nil)
			}
		})
		return
	}
	p := proposal{name: name, source: source, start: true, cause: "put into the service directory"}
	s.ask(func() {
		if u := s.units[name]; u != nil {
			p.profile = u.definition.Profile
		}
	})
	s.understandSlot(&p, err)
	if p.fault == "" {
		p.start = p.value.Enabled
	}
	s.recognise(&p)
	if p.subject && !p.ours && s.holds(name) {
		// PID 1 would run its own command with what a stranger says beside it:
		// with his sockets, say.
		p.fault = "it has another user or a privilege, and so is as the configuration has it; change it there"
	}
	if !p.ours && p.fault == "" && config.Privileged(p.value) {
		slog.Warn("a definition that was put here by hand gets no other user or group and no privilege; it runs as the service user", "service", name)
	}
	s.ask(func() { s.define(p) })
}

// sourcesMax is how much, in bytes, all definitions may take before a stranger's
// is refused: decoded they take several times that, and a supervisor that needs
// more memory than there is would be followed by one that does too.
const sourcesMax = 8 << 20

// understandSlot decodes what was read of a slot, or err, unless it is more of a
// stranger's than there is room for.
func (s *Supervisor) understandSlot(p *proposal, err error) {
	if err != nil {
		p.fault = err.Error()
		return
	}
	all := len(p.source)
	s.ask(func() {
		all += s.sources
		if u := s.units[p.name]; u != nil {
			all -= len(u.source)
		}
	})
	if len(p.source) > document.MaxSize || all > sourcesMax {
		if s.recognise(p); !p.ours {
			p.fault = fmt.Sprintf("its definition has %d bytes; one that is put here by hand may have %d, if all have at most %d together", len(p.source), document.MaxSize, sourcesMax)
			p.source = []byte{}
			return
		}
	}
	var faults service.Faults
	p.value, faults = service.Decode(s.slots.path(p.name, definitionFile), p.name, p.source, s.inherited)
	if of := p.value.Profile; len(faults) > 0 {
		p.fault, p.refused = faults.Err().Error(), hashOf(p.source)
	} else if of != "" && p.name != profiles.GatewayName(of) {
		p.fault = fmt.Sprintf("it claims to be of profile %s, whose service is %s; take profile out", document.Quote(of), profiles.GatewayName(of))
	}
}

// inherited gives those of the container's variables that services see: the
// definition of a stranger must not be a way to the others. In ours nothing is
// left to be expanded.
func (s *Supervisor) inherited(name string) (string, bool) {
	if !s.config().Inherits(name) {
		return "", false
	}
	return s.lookup(name)
}

var hashSeed = maphash.MakeSeed()

// hashOf tells bytes from others, for as long as this process lives. It is not 0.
func hashOf(b []byte) uint64 { return max(1, maphash.Bytes(hashSeed, b)) }

// missing tells whether there is no definition in a slot, or no slot.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid)
}

// knows tells whether what was read of a slot is no news.
func (s *Supervisor) knows(name string, source []byte, err error) (known bool) {
	s.ask(func() {
		u := s.units[name]
		switch {
		case s.leaving[name]:
			known = true
		case missing(err):
			known = u == nil || u.source == nil
		case u == nil:
		case err != nil:
			known = u.fault == err.Error()
		case u.refused != 0:
			known = u.refused == hashOf(source)
		default:
			// A fault of the slot's own was mended by these very bytes; one of the
			// profile was not.
			known = bytes.Equal(u.source, source) && (u.fault == "" || u.ours)
		}
	})
	return known
}

// recognise looks whether configuration or volume have the service too that
// somebody put into the service directory: then what is recorded of it counts,
// and it may do what theirs may as long as it is theirs.
func (s *Supervisor) recognise(p *proposal) {
	cfg, store := s.config(), s.volume()
	profile, isGateway := strings.CutPrefix(p.name, service.GatewayPrefix)
	var record service.Record
	own, configured := cfg.Services[p.name]
	switch {
	case configured && store != nil:
		var err error
		if record, err = store.LoadService(p.name); err != nil {
			slog.Warn("cannot read what is recorded of a service; enabled decides", "service", p.name, "err", err)
		}
	case configured:
	case isGateway && store != nil && cfg.Gateway != nil:
		doomed := false
		s.ask(func() { doomed = s.doomed[profile] })
		found, err := store.Load(profile)
		if doomed || err != nil {
			return // there is no such profile, or not for long
		}
		p.profile, record = profile, found.Record
		if own, err = found.Definition(cfg); err != nil {
			own = service.Definition{}
		}
	default:
		return
	}
	p.subject = true
	p.ours = p.fault == "" && bytes.Equal(p.source, service.Encode(own))
	if record.Desired != service.IntentNone {
		p.desired, p.start = string(record.Desired), record.Desired == service.Running
	}
}

// rescan looks at every slot, and at every unit whose slot may be gone.
func (s *Supervisor) rescan() {
	names, err := s.slots.list()
	if err != nil {
		slog.Error("cannot look for services", "err", err)
		return
	}
	s.ask(func() {
		for name := range s.units {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	})
	for _, name := range names {
		s.noticed(name)
	}
}

// vacate takes away the slot of a service that is gone, but for one that
// somebody has put in its place meanwhile. Nobody has looked at that yet: what
// happened to the slot was no news as long as the service was leaving.
func (s *Supervisor) vacate(u *unit, gone chan struct{}) {
	s.slotting.Lock()
	withdraw := s.slots.withdraw
	source, err := s.slots.read(u.name, definitionFile, definitionMax)
	if u.takenOut || err == nil && u.fault == "" && !bytes.Equal(source, u.source) {
		withdraw = s.slots.clear // but what somebody has put there
	}
	if err = withdraw(u.name); err != nil {
		slog.Warn("cannot take a slot away", "service", u.name, "err", err)
	}
	returns := false
	s.ask(func() {
		returns = u.returns
		delete(s.leaving, u.name)
		delete(s.withdrawn, u.name)
		close(gone)
	})
	s.slotting.Unlock()
	if err == nil {
		s.noticed(u.name)
	}
	if returns {
		s.look(u.name)
	}
}
