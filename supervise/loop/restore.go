package loop

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"

	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
	"rlminit/supervise/registry"
	"rlminit/supervise/remember"
	"rlminit/supervise/spawn"
	"rlminit/wire"
)

// takeover takes over what a predecessor left. Invariant: until it is restored no
// message of tier 1 about a process is heard, for no unit knows its own yet.
type takeover struct {
	*Services // which are made anew

	spawner  *spawn.Driver
	shutdown *shutdown
	hear     func(wire.Message, []int)
	atOnce   int // how many units are given their processes in one turn of the loop

	restored bool           // what a predecessor left was taken over
	early    []wire.Message // came before that
}

// TakeOver takes over what a predecessor left, with what was under way. Nothing that tier 1
// says of a process is heard before. It runs beside the loop, as recall and takeOver do.
func (l *Loop) TakeOver() { l.takeover.takeOver(l.takeover.recall()) }

// recall makes anew the units of the services that a predecessor knew of, and returns
// those whose definitions are not the ones that were in force. Nothing is restarted for it.
// What else is in the service directory, the registry sees to.
func (c *takeover) recall() (outdated []*unit) {
	c.loop.ask(func() {
		c.fleet.apply(core.Input{Kind: core.Hold}) // until all are adopted
		c.tier1.Claim()
	})
	all := c.records.memory.Services()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if u := c.restoreService(name, all[name]); u != nil {
			outdated = append(outdated, u)
		}
	}
	return outdated
}

// takeOver gives the units their processes, a few at a time, for PID 1 is answered between
// them, and goes on with what was under way. None is told of another before all know what
// is true: it would start on the strength of what was.
func (c *takeover) takeOver(outdated []*unit) {
	var all []*unit
	c.loop.ask(func() { all = c.fleet.all() })
	for some := range slices.Chunk(all, c.atOnce) {
		c.loop.ask(func() {
			for _, u := range some {
				c.adopt(u)
			}
		})
	}
	c.loop.ask(func() {
		c.fleet.apply(core.Input{Kind: core.Release})
		c.stopOverdue()
		for _, children := range c.tier1.Children {
			for _, child := range children {
				c.tier1.Dismiss(child)
			}
		}
		c.catchUp()
		c.bringUpToDate(outdated)
		c.fleet.apply(core.Input{Kind: core.Resume})
		if c.shutdown.awaited != 0 {
			c.shutdown.begin()
		}
	})
}

// restoreService makes the unit of a service anew, in the state that it was in,
// and returns it if its definition is not the one that was in force.
func (c *takeover) restoreService(name string, was remember.Service) (outdated *unit) {
	p := c.registry.Recall(name, was.Profile, was.Recorded)
	p.Kind = was.Kind
	p.Desired = was.Desired
	recorded := c.recordedIntent(name, was.Profile, was.Recorded && !was.Commanded)
	leaving := false
	c.loop.ask(func() {
		u := c.takeBack(p, was, recorded)
		u.kept.commanded = was.Commanded
		// Who was yet to be started is started: that is recorded.
		u.kept.changed = u.kept.changed || was.Before != service.IntentNone
		leaving = u.state.Removed
		if p.Fault == "" && len(was.Definition) > 0 && p.Fingerprint != string(was.Definition) {
			outdated = u
		}
	})
	c.registry.Restored(name, leaving)
	return outdated
}

// bringUpToDate tells of definitions that were replaced when nobody was there to take
// them up, or just before. That restarts nobody, as no change while there was no supervisor
// does: nobody knows here whether a restart was asked for, and the service is outdated. What
// is to be stopped, and what is gone, is left alone.
func (c *takeover) bringUpToDate(outdated []*unit) {
	for _, u := range slices.DeleteFunc(outdated, func(u *unit) bool { return u.state.Removed }) {
		unknown := u.kept.started.Run != u.state.ID
		c.update([]*unit{u}, machine.Event{
			Kind: machine.Update, NeedsRestart: unknown, Cause: "its definition changed while the supervisor was replaced",
		})
	}
}

// takeBack makes a unit in the state that it was in. The volume may know better
// what is wanted.
func (c *takeover) takeBack(p registry.Proposal, was remember.Service, recorded service.Intent) *unit {
	u := c.bare(p, &was.Machine, core.Wants{Desired: p.Desired, Owed: was.Owed})
	u.kept.slot, u.kept.told, u.kept.started = true, was.Told, was.Started
	if recorded != service.IntentNone && recorded != u.desired() && !c.purpose.isFor(p.Name) && !u.onlyScheduled() {
		// It was made durable, and maybe acknowledged, just before our
		// predecessor ended, and it had no time to keep it.
		u.kept.changed = true
		c.fleet.apply(core.Input{Kind: core.Want, Node: u.life.Node(), Wants: core.Wants{Desired: recorded, Owed: was.Owed}})
	}
	u.forgotten = u.state.Removed // its directory may be on its way out
	_ = u.allotTag(c.tier1.Tags)
	return u
}

// recordedIntent is what the volume says is wanted of a service; IntentNone: nothing.
func (c *takeover) recordedIntent(name, profile string, recorded bool) service.Intent {
	store := c.prep.Volume.Store()
	if store == nil || !recorded {
		return service.IntentNone
	}
	if profile == "" {
		return store.Records.LoadService(name).Desired
	}
	p, err := store.Load(profile)
	if err != nil {
		return service.IntentNone
	}
	return p.Record.Desired
}

