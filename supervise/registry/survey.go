package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/durable"
	"rlminit/journal"
	"rlminit/profiles"
	"rlminit/profiles/bootlog"
	"rlminit/reconcile"
	"rlminit/service"
	"rlminit/supervise/handover"
	"rlminit/supervise/settings"
)

// surveyor reads the volume and a configuration, in force or not, and
// writes down what of it must outlive the container. Nothing is registered by it.
// The goroutine's.
type surveyor struct {
	services Services
	volume   Volume
	table    *handover.Table
	names    *names
}

// findings are the content of the volume and a configuration at one moment.
type findings struct {
	config *config.Config
	values map[string]Proposal         // by service
	denied map[string]string           // by service: why those cannot be read whose files are somebody else's
	kinds  map[string]string           // by service: the kinds of those with a fault, in their own words
	atRest map[string]profiles.Profile // by service: those that are not compiled
	prints map[string]string           // their fingerprints
	input  reconcile.Input
	later  bool  // the requester restarts processes
	unread error // why one of the profiles cannot be read now; nil: each can
	boot   bool  // state files that say something else than what counts are put right
}

// list reads the volume's profiles as the configuration in force has them.
func (v *surveyor) list(*config.Config) ([]profiles.Profile, error) { return v.volume.Store().List() }

// preview reads them as another configuration would have them, which changes
// nothing.
func (v *surveyor) preview(c *config.Config) ([]profiles.Profile, error) {
	return v.volume.Store().Preview(profiles.SettingsOf(c))
}

// looking is the extent of a look, and how closely profiles that may rest are looked at.
type looking struct {
	names  []string                    // of services or profiles; none: all
	rest   bool                        // unknown ones are left at rest
	static bool                        // those of the configuration alone
	judged func(profiles.Profile) bool // which of those at rest are compiled; nil: none
}

// skips tells whether a service is not looked at.
func (how looking) skips(service string) bool {
	return len(how.names) > 0 && !means(how.names, service)
}

// lister reads the volume's profiles as a configuration has them.
type lister func(*config.Config) ([]profiles.Profile, error)

// survey reads the volume as a configuration has it, and compares with what is
// registered. Of the profiles at rest only those are compiled that are to be judged;
// the others are taken to be without a fault.
func (v *surveyor) survey(cfg *config.Config, list lister, how looking) (*findings, error) {
	store := v.volume.Store()
	if err := v.volume.Unknown(); err != nil && !how.static {
		return nil, fmt.Errorf("cannot list the profiles: %w", err)
	}
	f := &findings{config: cfg, values: map[string]Proposal{}, denied: map[string]string{}, kinds: map[string]string{}, prints: map[string]string{}, atRest: map[string]profiles.Profile{}}
	f.input.Held = store == nil
	f.input.FoundState = service.Stopped
	for _, name := range slices.Sorted(maps.Keys(cfg.Services)) {
		if how.skips(name) {
			continue
		}
		record := service.Record{}
		if store != nil {
			record = store.Records.LoadService(name)
		}
		d := cfg.Services[name]
		f.add(d)
		f.input.Services = append(f.input.Services, reconcile.Static{
			Service: name, Enabled: d.Enabled, Scheduled: d.Schedule != nil, Fingerprint: f.prints[name], Recorded: record.Desired,
		})
	}
	if store != nil && cfg.Gateway != nil {
		f.input.FoundState = service.Intent(cfg.Gateway.FoundState)
		found, err := list(cfg)
		if err != nil {
			return nil, fmt.Errorf("cannot list the profiles: %w", err)
		}
		for _, p := range found {
			if !how.skips(p.Service()) {
				f.profile(p, v.names.life(p.Service()), how)
			}
		}
	}
	v.present(f, how)
	return f, nil
}

// profile adds the target of a profile of the volume, whose service has that life.
func (f *findings) profile(p profiles.Profile, life Life, how looking) {
	name := p.Service()
	if p.Unread() {
		f.unread = fmt.Errorf("profile %s cannot be read now: %w", p.Name, p.Fault)
	}
	if life == Deleting || life == Deleted || f.config.For(name).Gateway == nil {
		return
	}
	entry := reconcile.Profile{Name: p.Name, Service: name, Record: p.Record, Unrecorded: p.Unrecorded}
	rests := (life == Resting || life == Absent && how.rest) && mayRest(p, f.config, f.input.FoundState)
	if rests && (how.judged == nil || !how.judged(p)) {
		entry.Fingerprint = atRest
	} else if d, err := p.Definition(f.config); err != nil {
		entry.Fault, f.kinds[name] = profiles.Reason(err), p.Kind()
		if errors.Is(p.Fault, fs.ErrPermission) {
			f.denied[name] = durable.Cause(p.Fault)
		}
	} else if entry.Fingerprint, entry.Scheduled = atRest, d.Schedule != nil; !rests {
		f.add(d)
		entry.Fingerprint = f.prints[name]
	}
	if entry.Fingerprint == atRest {
		f.atRest[name] = p
		f.prints[name] = atRest
	}
	f.input.Profiles = append(f.input.Profiles, entry)
}

