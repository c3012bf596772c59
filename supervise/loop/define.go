package loop

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/supervise/open"
	"rlminit/supervise/order"
	"rlminit/supervise/registry"
	"rlminit/supervise/serve"
	"rlminit/supervise/spawn"
)

// Services is what makes units of definitions, changes them and lets them go. Its
// exported methods are those of registry.Services that change something.
type Services struct {
	loop     *mailbox
	tier1    *spawn.Tier1
	prep     *preparer
	fleet    *fleet
	records  *Records
	registry *registry.Registry
	opened   *open.Driver
	logging  *logging
	jobs     *jobRunner
	purpose  Purpose
	commands *Commands
}

// Define takes proposals into force: new units, and updates.
func (v *Services) Define(proposals []registry.Proposal) {
	v.loop.ask(func() { v.define(proposals, func(*unit) {}) })
}

// define is Define for the loop. made is called with each new unit.
func (v *Services) define(proposals []registry.Proposal, made func(*unit)) {
	v.fleet.apply(core.Input{Kind: core.Hold})
	var units []*unit
	var refused []registry.Proposal
	for _, p := range proposals {
		u := v.fleet.units[p.Name]
		if u == nil {
			u = v.newUnit(p)
			made(u)
			if p.Fault != "" {
				refused = append(refused, p)
			}
		} else {
			v.redefine(u, p)
		}
		u.kept.fresh = false
		units = append(units, u)
	}
	tellRefused(refused)
	v.fleet.apply(core.Input{Kind: core.Release})
	// Not before: a successor would take one that was yet to be started for stopped.
	for _, u := range units {
		v.records.judge(u)
		if !u.kept.fresh {
			v.records.keepState(u)
		}
	}
}

