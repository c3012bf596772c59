package supervise

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"

	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/registry"
	"rlminit/wire"
)

// restore takes over what a predecessor left: the slots with the states it
// published, and the children in tier 1's table. Nothing is restarted for it.
func (s *Supervisor) restore() {
	s.ask(s.claimed)
	names, err := s.registry.Slots()
	if err != nil {
		slog.Error("cannot look for services", "err", err)
		names = slices.Collect(maps.Keys(s.children)) // what went along with their spawns is known of these
	}
	for _, name := range names {
		s.restoreSlot(name)
	}
	s.ask(func() {
		s.adoptAll()
		for name, children := range s.children {
			for _, child := range children {
				s.dismiss(name, child)
			}
		}
		s.catchUp()
		s.resumeOperations()
		if s.awaited != 0 {
			s.beginShutdown()
		}
	})
}

// restoreSlot makes the unit of a slot anew, in the state that was published
// last.
func (s *Supervisor) restoreSlot(name string) {
	was, ok := s.recall(name)
	if !ok && len(s.children[name]) == 0 {
		return // it never got as far as a state: the registry sees to it
	}
	profile := ""
	if was.Profile != nil {
		profile = *was.Profile
	}
	p := s.registry.Recall(name, profile, was.Recorded)
	p.Desired = service.Intent(was.Desired)
	recorded := s.recordedIntent(name, profile, was.Recorded)
	leaving := false
	s.ask(func() { leaving = s.takeBack(p, was.Machine, recorded).state.Removed })
	s.registry.Restored(name, leaving)
}

// takeBack makes a unit in the state that was published last, if one was. The
// volume may know better what is wanted.
func (s *Supervisor) takeBack(p registry.Proposal, state *machine.State, recorded service.Intent) *unit {
	u := s.bare(p)
	if recorded != service.IntentNone && recorded != u.desired && !s.purpose.isFor(p.Name) {
		// It was made durable, and maybe acknowledged, just before our
		// predecessor ended, and the status does not know of it yet.
		u.desired, u.changed = recorded, true
	}
	if state != nil {
		u.state = *state
		u.forgotten = u.state.Removed // its directory may be on its way out
	}
	_ = s.allotTag(u)
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
		var l label
		if json.Unmarshal(newest.Label, &l) == nil && l.State.LastID > u.state.LastID {
			u.state = l.State
		}
		s.byID[newest.ID] = u
		event = childEvent(newest)
		if _, err := s.openNotify(u); err != nil {
			slog.Error("notifications of a service are lost", "service", u.name, "err", err)
		}
	}
	if len(children) > 0 || len(s.held[logKey(u.name)]) > 0 {
		if err := s.openLog(u); err != nil {
			slog.Error("the log of a service is lost", "service", u.name, "err", err)
		}
	}
	if u.desired == service.IntentNone { // nothing was published of it yet
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
	s.readoptSockets(u)
	u.stored.Restore(u.name, s.held)
	s.step(u, event)
	if len(children) > 0 {
		if c := children[len(children)-1]; c.State == wire.ChildFailed {
			s.spawnFailed(&wire.SpawnFailed{ID: c.ID, Step: c.Step, Errno: c.Errno, Reason: c.Reason})
		}
	}
}

// adoptAll adopts every unit. None is told of another before all know what is
// true: it would start on the strength of what was.
func (s *Supervisor) adoptAll() {
	s.adopting = true
	for _, u := range s.all() {
		s.adopt(u)
	}
	s.adopting = false
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
	stopUnits(s, overdue, machine.Event{Cause: "was to be stopped when the supervisor was replaced"})
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
