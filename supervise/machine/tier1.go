package machine

import "cmp"

func (m *handler) onSpawned() {
	s, e := m.state, &m.event
	switch {
	case e.ID > s.LastID:
		// Nobody here asked for it. Two of one service must never live.
		s.LastID = e.ID
		m.sendKill(e.ID)
	case e.ID == s.ID && s.asked():
		m.cause = "its process is there"
		m.life.begin(e.Now)
	}
}

func (m *handler) onSpawnFailed() {
	s := m.state
	if m.event.ID != s.ID || !s.asked() {
		return
	}
	reason := cmp.Or(m.event.Reason, "it could not be started")
	m.cause = reason
	s.ID = 0
	switch {
	case s.Want == WantDown:
		m.life.becomeStopped()
	case s.StartAgain:
		s.History.clear()
		m.life.launch()
	case m.event.Temporary:
		// A fault of the host, not of the service: no start is counted, and it is
		// tried again for as long as it takes.
		s.LastWords = reason
		m.life.backOff(max(m.policy.delay(s.Tries, m.event.Rand), spawnRetry), reason)
	default:
		m.life.fail(reason, true)
	}
}

func (m *handler) onSpawnStuck() {
	if m.event.ID == m.state.ID && m.state.Phase == Spawning {
		m.life.park(cmp.Or(m.event.Reason, "the start is stuck in the kernel"))
	}
}

func (m *handler) onExited() {
	s, e := m.state, &m.event
	switch {
	case e.ID == 0:
	case e.ID != s.ID:
		// A run that ended long ago; tier 1 was not told that it may forget it.
		s.LastID = max(s.LastID, e.ID)
		m.do(Action{Kind: Acknowledge, ID: e.ID})
	case s.Phase == Sweeping: // reported twice
	default:
		if s.asked() { // the exit overtook Spawned
			s.History.countStart(e.Now, &m.policy)
		}
		m.life.processEnded(e.exit(s.Killed))
	}
}

func (m *handler) onSwept() {
	s := m.state
	if m.event.ID != s.ID || s.Phase != Sweeping {
		return
	}
	s.Leftovers = m.event.Remaining
	if s.Leftovers > 0 {
		m.life.ending.reportLeftovers()
		return
	}
	m.cause = s.StopReason
	m.life.finish()
}
