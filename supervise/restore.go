package supervise

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"

	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
	"rlminit/supervise/registry"
	"rlminit/wire"
)

// restore takes over what a predecessor left: the services that it knew of, with
// their states, and the children in tier 1's table. Nothing is restarted for it.
// What else is in the service directory, the registry sees to.
func (s *Supervisor) restore() {
	s.ask(s.claimed)
	var outdated []*unit
	all := s.records.recalled()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if u := s.restoreService(name, all[name]); u != nil {
			outdated = append(outdated, u)
		}
	}
	s.ask(func() {
		s.adoptAll()
		for name, children := range s.children {
			for _, child := range children {
				s.dismiss(name, child)
			}
		}
		s.catchUp()
		s.bringUpToDate(outdated)
		s.commands.resumeOperations()
		if s.awaited != 0 {
			s.beginShutdown()
		}
	})
}

// restoreService makes the unit of a service anew, in the state that it was in,
// and returns it if its definition is not the one that was in force.
func (s *Supervisor) restoreService(name string, was memory) (outdated *unit) {
	held := s.held.Take(registry.UnpublishedKey(name))
	p := s.registry.Recall(name, was.Profile, was.Recorded, held)
	p.Desired = was.Desired
	recorded := s.recordedIntent(name, was.Profile, was.Recorded)
	leaving := false
	s.ask(func() {
		u := s.takeBack(p, was.Machine, recorded)
		if was.Outdated != nil {
			u.outdated = *was.Outdated
		}
		leaving = u.state.Removed
		if p.Fault == "" && len(was.Definition) > 0 && p.Fingerprint != string(was.Definition) {
			outdated = u
		}
	})
	s.registry.Restored(name, leaving)
	return outdated
}

// bringUpToDate restarts what runs with a definition that was replaced when nobody
// was there to take it up, or just before.
func (s *Supervisor) bringUpToDate(outdated []*unit) {
	update := machine.Event{Kind: machine.Update, NeedsRestart: true, Cause: "its definition changed while the supervisor was replaced"}
	outdated = slices.DeleteFunc(outdated, func(u *unit) bool {
		return !u.active() || u.state.Want != machine.WantUp || u.state.Removed
	})
	if len(outdated) > 0 {
		s.command(order.Restart, outdated, nil, func(*unit) machine.Event { return update })
	}
}

// takeBack makes a unit in the state that it was in. The volume may know better
// what is wanted.
func (s *Supervisor) takeBack(p registry.Proposal, state machine.State, recorded service.Intent) *unit {
	u := s.services.bare(p)
	if recorded != service.IntentNone && recorded != u.desired && !s.purpose.isFor(p.Name) {
		// It was made durable, and maybe acknowledged, just before our
		// predecessor ended, and it had no time to keep it.
		u.desired, u.changed = recorded, true
	}
	u.state = state
	u.forgotten = u.state.Removed // its directory may be on its way out
	_ = s.launcher.allotTag(u)
	return u
}

// recordedIntent is what the volume says is wanted of a service; IntentNone: nothing.
func (s *Supervisor) recordedIntent(name, profile string, recorded bool) service.Intent {
	store := s.volume.Store()
	if store == nil || !recorded {
		return service.IntentNone
	}
	if profile == "" {
		record, err := store.LoadService(name)
		if err != nil {
			return service.IntentNone
		}
		return record.Desired
	}
	p, err := store.Load(profile)
	if err != nil {
		return service.IntentNone
	}
	return p.Record.Desired
}

// adopt brings a unit's state in line with what tier 1 knows of its processes.
// The newest child counts: an older one ended before it was spawned, and the
// state that went along with the newest knows of that.
func (s *Supervisor) adopt(u *unit) {
	children := s.children[u.name]
	delete(s.children, u.name)
	slices.SortFunc(children, func(a, b wire.Child) int { return cmp.Compare(a.ID, b.ID) })
	event := machine.Event{Kind: machine.Adopt, Child: machine.ChildNone}
	if len(children) > 0 {
		newest := children[len(children)-1]
		for _, older := range children[:len(children)-1] {
			s.dismiss(u.name, older)
		}
		var at memory
		if json.Unmarshal(newest.Label, &at) == nil && at.Machine.LastID > u.state.LastID {
			u.state = at.Machine
		}
		s.byID[newest.ID] = u
		go func(d service.Definition) {
			secrets := s.secrets(d)
			s.do(func() { u.secrets = secrets })
		}(u.definition)
		event = childEvent(newest)
		if newest.State == wire.ChildExited {
			s.launcher.memoryOf(u, newest.Exit, &event)
		}
		if _, err := s.descriptors.openNotify(u, false); err != nil {
			slog.Error("notifications of a service are lost", "service", u.name, "err", err)
		}
	}
	if len(children) > 0 || len(s.held[logKey(u.name)]) > 0 {
		if err := s.openLog(u); err != nil {
			slog.Error("the log of a service is lost", "service", u.name, "err", err)
		}
	}
	if u.desired == service.IntentNone { // nothing was kept of it yet
		u.desired = intentOf(u.state.Want == machine.WantUp)
	}
	u.seen = u.state.Public()
	if active(u.state) {
		s.active++
	}
	if u.changed && u.desired == service.Running {
		event.SetWant, event.Want = true, machine.WantUp
	}
	u.changed = false
	s.descriptors.readoptSockets(u)
	u.open.stored.Restore(u.name, s.held)
	s.step(u, event)
	s.records.keepState(u)
	if len(children) > 0 {
		if c := children[len(children)-1]; c.State == wire.ChildFailed {
			s.launcher.spawnFailed(&wire.SpawnFailed{ID: c.ID, Step: c.Step, Errno: c.Errno, Reason: c.Reason})
		}
	}
}

// adoptAll adopts every unit. None is told of another before all know what is
// true: it would start on the strength of what was.
func (s *Supervisor) adoptAll() {
	s.order.held++
	for _, u := range s.all() {
		s.adopt(u)
	}
	s.order.held--
	s.follow()
	for _, u := range s.all() { // what a predecessor told them may be true no more
		s.hold(u, s.order.set.Told(u.node))
	}
	s.stopOverdue()
}

// stopOverdue stops, in order, what was to be stopped when our predecessor
// ended, and waited for what requires it.
func (s *Supervisor) stopOverdue() {
	var overdue []*unit
	for _, u := range s.all() {
		if u.desired == service.Stopped && u.state.Want == machine.WantUp {
			overdue = append(overdue, u)
		}
	}
	s.stopUnits(overdue, machine.Event{Cause: "was to be stopped when the supervisor was replaced"})
}

// childEvent is what tier 1 knows of a child, as the machine takes it.
func childEvent(c wire.Child) machine.Event {
	event := machine.Event{Kind: machine.Adopt}
	switch c.State {
	case wire.ChildPending, wire.ChildFailed:
		event.Child = machine.ChildPending
	case wire.ChildAlive:
		event.Child = machine.ChildAlive
	case wire.ChildExited:
		event = exitEvent(machine.Adopt, c.Exit)
		event.Child = machine.ChildExited
	}
	event.ID, event.PID, event.StartTime = c.ID, int(c.PID), c.StartTime
	event.StartedAt = ticks(c.StartTime)
	return event
}

// ticks turns a process's start time, in clock ticks since boot, into the boot
// clock's nanoseconds. USER_HZ is 100 on every architecture that Go knows.
func ticks(start uint64) int64 { return int64(start) * 10_000_000 }