// present adds the registered services.
func (v *surveyor) present(f *findings, how looking) {
	alive := v.services.Alive()
	for name, e := range v.names.of {
		if how.skips(name) {
			continue
		}
		_, configured := f.prints[name]
		if e.life == Resting {
			f.input.Present = append(f.input.Present, reconcile.Present{Service: name, Registered: true, Fingerprint: atRest})
			continue
		}
		if !configured && !e.recorded || e.life != Supervised {
			continue // put there by hand, so not ours to take away; or as good as gone
		}
		f.input.Present = append(f.input.Present, reconcile.Present{
			Service: name, Registered: e.source != "", Alive: alive[name],
			Fault: e.fault, Fingerprint: e.configured,
		})
	}
}

func (f *findings) add(d *service.Definition) {
	p := Ours(d)
	f.values[d.Name], f.prints[d.Name] = p, p.Fingerprint
}

// record saves the parts of a diff that must outlive the container, and the desired
// states of services that the journal does not know yet.
func (v *surveyor) record(ops []reconcile.Op, f *findings) {
	store := v.volume.Store()
	if store == nil {
		return
	}
	found := map[string]service.Intent{}
	var incomplete []string
	for _, p := range f.input.Profiles {
		if store.Records.Unknown(p.Service) {
			if p.Record.Origin == service.Recorded && p.Record.Desired != service.IntentNone {
				found[p.Service] = p.Record.Desired
			} else if p.Fault == "" {
				found[p.Service] = service.Stopped // as is from now on, unless an operation says otherwise
			}
		}
		if p.Record.Said != service.IntentNone && f.boot { // something else than what counts
			incomplete = append(incomplete, p.Name)
		}
	}
	for _, s := range f.input.Services {
		if store.Records.Unknown(s.Service) && s.Recorded != service.IntentNone {
			found[s.Service] = s.Recorded
		}
	}
	for _, op := range ops {
		if !op.Record {
			continue
		}
		incomplete = append(incomplete, op.Profile)
		if op.Intent != service.IntentNone {
			found[op.Service] = op.Intent
		}
	}
	if len(found) == 0 && len(incomplete) == 0 {
		return
	}
	err := store.Records.TakeOver(found, incomplete)
	if err != nil && !errors.Is(err, journal.ErrClosed) { // the container ends: its next boot finds the same
		slog.Warn("cannot record what is wanted of services", "err", err)
		for _, op := range ops {
			if op.Record && op.Reason != "" { // else it is kept aside, and that is said
				slog.Warn("the recorded state of a service cannot be used", "service", op.Service, "err", op.Reason)
			}
		}
	}
}

// forgetGone has the journal forget what neither the volume nor the configuration
// has any more.
func (v *surveyor) forgetGone(f *findings) {
	there := map[string]bool{}
	for _, p := range f.input.Profiles {
		there[p.Service] = true
	}
	for _, s := range f.input.Services {
		there[s.Service] = true
	}
	if store := v.volume.Store(); store != nil {
		store.Records.Forget(there)
	}
}

// change is an operation in words.
func (v *surveyor) change(op reconcile.Op, found *findings) control.Change {
	switch op.Kind {
	case reconcile.Unregister:
		return control.Change{Service: op.Service, Action: "remove", Why: "its definition is gone"}
	case reconcile.Report:
		return control.Change{Service: op.Service, Action: "refuse", Why: op.Reason}
	case reconcile.Register:
		return control.Change{Service: op.Service, Action: "add", Why: "its definition is new"}
	}
	return v.services.Plan(op.Service, found.values[op.Service].Value)
}

// namesClash refuses a configuration where a service gets the name of a
// profile that there is: the profile could not be run any more. With one that has it
// since the container was started the others are none the worse.
func (v *surveyor) namesClash(next *settings.Next) error {
	store := v.volume.Store()
	if store == nil {
		return nil
	}
	list, err := store.List()
	if err != nil {
		return control.Failed("cannot list the profiles: %v", err)
	}
	for _, p := range list {
		if _, taken := next.Services[p.Name]; taken && !p.Shadowed() {
			return control.Conflict("service %q has the name of a profile; give it another one, or remove the profile first: rlminit profile delete %s",
				p.Name, p.Name)
		}
	}
	return nil
}

// logBoot writes container-boot.log for the services a boot registers, before it does:
// a successor that finishes the boot no longer sees those registered.
func (v *surveyor) logBoot(ops []reconcile.Op, f *findings) error {
	said := map[string]service.Intent{}
	for _, p := range f.input.Profiles {
		said[p.Name] = p.Record.Said
	}
	var lines []bootlog.Line
	for _, op := range ops {
		if op.Profile != "" && (op.Kind == reconcile.Register || op.Kind == reconcile.Report) {
			lines = append(lines, bootlog.Line{Profile: op.Profile, PriorState: op.PriorState, Action: op.Action, Said: string(said[op.Profile])})
		}
	}
	store := v.volume.Store()
	return store.BootLog.Add(v.table.LogFrom(store.BootLog.Size), lines, v.volume.PriorExit())
}
