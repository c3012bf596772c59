package machine

import "cmp"

func (m *step) onSpawned() {
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

func (m *step) onSpawnFailed() {
	s := m.state
	if m.event.ID != s.ID || !s.asked() {
		return
	}
	reason := cmp.Or(m.event.Reason, "it could not be started")
	m.cause = reason
	s.ID = 0
	switch {
	case s.Want == WantDown:
		m.life.rest()
	case s.Again:
		s.History.forget()
		m.life.launch()
	case m.event.Temporary:
		// The machine's fault, not the service's: no start is counted, and it is
		// tried for as long as it takes.
		m.life.backOff(max(m.policy.delay(s.Tries, m.event.Rand), spawnRetry), reason)
	default:
		m.life.fail(reason, true)
	}
}

func (m *step) onSpawnStuck() {
	if m.event.ID == m.state.ID && m.state.Phase == Spawning {
		m.life.park(cmp.Or(m.event.Reason, "the start is stuck in the kernel"))
	}
}

func (m *step) onExited() {
	s, e := m.state, &m.event
	switch {
	case e.ID == 0:
	case e.ID != s.ID:
		// A run that was settled long ago, and tier 1 does not know it.
		s.LastID = max(s.LastID, e.ID)
		m.do(Action{Kind: Acknowledge, ID: e.ID})
	case s.Phase == Sweeping: // said again
	default:
		if s.asked() { // it went before it was announced
			s.History.started(e.Now, &m.policy)
		}
		m.life.ended(e.exit(s.Killed))
	}
}

func (m *step) onSwept() {
	s := m.state
	if m.event.ID != s.ID || s.Phase != Sweeping {
		return
	}
	s.Leftovers = m.event.Remaining
	if s.Leftovers > 0 {
		m.life.ending.tellLeft()
		return
	}
	m.cause = s.StopReason
	m.life.over()
}