// tellRefused says which new services cannot be run. A fault of the files of many,
// as on a volume that was restored without its owners, is said once for all of them.
func tellRefused(refused []registry.Proposal) {
	alike := map[string][]registry.Proposal{}
	for _, p := range refused {
		if p.Denied == "" {
			slog.Error("a service cannot be run", "service", p.Name, "err", p.Fault)
		} else {
			alike[p.Denied] = append(alike[p.Denied], p)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(alike)) {
		if all := alike[why]; len(all) == 1 {
			slog.Error("a service cannot be run", "service", all[0].Name, "err", all[0].Fault)
		} else {
			slog.Error("services cannot be run: the files of their profiles are another user's; rlminit doctor has what mends all", "services", len(all), "such_as", all[0].Name, "err", all[0].Fault)
		}
	}
}

// Published has the status of services written, which have slots now.
func (v *Services) Published(names []string) {
	v.loop.ask(func() {
		for _, name := range names {
			if u := v.fleet.units[name]; u != nil {
				u.kept.slot = true
				v.records.publishStatus(u)
			}
		}
	})
}

// newUnit registers a service that is stopped, and starts it if that is wanted. The
// caller holds decisions back.
func (v *Services) newUnit(p registry.Proposal) *unit {
	// What the container is for is started once a boot, whatever is recorded of it.
	purposed := v.purpose.isFor(p.Name) && !v.records.memory.Done(handover.Fulfilled)
	wants := core.Wants{Desired: cmp.Or(p.Desired, intentOf(p.Start))}
	if purposed {
		wants.Desired = service.Running
	}
	wants.Owed = p.Fault != "" && (p.Start || purposed)
	u := v.bare(p, nil, wants)
	_ = u.allotTag(v.tier1.Tags) // without one it is tried again at each start
	v.holdAddress(u)
	if p.Fault == "" && (p.Start || purposed) && !v.fleet.set.Stopping() {
		v.fleet.start(u, machine.Event{Cause: p.Cause, Actor: p.Actor})
	} else {
		v.fleet.apply(core.Input{Kind: core.Revoke, Nodes: nodesOf([]*unit{u})}) // it may have been announced
	}
	return u
}

// bare makes a unit from a proposal, without a process, in the state that a predecessor
// left it in, if there is one.
func (v *Services) bare(p registry.Proposal, state *machine.State, wants core.Wants) *unit {
	u := &unit{
		name: p.Name, fingerprint: p.Fingerprint, ours: p.Ours, recorded: p.Recorded, fault: p.Fault,
		process: launched{launch: &spawn.Launch{}},
	}
	u.definition = service.Default(p.Name)
	u.definition.Profile, u.definition.Kind = p.Profile, p.Kind
	if p.Fault == "" {
		u.definition = p.Value
	}
	u.starts = service.StartOf(u.definition)
	_, u.shadowed = v.prep.Config().Services[u.definition.Profile]
	u.process.uid, _ = v.prep.RecordedUser(u.definition)
	v.fleet.add(u, state, wants)
	v.logging.sendOn(u)
	v.jobs.reschedule(u)
	return u
}

// redefine brings a changed definition into force, and restarts what runs if it
// cannot follow.
func (v *Services) redefine(u *unit, p registry.Proposal) {
	u.ours = p.Ours
	v.fleet.levelled(u)
	_, u.shadowed = v.prep.Config().Services[u.definition.Profile]
	u.recorded = u.recorded || p.Recorded
	if p.Fault != "" {
		if u.fault != p.Fault {
			slog.Error("a changed definition is refused; the one before stays in force", "service", u.name, "err", p.Fault)
		}
		u.fault = p.Fault
		v.fleet.redefine(u)
		return
	}
	wasBroken := u.fault != ""
	u.fault = ""
	if u.fingerprint == p.Fingerprint && !wasBroken {
		if why := u.older(); why != "" && !p.Later { // who has changed it was cut off before the restart
			v.update([]*unit{u}, machine.Event{Kind: machine.Update, NeedsRestart: true, Cause: "definition changed: " + why, Actor: p.Actor})
		}
		return
	}
	restart, why := service.NeedsRestart(u.definition, p.Value)
	if !restart {
		why = ""
	}
	wasOlder := u.older() != ""
	v.jobs.reschedule(u)
	u.definition, u.starts = p.Value, service.StartOf(p.Value)
	v.jobs.reschedule(u)
	v.opened.Keep(u.life.Node(), p.Value.Sockets)
	v.holdAddress(u)
	v.logging.sendOn(u)
	if u.output.slot != nil {
		v.logging.reconfigureLog(u)
	}
	v.fleet.redefine(u)
	if p.Later && u.older() != "" && !wasOlder {
		v.records.outdated(u)
	}
	if u.active() {
		why = u.older() // what the process was started with counts, not the definition before
		restart = why != ""
	}
	u.fingerprint = p.Fingerprint // not before: a successor tells by it whether the machine knows
	v.update([]*unit{u}, machine.Event{
		Kind: machine.Update, NeedsRestart: restart && !p.Later, Cause: strings.TrimSuffix("definition changed: "+why, ": "), Actor: p.Actor,
	})
	if wasBroken && (p.Start || u.life.Wants().Owed) && !v.fleet.set.Stopping() {
		v.fleet.want(u, service.Running)
		v.fleet.start(u, machine.Event{Cause: "its definition was mended"})
	}
}

// update tells the machines of units that their definitions are others. What runs, and
// is to be restarted for that, is so in its turn.
func (v *Services) update(units []*unit, e machine.Event) {
	var restarts []*unit
	for _, u := range units {
		now := e
		switch {
		case u.life.Turn().Stops(): // what runs ends anyway
			now.NeedsRestart = false
		case e.NeedsRestart && u.active() && u.state.Want == machine.WantUp && !u.state.Removed:
			restarts = append(restarts, u)
			continue
		}
		v.fleet.apply(core.Input{Kind: core.Happened, Node: u.life.Node(), Event: now})
	}
	if len(restarts) > 0 {
		v.fleet.command(order.Restart, restarts, e)
	}
}

// Remove stops a service for good. Of one that is forgotten nothing is recorded
// any more.
func (v *Services) Remove(name, cause string, actor *uint32, forgotten bool) {
	v.loop.ask(func() {
		u := v.fleet.units[name]
		if u == nil {
			v.registry.Gone(name, nil)
			return
		}
		if u.forgotten = forgotten; forgotten {
			u.output.parting = cause
		}
		v.fleet.command(order.Remove, []*unit{u}, machine.Event{Kind: machine.Remove, Cause: cause, Actor: actor})
	})
}

// Renew has what runs make way for what the proposal says: its directory was
// removed by hand, and it belongs to the one before.
func (v *Services) Renew(p registry.Proposal) {
	v.loop.ask(func() {
		u := v.fleet.units[p.Name]
		if u == nil {
			return
		}
		v.fleet.want(u, p.Desired)
		e, turn := machine.Event{Kind: machine.Stop, Cause: p.Cause, Actor: p.Actor}, order.Stop
		if p.Start {
			e.Kind, turn = machine.Restart, order.Restart
		}
		v.fleet.command(turn, []*unit{u}, e)
	})
}

// Want has a service wanted, whatever is recorded of it.
func (v *Services) Want(is *serve.View) {
	v.loop.ask(func() {
		v.fleet.apply(core.Input{Kind: core.Want, Node: is.Life.Node(), Wants: core.Wants{Desired: service.Running}})
	})
}

// forget lets go of a unit that is gone, and of all that was kept for it.
func (v *Services) forget(u *unit) {
	v.jobs.reschedule(u)
	v.tier1.Tags.Free(u.tag)
	v.logging.part(u)
	if v.logging.forward != nil {
		v.logging.forward.Leave(u.name)
	}
	v.registry.Gone(u.name, v.prep.DropTemporary(u.definition, v.logging.closeLog(u)))
}

func intentOf(start bool) service.Intent {
	if start {
		return service.Running
	}
	return service.Stopped
}

// Vacated tells that nothing is left of a service, its slot included: a successor
// need not know of it.
func (v *Services) Vacated(name string) {
	v.loop.read(func() {
		if v.fleet.units[name] == nil {
			v.records.memory.Forget(name)
		}
	})
}

// Announce has names waited for that are yet to be registered, and will be started
// then; Withdraw takes that back from those that were not.
func (v *Services) Announce(names []string) {
	v.commands.Tell(core.Input{Kind: core.Announce, Names: names})
}

// Withdraw is for what was announced, whatever became of it.
func (v *Services) Withdraw(names []string) {
	v.loop.ask(func() { v.fleet.apply(core.Input{Kind: core.Unannounce, Names: names}) })
}

// Together has what f tells taken for one thing: nothing is decided before its
// end. f runs beside the loop.
func (v *Services) Together(f func()) {
	v.commands.Tell(core.Input{Kind: core.Hold})
	f()
	v.loop.ask(func() { v.fleet.apply(core.Input{Kind: core.Release}) })
}
