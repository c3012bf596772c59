package machine

// onAdopt reconciles a State that another supervisor left with what tier 1 says
// is true. The State may be older than the truth or (it is stored before its
// actions are carried out) newer. The timer slot and the probes of the old
// supervisor are gone.
func (m *step) onAdopt() {
	m.rearm = true
	m.Probing = ""
	m.cause = "the supervisor was replaced"
	if m.Removed {
		m.Want = WantDown
	} else if m.event.SetWant && m.Want != m.event.Want {
		m.Want = m.event.Want
		m.Again = m.Want == WantUp && (m.Phase == Stopping || m.Phase == Sweeping)
	}
	switch m.event.Child {
	case ChildPending:
		m.adoptPending()
	case ChildAlive:
		m.adoptAlive()
	case ChildExited:
		m.adoptExited()
	default:
		m.adoptNone()
	}
}

// adoptNone: no process, no exit, no spawn.
func (m *step) adoptNone() {
	m.ID = 0
	switch m.Phase {
	case Stopped, Gone:
		if m.Want == WantUp && !m.Removed {
			m.launch()
		}
	case Waiting, Backoff, Failed, Exited:
		switch {
		case m.Want == WantDown:
			m.rest()
		case m.Phase == Waiting && m.Blocked == "":
			m.launch()
		}
	case Starting, Running, Stopping:
		// Its exit was acknowledged, and the State after it was not stored.
		m.event.Leftovers = 0
		m.ended(Exit{Lost: true, Wall: m.event.Wall})
	case Sweeping: // likewise, once all were gone
		m.over()
	default:
		// Of Spawning and Parked: the request never came through, or it failed and
		// nobody was there to hear it. Or a phase of some other version.
		if m.Want == WantDown {
			m.rest()
		} else {
			m.launch()
		}
	}
}

// adoptPending: tier 1 still works on a spawn.
func (m *step) adoptPending() {
	if m.event.ID == m.ID && (m.Phase == Spawning || m.Phase == Parked) {
		m.Adopted = true
		return
	}
	m.take()
	m.enter(Spawning)
	m.Deadlines.Spawn = m.after(spawnAnswer)
}

// take makes the spawn of the event the current one, with a clean run.
func (m *step) take() {
	m.Run = Run{}
	m.ID = m.event.ID
	m.Adopted = true
	m.LastID = max(m.LastID, m.ID)
	m.NoRetry = false
	m.Reason = ""
}

func (m *step) adoptAlive() {
	same := m.event.ID == m.ID && m.ID != 0
	switch {
	case same && m.Alive():
		m.PID, m.StartTime = m.event.PID, m.event.StartTime
		m.Adopted = true
		m.resume()
	case same && (m.Phase == Spawning || m.Phase == Parked):
		m.Adopted = true
		m.begin(m.startedAt())
		m.forgive()
	default:
		m.take()
		m.enter(Spawning)
		m.begin(m.startedAt())
		m.forgive()
	}
}

func (m *step) startedAt() int64 {
	if at := m.event.StartedAt; at > 0 && at <= m.event.Now {
		return at
	}
	return m.event.Now
}

// resume goes on with a run that the State knows.
func (m *step) resume() {
	switch {
	case m.Phase == Stopping:
		if m.Want == WantDown && m.StopBy == StopSelf {
			m.stopMain(StopCommand, "", m.stopSignal())
		}
		return
	case m.Want == WantDown:
		m.stopMain(StopCommand, "", m.stopSignal())
		return
	case m.Phase == Starting:
		at := m.Deadlines.Ready
		m.awaitReady()
		m.Deadlines.Ready = max(m.Deadlines.Ready, at)
	case m.Phase == Running:
		m.Fails = 0
		m.watch()
	}
	m.forgive()
}

// forgive gives a service time to be heard: what it said while no supervisor
// listened lies in its socket and has not been read yet.
func (m *step) forgive() {
	if m.Phase == Starting && m.Deadlines.Ready != 0 {
		m.Deadlines.Ready = max(m.Deadlines.Ready, m.after(adoptGrace))
	}
}

// adoptExited: its main process went, and nobody has acknowledged that.
func (m *step) adoptExited() {
	same := m.event.ID == m.ID && m.ID != 0
	switch {
	case same && m.Phase == Sweeping:
		m.Leftovers = m.event.Leftovers
		if m.Leftovers <= 0 {
			m.over()
		} else {
			m.sweepAgain()
		}
		return
	case same && m.Alive():
	default:
		if !same {
			m.take()
		}
		m.countStart(m.startedAt())
	}
	m.ended(m.exit())
}
