package machine

import (
	"cmp"

	"golang.org/x/sys/unix"
)

// A command in any phase ends in the state that it asks for: the later one wins.

func (m *step) onStart() {
	s := m.state
	if s.Removed {
		return
	}
	was := s.Want
	s.Want = WantUp
	switch s.Phase {
	case Stopped, Waiting, Backoff, Failed, Exited:
		s.History.forget()
		m.life.launch()
	case Stopping, Sweeping:
		s.Again = true
	default:
		s.StopWithin = 0
		// One that was stopped while it was parked has been killed.
		s.Again = s.Again || s.Phase == Parked && was == WantDown
	}
}

func (m *step) onRestart() {
	switch s := m.state; {
	case s.Removed:
	case s.ID == 0:
		m.onStart()
	default:
		s.Want = WantUp
		m.anew("restart")
	}
}

// anew ends the run that there is, so that a new one follows it. One that is being
// spawned is from before the command, and cannot be taken back: it is stopped as soon
// as it is there.
func (m *step) anew(why string) {
	s := m.state
	s.Again = s.ID != 0
	switch {
	case s.Phase == Parked:
		m.sendKill(s.ID)
	case s.Phase == Starting, s.Phase == Running, s.Phase == Stopping && s.StopBy == StopSelf:
		m.life.stop(StopCommand, why)
	}
}

// onStop serves Stop and Remove.
func (m *step) onStop() {
	s, ending := m.state, &m.life.ending
	s.Want, s.Again = WantDown, false
	if s.ID != 0 {
		ending.bound()
	}
	switch s.Phase {
	case Stopped, Waiting, Backoff, Failed, Exited:
		m.life.rest()
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
			s.StopMax = m.event.after(ending.within())
			s.Deadlines.Stop = min(s.Deadlines.Stop, s.StopMax)
		}
	case Sweeping:
		switch {
		case s.SweepWith == unix.SIGKILL:
		case m.event.Hurry:
			ending.sweepKill()
		case s.StopWithin > 0:
			s.Deadlines.Stop = min(s.Deadlines.Stop, m.event.after(ending.within()))
		}
	}
}

// onUpdate: what happened under the definition before says nothing of the one in force,
// whatever the phase in which that is heard of.
func (m *step) onUpdate() {
	s := m.state
	s.Removed = false
	if s.Phase == Gone {
		m.life.rest()
	}
	if s.Want == WantDown {
		return
	}
	s.History.forget()
	switch {
	case s.FellShort() && s.ID != 0:
		s.Again = true
	case s.FellShort():
		m.life.launch()
	case m.event.NeedsRestart:
		m.anew("its definition changed")
	default:
		m.refresh()
	}
}

// refresh applies a new policy to a service that goes on as it is.
func (m *step) refresh() {
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

func (m *step) onDependenciesMet() {
	m.state.Blocked = ""
	if m.state.Phase == Waiting {
		m.cause = "what it requires is up"
		m.life.launch()
	}
}

// onDependenciesUnmet does not touch what lives: STATES.md says why.
func (m *step) onDependenciesUnmet() {
	m.state.Blocked = cmp.Or(m.event.Reason, "something that it requires is not up")
	if m.state.Phase == Waiting {
		m.reason = m.state.Blocked
	}
}
