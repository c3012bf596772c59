package machine

// A command in any phase ends in the state that it asks for: the later one wins.

func (m *step) onStart() {
	if m.Removed {
		return
	}
	was := m.Want
	m.Want = WantUp
	if m.Phase != Stopping && m.Phase != Sweeping {
		m.StopWithin = 0
	}
	switch m.Phase {
	case Stopped, Waiting, Backoff, Failed, Exited:
		m.resetHistory()
		m.launch()
	case Parked:
		if was == WantDown { // it was killed when it was stopped
			m.Again = true
		}
	case Stopping, Sweeping:
		m.Again = true
	}
}

func (m *step) onRestart() {
	if m.Removed {
		return
	}
	switch m.Phase {
	case Stopped, Waiting, Backoff, Failed, Exited:
		m.onStart()
	default:
		m.Want = WantUp
		m.anew("restart")
	}
}

// anew ends the run that there is, so that a new one follows it.
func (m *step) anew(why string) {
	switch m.Phase {
	case Spawning:
		// What is being spawned is from before the command. This cannot be taken
		// back, so it is stopped as soon as it is there.
		m.Again = true
	case Parked:
		m.Again = true
		m.do(Action{Kind: Signal, Signal: sigKill, Scope: ScopeGroup})
	case Starting, Running:
		m.Again = true
		m.stopMain(StopCommand, why, m.stopSignal())
	case Stopping:
		m.Again = true
		if m.StopBy == StopSelf {
			m.stopMain(StopCommand, why, m.stopSignal())
		}
	case Sweeping:
		m.Again = true
	}
}

// onStop serves Stop and Remove.
func (m *step) onStop() {
	m.Want = WantDown
	m.Again = false
	switch m.Phase {
	case Stopped:
		if m.Removed {
			m.rest()
		}
	case Waiting, Backoff, Failed, Exited:
		m.rest()
	case Spawning:
		m.boundStop()
	case Parked:
		m.boundStop()
		m.do(Action{Kind: Signal, Signal: sigKill, Scope: ScopeGroup})
	case Starting, Running:
		m.boundStop()
		m.stopMain(StopCommand, "", m.stopSignal())
	case Stopping:
		m.boundStop()
		switch {
		case m.Killed:
		case m.event.Hurry:
			m.kill()
		case m.StopBy == StopSelf:
			m.stopMain(StopCommand, "", m.stopSignal())
		case m.StopWithin > 0:
			m.StopMax = m.after(m.within())
			m.Deadlines.Stop = min(m.Deadlines.Stop, m.StopMax)
		}
	case Sweeping:
		m.boundStop()
		switch {
		case m.SweepWith == sigKill:
		case m.event.Hurry:
			m.sweepKill()
		case m.StopWithin > 0:
			m.Deadlines.Stop = min(m.Deadlines.Stop, m.after(m.within()))
		}
	}
}

// boundStop notes how long this stop may take, if the command says so. A later
// command may shorten it only: the first came from the same budget.
func (m *step) boundStop() {
	within := m.event.Within
	if m.event.Hurry {
		within = 1
	}
	if within > 0 && (m.StopWithin == 0 || within < m.StopWithin) {
		m.StopWithin = within
	}
}

func (m *step) onUpdate() {
	if m.Removed {
		m.Removed = false
		if m.Phase == Gone {
			m.rest()
		}
	}
	if m.event.NeedsRestart {
		if m.Want == WantDown {
			return
		}
		switch m.Phase {
		case Backoff, Failed:
			m.resetHistory()
			m.launch()
		default:
			m.anew("its definition changed")
		}
		return
	}
	switch m.Phase {
	case Starting:
		m.refreshStarting()
	case Running:
		m.refreshRunning()
	case Failed:
		m.NoRetry = m.NoRetry || m.policy.Restart == restartNo
		m.armRetry()
	}
}

// refreshStarting applies a new policy to a service that is not ready yet.
func (m *step) refreshStarting() {
	if m.policy.Ready != ReadyProbe {
		m.stopProbe()
	}
	if m.policy.Ready == ReadyAtOnce {
		m.run()
		return
	}
	m.awaitReady()
}

// refreshRunning applies a new policy to a service that runs.
func (m *step) refreshRunning() {
	if !m.policy.Health {
		m.stopProbe()
		m.Health = HealthUnknown
		m.Reason = ""
	}
	m.Fails = 0
	m.watch()
}

func (m *step) onDependenciesMet() {
	m.Blocked = ""
	if m.Phase == Waiting {
		m.cause = "what it requires is up"
		m.launch()
	}
}

// onDependenciesUnmet does not touch what lives: STATES.md says why.
func (m *step) onDependenciesUnmet() {
	m.Blocked = m.event.Reason
	if m.Blocked == "" {
		m.Blocked = "something that it requires is not up"
	}
	if m.Phase == Waiting {
		m.Reason = m.Blocked
	}
}
