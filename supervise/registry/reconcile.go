package registry

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"rlminit/config"
	"rlminit/profiles"
	"rlminit/reconcile"
	"rlminit/service"
	"rlminit/supervise/handover"
)

// findings is what the volume and a configuration hold at one moment.
type findings struct {
	config *config.Config
	values map[string]service.Definition // by service
	atRest map[string]profiles.Profile   // by service: those that are not compiled
	prints map[string]string             // their fingerprints
	input  reconcile.Input
	later  bool // what runs is restarted by who asked
	boot   bool // state files that say something else than what counts are put right
}

// reconcile brings what is registered in line with the volume and the
// configuration. At boot that is told in container-boot.log. With names, of
// services or profiles, it is about these alone, and costs what these cost.
func (r *Registry) reconcile(boot bool, names ...string) error {
	list := r.list
	if len(names) > 0 {
		list = func(*config.Config) ([]profiles.Profile, error) {
			return r.volume.Store().List(profilesMeant(names)...)
		}
	}
	return r.reconcileAs(boot, list, names...)
}

// profilesMeant are the profiles that may be meant by names, of services or theirs.
func profilesMeant(names []string) []string {
	meant := slices.Clone(names)
	for _, name := range names {
		if profile, isGateway := strings.CutPrefix(name, service.GatewayPrefix); isGateway {
			meant = append(meant, profile)
		}
	}
	slices.Sort(meant)
	return slices.DeleteFunc(slices.Compact(meant), func(name string) bool {
		return name == "" || name[0] == '.' || strings.Contains(name, "/")
	})
}

// reconcileAs is reconcile with what list says is on the volume.
func (r *Registry) reconcileAs(boot bool, list lister, names ...string) error {
	found, err := r.survey(r.settings.Current(), list, looking{rest: len(names) == 0, names: names})
	if err != nil {
		return errors.Join(err, r.withoutProfiles())
	}
	if len(names) == 0 { // else there may be others of which nobody knows yet
		r.well()
	}
	found.boot = boot
	ops := about(names, reconcile.Diff(found.input))
	if boot {
		if err := r.logBoot(ops, found); err != nil {
			slog.Warn("cannot write container-boot.log", "err", err)
		}
	}
	r.carryOut(ops, found)
	if boot {
		r.forgetGone(found)
	}
	return nil
}

// withoutProfiles brings the services of the configuration in line where nobody
// knows which profiles there are: those run whatever the volume is like. Nothing
// that may be a profile's is touched.
func (r *Registry) withoutProfiles() error {
	cfg := r.settings.Current()
	found, err := r.survey(cfg, func(*config.Config) ([]profiles.Profile, error) { return nil, nil }, looking{})
	if err != nil {
		return err
	}
	r.carryOut(slices.DeleteFunc(reconcile.Diff(found.input), func(op reconcile.Op) bool {
		_, configured := cfg.Services[op.Service]
		return !configured
	}), found)
	return nil
}

// The profiles are looked at again this long after they could not be read, and
// then after twice the time each, up to the last.
const (
	againFirst = time.Second
	againLast  = 30 * time.Second
)

// lookAgain says that the profiles could not be read, and has it tried until they
// can: nobody else would tell.
func (r *Registry) lookAgain(err error) {
	why := err.Error()
	if before := r.trouble.Swap(&why); before == nil || *before != why {
		slog.Error("the profiles cannot be read; that is tried again until they can", "err", err)
	}
	if r.again > 0 {
		r.again = min(2*r.again, againLast)
	} else {
		r.again = againFirst
	}
	time.AfterFunc(r.again, func() {
		r.post(func() {
			if r.Trouble() != "" {
				r.takeUp()
			}
		})
	})
}

// well is told when the profiles could be read.
func (r *Registry) well() {
	if r.again = 0; r.trouble.Swap(nil) != nil {
		slog.Info("the profiles can be read now")
	}
}

// about leaves of the operations those on the names, of services or profiles;
// without names, all.
func about(names []string, ops []reconcile.Op) []reconcile.Op {
	if len(names) == 0 {
		return ops
	}
	return slices.DeleteFunc(ops, func(op reconcile.Op) bool { return !means(names, op.Service) })
}

// means tells whether a service, or its profile, is among names.
func means(names []string, service string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return name == service || profiles.GatewayName(name) == service
	})
}

// list reads the volume's profiles as the configuration in force has them.
func (r *Registry) list(*config.Config) ([]profiles.Profile, error) { return r.volume.Store().List() }

