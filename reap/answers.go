package reap

import (
	"rlminit/reap/sys"
	"rlminit/wire"
)

// flush sends what is owed to tier 2, as far as the socket takes it. Nothing is
// queued: each message is made from the table when it can be sent.
func (r *reaper) flush() {
	t := &r.tier2
	if t.connected() && !t.full {
		r.sendOwed()
	}
	deaf := r.deaf()
	full := t.full && t.retryAt == 0 // else a timer ends it
	if t.socket >= 0 && (full != t.writable || deaf != t.deaf) {
		var conditions uint32
		if !deaf {
			conditions = sys.Readable
		}
		if full {
			conditions |= sys.Writable
		}
		if r.events.Change(int32(t.socket), conditions, keySocket) == 0 {
			t.writable, t.deaf = full, deaf
		}
	}
}

func (r *reaper) sendOwed() {
	t := &r.tier2
	if t.owed&owedWelcome != 0 {
		if !r.send(&wire.Welcome{
			Version: wire.Version, Generation: t.generation, NextID: r.children.nextID,
			Tags: r.place.tags, Stopping: r.stop.phase != running,
			Terminal: r.policy.Supervised && r.main.terminal.Found(),
		}) {
			return
		}
		t.owed &^= owedWelcome
	}
	if t.snapshot.underWay && !r.sendSnapshot() {
		return
	}
	if !r.sendControl() {
		return
	}
	owing := r.children.owing
	for len(owing) > 0 {
		c := owing[0]
		if !r.sendChild(c) {
			break
		}
		c.queued = false
		owing[0] = nil
		owing = owing[1:]
	}
	if len(owing) == 0 {
		owing = r.children.owing[:0]
	}
	r.children.owing = owing
}

// sendControl sends what concerns no child.
func (r *reaper) sendControl() bool {
	t := &r.tier2
	for _, m := range [...]struct {
		owed    tier2Owed
		message wire.Message
	}{
		{owedShutdown, &wire.Shutdown{Deadline: r.stop.tier2Deadline}},
		{owedReload, &wire.Reload{}},
		{owedPing, &wire.Ping{Seq: t.pings}},
	} {
		if t.owed&m.owed == 0 {
			continue
		}
		if !r.send(m.message) {
			return false
		}
		t.owed &^= m.owed
	}
	for len(t.strangers) > 0 {
		if !r.send(&t.strangers[0]) {
			return false
		}
		t.strangers = t.strangers[1:]
	}
	return true
}

// sendChild sends what is owed of one child, in the order in which it happened.
func (r *reaper) sendChild(c *child) bool {
	if c.owed&owedStuck != 0 {
		if !r.send(&wire.SpawnStuck{ID: c.id}) {
			return false
		}
		c.owed &^= owedStuck
	}
	if c.owed&owedSpawned != 0 {
		if !r.send(&wire.Spawned{ID: c.id, PID: c.pid, StartTime: c.startTime}) {
			return false
		}
		c.owed &^= owedSpawned
	}
	if c.owed&owedFailed != 0 {
		if !r.send(&wire.SpawnFailed{ID: c.id, Step: c.step, Errno: c.errno, Reason: c.reason}) {
			return false
		}
		c.owed &^= owedFailed
	}
	for scope := range c.answers {
		bit := owedSignalled << scope
		if c.owed&bit == 0 {
			continue
		}
		if !r.send(&c.answers[scope]) {
			return false
		}
		c.owed &^= bit
	}
	if c.owed&owedExited != 0 {
		if !r.send(&wire.Exited{ID: c.id, Exit: c.exit}) {
			return false
		}
		c.owed &^= owedExited
	}
	if c.owed&owedCleared != 0 {
		if !r.send(&wire.Cleared{ID: c.id}) {
			return false
		}
		c.owed &^= owedCleared
	}
	return true
}

// beginSnapshot plans what a new tier 2 is told first.
func (r *reaper) beginSnapshot() {
	s := snapshot{underWay: true}
	for c := r.children.first; c != nil; c = c.next {
		s.ids = append(s.ids, c.id)
		if c.killed && c.state == pending {
			r.children.owe(c, owedStuck) // an entry does not say that
		}
	}
	for key := range r.held {
		s.keys = append(s.keys, key)
	}
	r.tier2.snapshot = s
}

// sendSnapshot goes on with the snapshot. An entry is told as it is now, so
// nothing more is owed of it.
func (r *reaper) sendSnapshot() bool {
	s := &r.tier2.snapshot
	for len(s.ids) > 0 {
		if c := r.children.byID[s.ids[0]]; c != nil {
			if !r.send(childMessage(c)) {
				return false
			}
			c.owed &= owedStuck | owedCleared
		}
		s.ids = s.ids[1:]
	}
	for len(s.keys) > 0 {
		if fds, ok := r.held[s.keys[0]]; ok {
			if !r.send(&wire.Held{Key: s.keys[0]}, fds...) {
				return false
			}
		}
		s.keys = s.keys[1:]
	}
	if !r.send(&wire.SnapshotEnd{}) {
		return false
	}
	*s = snapshot{}
	return true
}

func childMessage(c *child) *wire.Child {
	m := &wire.Child{
		ID: c.id, Name: c.name, PID: c.pid, StartTime: c.startTime, Label: c.label,
		Exit: c.exit, Step: c.step, Errno: c.errno, Reason: c.reason,
	}
	switch c.state {
	case pending:
		m.State, m.PID = wire.ChildPending, 0
	case alive:
		m.State = wire.ChildAlive
	case exited:
		m.State = wire.ChildExited
	case failed:
		m.State = wire.ChildFailed
	}
	return m
}

// send sends one message, and tells whether it is off our hands.
func (r *reaper) send(m wire.Message, fds ...int) bool {
	t := &r.tier2
	switch err := wire.Send(t.socket, m, fds...); err {
	case nil:
		return true
	case wire.ErrFull:
		t.full = true
	case wire.ErrClosed:
		t.greeted = false // what was owed waits for the next one
		r.killTier2()
	case wire.ErrTooLarge:
		r.sayOnce("a message to the supervisor is too large; dropped")
		return true
	default:
		// Of the moment, and no event tells of its end: see wire.Send.
		t.full, t.retryAt = true, r.now+retrySend
	}
	return false
}
