package machine

import (
	"cmp"

	"golang.org/x/sys/unix"
)

// A command leads to the state that it asks for, whatever the phase. The later
// command wins.

func (m *handler) onStart() {
	s := m.state
	if s.Removed {
		return
	}
	was := s.Want
	m.takeLease()
	s.Want = WantUp
	switch s.Phase {
	case Stopped, Waiting, Backoff, Failed, Exited:
		s.History.clear()
		m.life.launch()
	case Stopping, Sweeping:
		s.StartAgain = true
	default:
		s.StopWithin = 0
		// If it was stopped while it was parked, it was killed.
		s.StartAgain = s.StartAgain || s.Phase == Parked && was == WantDown
	}
}

func (m *handler) onRestart() {
	switch s := m.state; {
	case s.Removed:
	case s.ID == 0:
		m.onStart()
	default:
		s.Want = WantUp
		m.restartRun("restart")
	}
}

// takeLease takes the lease that a start brings. While something of a run is there its fence
// stays, and the start can only move the deadline of that fence on.
func (m *handler) takeLease() {
	s, is := m.state, m.event.Lease
	if s.ID != 0 || is.Fence == s.Lease.Fence && s.Lease.At > m.event.Now {
		m.onProlong()
	} else if is.At != 0 {
		s.Lease = is
	}
}

// onProlong moves the deadline on, if the fence is that of the run, and the deadline has not
// passed.
func (m *handler) onProlong() {
	s, to := m.state, m.event.Lease
	if to.Fence == "" || to.Fence != s.Lease.Fence || s.Lease.At <= m.event.Now || to.At <= s.Lease.At {
		return
	}
	if s.Lease.At = to.At; s.ID != 0 {
		m.do(Action{Kind: Prolonged, ID: s.ID, At: to.At})
	}
}

// restartRun ends the current run, so that a new one follows. A spawn that is under way
// is older than the command and cannot be withdrawn: its process is stopped as soon as
// it has started.
func (m *handler) restartRun(why string) {
	s := m.state
	s.StartAgain = s.ID != 0
	switch {
	case s.Phase == Parked:
		m.sendKill(s.ID)
	case s.Phase == Starting, s.Phase == Running, s.Phase == Stopping && s.StopBy == StopSelf:
		m.life.stop(StopCommand, why)
	}
}

// onStop handles Stop and Remove.
func (m *handler) onStop() {
	s, ending := m.state, &m.life.ending
	s.Want, s.StartAgain = WantDown, false
	if s.ID != 0 {
		ending.limitStop()
	}
	switch s.Phase {
	case Stopped, Waiting, Backoff, Failed, Exited:
		m.life.becomeStopped()
	case Parked:
		m.sendKill(s.ID)
	case Starting, Running:
		m.life.stop(StopCommand, "")
	case Stopping:
		switch {
		case s.Killed:
		case m.event.Hurry:
			ending.kill()
		case s.StopBy == StopSelf:
			m.life.stop(StopCommand, "")
		case s.StopWithin > 0:
			s.StopMax = m.event.after(ending.timeout())
			s.Deadlines.Stop = min(s.Deadlines.Stop, s.StopMax)
		}
	case Sweeping:
		switch {
		case s.SweepWith == unix.SIGKILL:
		case m.event.Hurry:
			ending.sweepKill()
		case s.StopWithin > 0:
			s.Deadlines.Stop = min(s.Deadlines.Stop, m.event.after(ending.timeout()))
		}
	}
}

// onUpdate clears the history in every phase: what happened under the old definition
// says nothing about the new one.
func (m *handler) onUpdate() {
	s := m.state
	s.Removed = false
	if s.Phase == Gone {
		m.life.becomeStopped()
	}
	if s.Want == WantDown {
		return
	}
	s.History.clear()
	switch {
	case s.EndedBadly() && s.ID != 0:
		s.StartAgain = true
	case s.EndedBadly():
		m.life.launch()
	case m.event.NeedsRestart:
		m.restartRun("its definition changed")
	default:
		m.applyPolicy()
	}
}

// applyPolicy applies a new policy to a service whose process goes on.
func (m *handler) applyPolicy() {
	s, p, watch := m.state, &m.policy, &m.life.watch
	switch s.Phase {
	case Starting:
		if p.Ready != ReadyProbe {
			watch.stopProbe()
		}
		if p.Ready == ReadyAtOnce {
			m.life.run()
		} else {
			watch.untilReady()
		}
	case Running:
		if !p.Health {
			watch.stopProbe()
			s.Health = HealthUnknown
			m.reason = ""
		}
		s.Fails = 0
		watch.begin()
	}
}

func (m *handler) onDependenciesMet() {
	m.state.Blocked = ""
	if m.state.Phase == Waiting {
		m.cause = "what it requires is up"
		m.life.launch()
	}
}

// onDependenciesUnmet does not stop a live process: STATES.md says why.
func (m *handler) onDependenciesUnmet() {
	m.state.Blocked = cmp.Or(m.event.Reason, "something that it requires is not up")
	if m.state.Phase == Waiting {
		m.reason = m.state.Blocked
	}
}
