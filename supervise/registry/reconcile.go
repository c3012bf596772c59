package registry

import (
	"errors"
	"log/slog"
	"slices"
	"strings"

	"rlminit/config"
	"rlminit/profiles"
	"rlminit/reconcile"
	"rlminit/service"
	"rlminit/supervise/handover"
)

// reconcile brings registered services in line with the volume and the
// configuration. At boot that is told in container-boot.log. With names, of
// services or profiles, it is about these alone, at their cost.
func (r *Registry) reconcile(boot bool, names ...string) error {
	list := r.surveyor.list
	if len(names) > 0 {
		list = func(*config.Config) ([]profiles.Profile, error) {
			return r.volume.Store().List(profilesMeant(names)...)
		}
	}
	return r.reconcileAs(boot, false, list, names...)
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

// reconcileAs is reconcile with what list says is on the volume; taking: it is the first
// that this supervisor does.
func (r *Registry) reconcileAs(boot, taking bool, list lister, names ...string) error {
	found, err := r.surveyor.survey(r.settings.Current(), list, looking{rest: len(names) == 0, names: names})
	if err != nil {
		return errors.Join(err, r.withoutProfiles())
	}
	if found.unread != nil {
		r.trouble.lookAgain(found.unread)
	} else if len(names) == 0 { // else there may be others, unknown yet
		r.trouble.well()
	}
	found.boot, found.input.Taken = boot, boot
	// A change while there was no supervisor is no reason to restart anything: its author
	// asks for that.
	found.later = taking && !boot
	ops := about(names, reconcile.Diff(found.input))
	if boot {
		if err := r.surveyor.logBoot(ops, found); err != nil {
			slog.Warn("cannot write container-boot.log", "err", err)
		}
	}
	r.carryOut(ops, found)
	if boot {
		r.surveyor.forgetGone(found)
	}
	return nil
}

// withoutProfiles brings the services of the configuration in line where nobody
// knows which profiles there are: those run whatever the volume is like. Nothing
// that may be a profile's is touched.
func (r *Registry) withoutProfiles() error {
	cfg := r.settings.Current()
	found, err := r.surveyor.survey(cfg, func(*config.Config) ([]profiles.Profile, error) { return nil, nil }, looking{static: true})
	if err != nil {
		return err
	}
	r.carryOut(slices.DeleteFunc(reconcile.Diff(found.input), func(op reconcile.Op) bool {
		_, configured := cfg.Services[op.Service]
		return !configured
	}), found)
	return nil
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

// carryOut executes a diff. All starts are known before the
// first of it is registered: what comes first by its name may be to wait for it.
func (r *Registry) carryOut(ops []reconcile.Op, f *findings) {
	r.surveyor.record(ops, f)
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
	var inForce []Proposal
	r.services.Together(func() { inForce = r.carry(ops[:first], f) })
	inForce = append(inForce, r.carry(ops[first:], f)...)
	r.publisher.publish(inForce)
	for _, op := range ops {
		if op.Stale {
			r.services.Recorded(op.Service)
		}
	}
	var follow []string
	for _, op := range ops {
		if op.Kind == reconcile.Intend {
			follow = append(follow, op.Service)
		}
	}
	if len(follow) > 0 {
		r.services.Follow(follow)
	}
}

// carry executes some of them, and returns definitions that are in force by that and yet to be
// published.
func (r *Registry) carry(ops []reconcile.Op, f *findings) []Proposal {
	var proposals []Proposal
	for _, op := range ops {
		p, rests := f.atRest[op.Service]
		switch {
		case op.Kind == reconcile.Unregister:
			r.drop(op.Service)
		case op.Kind == reconcile.Report:
			proposals = append(proposals, Proposal{Name: op.Service, Profile: op.Profile, Kind: f.kinds[op.Service], Fault: op.Reason, Denied: f.denied[op.Service], Ours: true, Recorded: true, Start: op.Start, Desired: desiredOf(op)})
		case op.Kind != reconcile.Update && op.Kind != reconcile.Register:
		case rests && !op.Stale:
			r.AtRest.rest(op)
		case rests:
			proposals = append(proposals, r.AtRest.proposal(p, desiredOf(op)))
		default:
			p := f.values[op.Service]
			p.Start, p.Desired, p.Cause, p.Later = op.Start, desiredOf(op), "boot", f.later
			proposals = append(proposals, p)
		}
	}
	return r.define(proposals)
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

// Boot is Start with TakeUp as the first thing, and all slots looked at after it. What it
// brings into force is published by Settle.
func (r *Registry) Boot() {
	r.Start(func() {
		r.publisher.holds = true
		r.takeUp()
		r.rescan()
	})
}

// TakeUp registers what volume and configuration have. With the volume it does,
// in the order that a successor can go on with, what is to be done once a boot.
func (r *Registry) TakeUp() { r.queue.Ask(r.takeUp) }

func (r *Registry) takeUp() {
	first := r.volume.Store() != nil && !r.table.Done(handover.Registered)
	list := r.surveyor.list
	if first && !r.table.Done(handover.Cleaned) {
		if found := r.Clean(); found != nil {
			list = func(*config.Config) ([]profiles.Profile, error) { return found, nil }
		}
	}
	if err := r.reconcileAs(first, true, list); err != nil {
		r.trouble.lookAgain(err)
		return
	}
	if first {
		r.table.Finish(handover.Registered)
	}
}

// Clean is the first step of a boot: it removes from the profiles what must not
// outlive one, and returns what there is then, if that is known.
func (r *Registry) Clean() []profiles.Profile {
	list, err := r.volume.Store().List()
	if err != nil {
		return nil // their registration says so, and it is tried again
	}
	changed := r.volume.Store().PrepareBoot(list)
	r.table.Finish(handover.Cleaned)
	if changed {
		return nil
	}
	return list
}

// Tell is the second: it writes container-boot.log.
func (r *Registry) Tell() error {
	found, err := r.surveyor.survey(r.settings.Current(), r.surveyor.list, looking{rest: true})
	if err != nil {
		return err
	}
	return r.surveyor.logBoot(reconcile.Diff(found.input), found)
}
