package supervise

import (
	"fmt"
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
// configuration, and returns what it did. At boot that is told in
// container-boot.log. With names it is about these alone. The caller holds
// s.registrar.
func (s *Supervisor) reconcile(boot bool, names ...string) ([]reconcile.Op, error) {
	found, err := s.survey()
	if err != nil {
		return nil, err
	}
	ops := about(names, reconcile.Diff(found.input))
	if boot {
		if err := s.logBoot(ops); err != nil {
			slog.Warn("cannot write container-boot.log", "err", err)
		}
	}
	s.carryOut(ops, found)
	return ops, nil
}

// look is reconcile for one who does not hold s.registrar, and has nobody to
// tell of an error.
func (s *Supervisor) look(names ...string) {
	s.registrar.Lock()
	defer s.registrar.Unlock()
	if _, err := s.reconcile(false, names...); err != nil {
		slog.Error("cannot reconcile", "err", err)
	}
}

// about leaves of the operations those on the names, of services or profiles;
// without names, all.
func about(names []string, ops []reconcile.Op) []reconcile.Op {
	if len(names) == 0 {
		return ops
	}
	return slices.DeleteFunc(ops, func(op reconcile.Op) bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			return name == op.Service || profiles.GatewayName(name) == op.Service
		})
	})
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
		list = slices.DeleteFunc(list, func(p profiles.Profile) bool {
			return s.deleting[p.Name] != nil || cfg.For(p.Service()).Gateway == nil
		})
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
			_, configured := f.sources[u.name]
			if !configured && !u.recorded || s.leaving[u.name] {
				continue // put there by hand, so not ours to take away; or as good as gone
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
	unrecorded := make([]bool, len(record))
	s.each(len(record), func(i int) {
		if err := s.volume().SaveIntent(subjectOf(record[i].Service, record[i].Profile), record[i].Intent); err != nil {
			slog.Warn("cannot record the state of a service", "service", record[i].Service, "err", err)
			unrecorded[i] = true
		}
	})
	for i, op := range record {
		if unrecorded[i] && op.Reason != "" { // else it was kept aside, and that was said
			slog.Warn("the recorded state of a service cannot be used", "service", op.Service, "err", op.Reason)
		}
	}
	for _, op := range ops {
		switch op.Kind {
		case reconcile.Unregister:
			s.ask(func() {
				if u := s.units[op.Service]; u != nil {
					s.leaving[u.name], u.survived = true, true
					s.remove(u, "its definition is gone", nil)
				}
			})
		case reconcile.Report:
			s.register(proposal{name: op.Service, profile: op.Profile, fault: op.Reason, ours: true, subject: true})
		case reconcile.Update, reconcile.Register:
			s.register(proposal{
				name: op.Service, profile: op.Profile, ours: true, subject: true,
				value: f.values[op.Service], source: f.sources[op.Service],
				start: op.Start, desired: desiredOf(op, f), cause: "boot",
			})
		}
		if op.Stale {
			s.ask(func() {
				if u := s.units[op.Service]; u != nil {
					s.recordSeen(u)
				}
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

// register publishes a proposal's slot and has it supervised. Where the service
// before it is on its way out, that comes first.
func (s *Supervisor) register(p proposal) {
	s.lockSlot(p.name)
	defer s.slotting.Unlock()
	leaving := false
	s.ask(func() {
		if u := s.units[p.name]; u != nil && s.leaving[p.name] {
			leaving, u.returns = true, true
		}
	})
	if leaving {
		return
	}
	if p.fault == "" {
		if err := s.slots.publish(p.name, p.source); err != nil {
			slog.Error("cannot publish a service", "service", p.name, "err", err)
		}
	} else if err := s.slots.occupy(p.name); err != nil {
		slog.Error("cannot publish a service", "service", p.name, "err", err)
	}
	s.ask(func() { s.define(p) })
}

// lockSlot takes s.slotting when no slot of that name is being taken away any
// more: it would take a new one along.
func (s *Supervisor) lockSlot(name string) {
	for {
		var gone <-chan struct{}
		s.slotting.Lock()
		s.ask(func() { gone = s.withdrawn[name] })
		if gone == nil {
			return
		}
		s.slotting.Unlock()
		<-gone
	}
}

// logBoot writes container-boot.log for what a boot registers, before it does:
// a successor that finishes the boot no longer sees what is registered.
func (s *Supervisor) logBoot(ops []reconcile.Op) error {
	var lines []profiles.Booted
	for _, op := range ops {
		if op.Profile != "" && (op.Kind == reconcile.Register || op.Kind == reconcile.Report) {
			lines = append(lines, profiles.Booted{Profile: op.Profile, PriorState: op.PriorState, Action: op.Action})
		}
	}
	return s.volume().LogBoot(s.work.logFrom(s.volume().BootLogSize), lines)
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
	cfg := s.config().For(d.Name)
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