// preview reads them as another configuration would have them, which changes
// nothing.
func (r *Registry) preview(c *config.Config) ([]profiles.Profile, error) {
	return r.volume.Store().Preview(profiles.SettingsOf(c))
}

// looking is what is looked at, and how closely the profiles that may rest.
type looking struct {
	names  []string                    // of services or profiles; none: all
	rest   bool                        // those of which nobody has heard are left at rest
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
func (r *Registry) survey(cfg *config.Config, list lister, how looking) (*findings, error) {
	store := r.volume.Store()
	f := &findings{config: cfg, values: map[string]service.Definition{}, prints: map[string]string{}, atRest: map[string]profiles.Profile{}}
	f.input.Held = store == nil
	f.input.FoundState = service.Stopped
	for _, name := range slices.Sorted(maps.Keys(cfg.Services)) {
		if how.skips(name) {
			continue
		}
		record := service.Record{}
		if store != nil {
			var err error
			if record, err = store.LoadService(name); err != nil {
				slog.Warn("cannot read what is recorded of a service; enabled decides", "service", name, "err", err)
			}
		}
		d := cfg.Services[name]
		f.add(d)
		f.input.Services = append(f.input.Services, reconcile.Static{
			Service: name, Enabled: d.Enabled, Fingerprint: f.prints[name], Record: record,
		})
	}
	if store != nil && cfg.Gateway != nil {
		f.input.FoundState = service.Intent(cfg.Gateway.FoundState)
		found, err := list(cfg)
		if err != nil {
			return nil, fmt.Errorf("cannot list the profiles: %w", err)
		}
		for _, p := range found {
			if how.skips(p.Service()) {
				continue
			}
			if life := r.life(p.Service()); life == Deleting || life == Deleted || cfg.For(p.Service()).Gateway == nil {
				continue
			}
			entry := reconcile.Profile{Name: p.Name, Service: p.Service(), Record: p.Record, Unrecorded: p.Unrecorded}
			life := r.life(p.Service())
			rests := (life == Resting || life == Absent && how.rest) && mayRest(p, cfg, f.input.FoundState)
			if rests && (how.judged == nil || !how.judged(p)) {
				entry.Fingerprint = atRest
			} else if d, err := p.Definition(cfg); err != nil {
				entry.Fault = profiles.Reason(err)
			} else if entry.Fingerprint = atRest; !rests {
				f.add(d)
				entry.Fingerprint = f.prints[p.Service()]
			}
			if entry.Fingerprint == atRest {
				f.atRest[p.Service()] = p
				f.prints[p.Service()] = atRest
			}
			f.input.Profiles = append(f.input.Profiles, entry)
		}
	}
	alive := r.services.Alive()
	for name, e := range r.names {
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
	return f, nil
}

func (f *findings) add(d service.Definition) {
	f.values[d.Name] = d
	f.prints[d.Name] = fingerprint(service.Encode(d))
}

// carryOut does what a diff says. All that is to be started is known before the
// first of it is registered: what comes first by its name may be to wait for it.
func (r *Registry) carryOut(ops []reconcile.Op, f *findings) {
	r.record(ops, f)
	var starts []string
	for _, op := range ops {
		if op.Kind == reconcile.Register && op.Start {
			starts = append(starts, op.Service)
		}
	}
	first := slices.IndexFunc(ops, func(op reconcile.Op) bool { return op.Kind == reconcile.Register })
	if first < 0 {
		first = len(ops)
	}
	r.services.Announce(starts)
	defer r.services.Withdraw(starts)
	r.services.Together(func() {
		for _, op := range ops[:first] {
			r.carry(op, f)
		}
	})
	for _, op := range ops[first:] {
		r.carry(op, f)
	}
}

func (r *Registry) carry(op reconcile.Op, f *findings) {
	switch op.Kind {
	case reconcile.Unregister:
		r.drop(op.Service)
	case reconcile.Report:
		r.register(Proposal{Name: op.Service, Profile: op.Profile, Fault: op.Reason, Ours: true, Recorded: true})
	case reconcile.Update, reconcile.Register:
		if p, rests := f.atRest[op.Service]; rests && !op.Stale {
			r.rest(op)
			break
		} else if rests {
			r.register(r.proposal(p, desiredOf(op)))
			break
		}
		p := Ours(f.values[op.Service])
		p.Start, p.Desired, p.Cause, p.Later = op.Start, desiredOf(op), "boot", f.later
		r.register(p)
	}
	if op.Stale {
		r.services.Recorded(op.Service)
	}
}

// record saves what a diff says must outlive the container, and what is wanted of
// services of which the journal knows nothing yet.
func (r *Registry) record(ops []reconcile.Op, f *findings) {
	store := r.volume.Store()
	if store == nil {
		return
	}
	found := map[profiles.Subject]service.Intent{}
	var incomplete []profiles.Subject
	learn := func(of profiles.Subject, record service.Record) {
		if store.Unknown(of) && record.Origin == service.Recorded && record.Desired != service.IntentNone {
			found[of] = record.Desired
		}
		if record.Said != service.IntentNone && f.boot { // something else than what counts
			incomplete = append(incomplete, of)
		}
	}
	for _, p := range f.input.Profiles {
		learn(profiles.Gateway(p.Name), p.Record)
	}
	for _, s := range f.input.Services {
		learn(profiles.Static(s.Service), s.Record)
	}
	for _, op := range ops {
		if !op.Record {
			continue
		}
		of := profiles.SubjectOf(op.Service, op.Profile)
		incomplete = append(incomplete, of)
		if op.Intent != service.IntentNone {
			found[of] = op.Intent
		}
	}
	if len(found) == 0 && len(incomplete) == 0 {
		return
	}
	if err := store.TakeOver(found, incomplete); err != nil {
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
func (r *Registry) forgetGone(f *findings) {
	there := map[string]bool{}
	for _, p := range f.input.Profiles {
		there[p.Service] = true
	}
	for _, s := range f.input.Services {
		there[s.Service] = true
	}
	if store := r.volume.Store(); store != nil {
		store.Forget(there)
	}
}

// desiredOf is the intent that status shows for a service just registered.
func desiredOf(op reconcile.Op) service.Intent {
	switch {
	case op.Intent != service.IntentNone:
		return op.Intent
	case op.Start:
		return service.Running
	}
	return service.Stopped
}

// Boot is Start with TakeUp as the first thing, and all slots looked at after it.
func (r *Registry) Boot() {
	r.Start(func() {
		r.takeUp()
		r.rescan()
	})
}

// TakeUp registers what volume and configuration have. With the volume it does,
// in the order that a successor can go on with, what is to be done once a boot.
func (r *Registry) TakeUp() { r.ask(r.takeUp) }

func (r *Registry) takeUp() {
	first := r.volume.Store() != nil && !r.work.Done(handover.Registered)
	list := r.list
	if first && !r.work.Done(handover.Cleaned) {
		if found := r.Clean(); found != nil {
			list = func(*config.Config) ([]profiles.Profile, error) { return found, nil }
		}
	}
	if err := r.reconcileAs(first, list); err != nil {
		r.lookAgain(err)
		return
	}
	if first {
		r.work.Finish(handover.Registered)
	}
}

// Clean is the first step of a boot: it removes from the profiles what must not
// outlive one, and returns what there is then, if that is known.
func (r *Registry) Clean() []profiles.Profile {
	list, err := r.volume.Store().List()
	if err != nil {
		return nil // which is said by who registers them, and tried again
	}
	changed := r.volume.Store().PrepareBoot(list)
	r.work.Finish(handover.Cleaned)
	if changed {
		return nil
	}
	return list
}

// Tell is the second: it writes container-boot.log.
func (r *Registry) Tell() error {
	found, err := r.survey(r.settings.Current(), r.list, looking{rest: true})
	if err != nil {
		return err
	}
	return r.logBoot(reconcile.Diff(found.input), found)
}

// logBoot writes container-boot.log for what a boot registers, before it does:
// a successor that finishes the boot no longer sees what is registered.
func (r *Registry) logBoot(ops []reconcile.Op, f *findings) error {
	said := map[string]service.Intent{}
	for _, p := range f.input.Profiles {
		said[p.Name] = p.Record.Said
	}
	var lines []profiles.Booted
	for _, op := range ops {
		if op.Profile != "" && (op.Kind == reconcile.Register || op.Kind == reconcile.Report) {
			lines = append(lines, profiles.Booted{Profile: op.Profile, PriorState: op.PriorState, Action: op.Action, Said: string(said[op.Profile])})
		}
	}
	store := r.volume.Store()
	return store.LogBoot(r.work.LogFrom(store.BootLogSize), lines, r.volume.PriorExit())
}
