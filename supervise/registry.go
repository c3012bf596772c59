package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"

	"rlminit/config"
	"rlminit/profiles"
	"rlminit/reconcile"
	"rlminit/service"
)

// The registrar turns profiles and static services into slots. Its work touches
// the volume and so is done beside the loop, one piece at a time: registering
// holds s.registrar, never the loop.

// findings is what the volume and the configuration hold at one moment.
type findings struct {
	profiles []profiles.Profile
	values   map[string]service.Definition // by service
	sources  map[string][]byte
	input    reconcile.Input
}

// reconcile brings what is registered in line with the volume and the
// configuration, and returns what it did. The caller holds s.registrar.
func (s *Supervisor) reconcile(boot bool) ([]reconcile.Op, error) {
	found, err := s.survey()
	if err != nil {
		return nil, err
	}
	ops := reconcile.Diff(found.input)
	if boot && s.volume() != nil {
		if err := s.logBoot(ops); err != nil {
			slog.Warn("cannot write container-boot.log", "err", err)
		}
	}
	s.carryOut(ops, found)
	return ops, nil
}

// survey reads the volume and the configuration, and asks the loop what is
// registered.
func (s *Supervisor) survey() (*findings, error) {
	cfg := s.config()
	f := &findings{values: map[string]service.Definition{}, sources: map[string][]byte{}}
	f.input.Held = s.volume() == nil
	f.input.FoundState = service.Stopped
	for _, name := range slices.Sorted(maps.Keys(cfg.Services)) {
		record := service.Record{}
		if s.volume() != nil {
			var err error
			if record, err = s.volume().LoadService(name); err != nil {
				slog.Warn("cannot read what is recorded of a service; enabled decides", "service", name, "err", err)
			}
		}
		d := cfg.Services[name]
		f.add(d)
		f.input.Services = append(f.input.Services, reconcile.Static{
			Service: name, Enabled: d.Enabled, Fingerprint: string(f.sources[name]), Record: record,
		})
	}
	if s.volume() != nil && cfg.Gateway != nil {
		f.input.FoundState = service.Intent(cfg.Gateway.FoundState)
		list, err := s.volume().List()
		if err != nil {
			return nil, fmt.Errorf("cannot list the profiles: %w", err)
		}
		for _, p := range list {
			entry := reconcile.Profile{Name: p.Name, Service: p.Service(), Record: p.Record, Unrecorded: p.Unrecorded}
			if err := s.resolve(f, p); err != nil {
				entry.Fault = profiles.Reason(err)
			} else {
				entry.Fingerprint = string(f.sources[p.Service()])
			}
			f.input.Profiles = append(f.input.Profiles, entry)
		}
		f.profiles = list
	}
	s.ask(func() {
		for _, u := range s.units {
			if _, configured := f.sources[u.name]; configured {
				u.recorded = true
				u.ours = bytes.Equal(u.source, f.sources[u.name])
			}
			if !u.recorded {
				continue // put into the service directory by hand: not ours to take away
			}
			f.input.Present = append(f.input.Present, reconcile.Present{
				Service: u.name, Registered: u.source != nil, Alive: u.active(),
				Fault: u.fault, Fingerprint: string(u.configured),
			})
		}
	})
	return f, nil
}

func (f *findings) add(d service.Definition) {
	f.values[d.Name] = d
	f.sources[d.Name] = service.Encode(d)
}

// resolve makes the definition of a profile's gateway.
func (s *Supervisor) resolve(f *findings, p profiles.Profile) error {
	d, err := p.Definition(s.config())
	if err != nil {
		return err
	}
	f.add(d)
	return nil
}