// adopt brings a unit's state in line with what tier 1 knows of its processes.
// The newest child counts: an older one ended before it was spawned, and the state
// knows of that.
func (c *takeover) adopt(u *unit) {
	children := c.tier1.Children[u.name]
	delete(c.tier1.Children, u.name)
	slices.SortFunc(children, func(a, b wire.Child) int { return cmp.Compare(a.ID, b.ID) })
	event := machine.Event{Kind: machine.Adopt, Child: machine.ChildNone}
	if len(children) > 0 {
		newest := children[len(children)-1]
		for _, older := range children[:len(children)-1] {
			c.tier1.Dismiss(older)
		}
		go func(d *service.Definition) {
			secrets := c.prep.Secrets(d)
			c.loop.do(func() { u.process.secrets.Store(&secrets) })
		}(u.definition)
		event = c.childEvent(u, newest)
	}
	if len(children) > 0 || len(c.tier1.Held[logKey(u.name)]) > 0 {
		if err := c.logging.openLog(u, c.tier1.Hold); err != nil {
			slog.Error("the log of a service is lost", "service", u.name, "err", err)
		}
	}
	if u.desired() == service.IntentNone { // nothing was kept of it yet
		c.fleet.want(u, intentOf(u.state.Want == machine.WantUp))
	}
	if u.kept.changed && u.desired() == service.Running {
		event.SetWant, event.Want = true, machine.WantUp
	}
	u.kept.changed = false
	if err := c.opened.Adopt(u.life.Node(), c.prep.opens(u, u.state.ID), c.tier1.Held, len(children) > 0); err != nil {
		slog.Error("notifications of a service are lost", "service", u.name, "err", err)
	}
	c.fleet.apply(core.Input{Kind: core.Happened, Node: u.life.Node(), Event: event})
	c.records.keepState(u)
	c.records.recordSeen(u)    // our predecessor may have had no time for it
	c.records.publishStatus(u) // likewise
	if event.Child == machine.ChildPending || event.Child == machine.ChildAlive {
		_, user := c.prep.RecordedUser(u.definition)
		u.process.launch = c.spawner.Adopt(c.prep.starts(u), user, event.ID)
		if newest := children[len(children)-1]; newest.State == wire.ChildFailed {
			c.spawner.Hear(&wire.SpawnFailed{ID: newest.ID, Step: newest.Step, Errno: newest.Errno, Reason: newest.Reason})
		}
	}
}

// stopOverdue stops, in order, what was to be stopped when our predecessor
// ended, and waited for what requires it.
func (c *takeover) stopOverdue() {
	var overdue []*unit
	for _, u := range c.fleet.all() {
		if u.desired() == service.Stopped && u.state.Want == machine.WantUp {
			overdue = append(overdue, u)
		}
	}
	if len(overdue) > 0 && !c.fleet.set.Stopping() {
		nodes := nodesOf(overdue)
		c.fleet.apply(core.Input{
			Kind: core.Give, Turn: order.Stop, Nodes: nodes, Along: c.fleet.set.StopAlong(order.Stop, nodes),
			Event: machine.Event{Kind: machine.Stop, Cause: "was to be stopped when the supervisor was replaced"},
		})
	}
}

// childEvent is what tier 1 knows of a child, as the machine takes it.
func (c *takeover) childEvent(u *unit, child wire.Child) machine.Event {
	event := machine.Event{Kind: machine.Adopt}
	switch child.State {
	case wire.ChildPending, wire.ChildFailed:
		event.Child = machine.ChildPending
	case wire.ChildAlive:
		event.Child = machine.ChildAlive
	case wire.ChildExited:
		event = c.spawner.Exit(machine.Adopt, child.Exit, u.definition.Limits.Memory)
		event.Child = machine.ChildExited
	}
	event.ID, event.PID, event.StartTime = child.ID, int(child.PID), child.StartTime
	event.StartedAt, event.Lease.At = int64(child.StartTime)*wire.Tick, child.Deadline
	return event
}

// catchUp hears what tier 1 has said since its snapshot, now that every unit
// knows its processes: an exit that nobody knows of would be acknowledged, and
// its service be taken for alive.
func (c *takeover) catchUp() {
	c.restored = true
	early := c.early
	c.early = nil
	for _, m := range early {
		c.hear(m, nil)
	}
}

// Starting is how many services are on the way to their processes.
func (l *Loop) Starting() (now int) {
	l.read(func() {
		for _, u := range l.fleet.units {
			if u.state.Phase == machine.Spawning {
				now++
			}
		}
	})
	return now
}

// Booted tells that all which the boot found is known, and lets go of what a predecessor
// held and nobody claimed. It returns how many services there are.
func (l *Loop) Booted() (services int) {
	l.ask(func() {
		l.apply(core.Input{Kind: core.Booted})
		l.Records.judgeAll()
		l.tier1.Tags.FreeRest()
		services = len(l.fleet.units)
		for key, fds := range l.tier1.Held {
			wire.CloseAll(fds)
			l.tier1.Send(&wire.Release{Key: key}, nil, nil)
		}
		clear(l.tier1.Held)
		l.logging.logs.Settled()
	})
	return services
}