// carryOut does what a diff says.
func (s *Supervisor) carryOut(ops []reconcile.Op, f *findings) {
	var record []reconcile.Op
	for _, op := range ops {
		if op.Record {
			record = append(record, op)
		}
	}
	s.each(len(record), func(i int) {
		if err := s.volume().SaveIntent(subjectOf(record[i].Service, record[i].Profile), record[i].Intent); err != nil {
			slog.Warn("cannot record the state of a service", "service", record[i].Service, "err", err)
		}
	})
	for _, op := range ops {
		switch op.Kind {
		case reconcile.Unregister:
			s.ask(func() {
				if u := s.units[op.Service]; u != nil {
					s.leaving[u.name] = true
					s.remove(u, "its definition is gone", nil)
				}
			})
		case reconcile.Report:
			s.register(proposal{name: op.Service, profile: op.Profile, fault: op.Reason, ours: true, subject: true})
		case reconcile.Update, reconcile.Register:
			if op.Reason != "" {
				slog.Warn("the recorded state of a service cannot be used", "service", op.Service, "err", op.Reason)
			}
			s.register(proposal{
				name: op.Service, profile: op.Profile, ours: true, subject: true,
				value: f.values[op.Service], source: f.sources[op.Service],
				start: op.Start, desired: desiredOf(op, f), cause: "boot",
			})
		}
	}
}

// desiredOf is the intent that status shows for a unit just registered.
func desiredOf(op reconcile.Op, f *findings) string {
	if op.Intent != service.IntentNone {
		return string(op.Intent)
	}
	return intentOf(op.Start)
}

// register publishes a proposal's slot and has it supervised. The loop knows
// first: the watcher must not take our own slot for somebody else's.
func (s *Supervisor) register(p proposal) {
	var gone <-chan struct{}
	s.ask(func() { gone = s.withdrawn[p.name] })
	if gone != nil {
		<-gone // a slot of that name is being taken away, and must not take this one along
	}
	if p.fault == "" {
		s.ask(func() { s.expected[p.name] = p.source })
		if err := s.slots.publish(p.name, p.source); err != nil {
			slog.Error("cannot publish a service", "service", p.name, "err", err)
		}
	} else if err := s.slots.occupy(p.name); err != nil {
		slog.Error("cannot publish a service", "service", p.name, "err", err)
	}
	s.ask(func() { s.define(p) })
}

// noticed looks at a slot that somebody may have put there, changed or taken
// away by hand.
func (s *Supervisor) noticed(name string) {
	source, err := s.slots.read(name, definitionFile, definitionMax)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		s.ask(func() {
			if u := s.units[name]; u != nil && u.source != nil && !s.leaving[name] {
				slog.Info("a service was taken out of the service directory", "service", name)
				s.leaving[name] = true
				s.remove(u, "taken out of the service directory", nil)
			}
		})
		return
	}
	p := proposal{name: name, source: source, start: true, cause: "put into the service directory"}
	if err != nil {
		p.fault = err.Error()
	}
	known := false
	s.ask(func() {
		known = s.leaving[name] || p.fault == "" && string(s.expected[name]) == string(source)
		if u := s.units[name]; u != nil {
			known = known || p.fault == "" && string(u.source) == string(source)
			p.profile = u.definition.Profile
		}
	})
	if known {
		return
	}
	if p.fault == "" {
		var faults service.Faults
		p.value, faults = service.Decode(s.slots.path(name, definitionFile), name, source, s.lookup)
		if len(faults) > 0 {
			p.fault = faults.Err().Error()
		} else {
			p.start = p.value.Enabled
		}
	}
	s.ask(func() { s.define(p) })
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

// logBoot writes container-boot.log for what a boot registers.
func (s *Supervisor) logBoot(ops []reconcile.Op) error {
	var lines []profiles.Booted
	for _, op := range ops {
		if op.Profile != "" && (op.Kind == reconcile.Register || op.Kind == reconcile.Report) {
			lines = append(lines, profiles.Booted{Profile: op.Profile, PriorState: op.PriorState, Action: op.Action})
		}
	}
	return s.volume().LogBoot(lines)
}

// subjectOf is what a service's record on the volume is about.
func subjectOf(name, profile string) profiles.Subject {
	if profile != "" {
		return profiles.Gateway(profile)
	}
	return profiles.Static(name)
}

// environment is what a process of d is spawned with, less what the loop adds.
func (s *Supervisor) environment(d service.Definition) ([]string, error) {
	cfg := s.config()
	var p config.Profile
	if d.Profile != "" {
		p = config.Profile{Name: d.Profile, Dir: profileDir(cfg, d.Profile), Port: d.Port}
	}
	return config.Environment(cfg, s.policy.User, s.container, d, p)
}

// profileDir is where a profile lies.
func profileDir(cfg *config.Config, name string) string {
	if name == profiles.Default {
		return cfg.Home
	}
	return filepath.Join(cfg.Home, "profiles", name)
}
