package machine

import "time"

// onReport handles a report of the service or a probe on the current run.
func (m *handler) onReport() {
	s, e := m.state, &m.event
	starting, running := s.Phase == Starting, s.Phase == Running
	switch e.Kind {
	case Ready:
		m.onReady()
	case ProbePassed:
		if starting && m.policy.Ready == ReadyProbe {
			m.cause = "its probe passed"
			m.life.run()
		}
	case ProbeFailed:
		if starting {
			s.NotReady = e.Reason
		}
	case HealthPassed:
		if running && m.policy.Health {
			m.life.watch.passed()
		}
	case HealthFailed:
		if running && m.policy.Health && m.life.watch.failed() {
			m.onUnhealthy()
		}
	case Reloading:
		if running {
			s.Reloading = true
		}
	case StoppingItself:
		if starting || running {
			m.life.stop(StopSelf, "it said that it is stopping")
		}
	case ExtendTimeout:
		m.onExtend()
	case WatchdogPing:
		if running {
			m.life.watch.pinged()
		}
	case WatchdogTrigger:
		if starting || running {
			m.life.stop(StopWatchdog, "watchdog: the service asked for it")
		}
	case WatchdogSet:
		if e.Within > 0 {
			s.WatchdogNS = e.Within
			if running {
				m.life.watch.armWatchdog()
			}
		}
	case StatusText:
		s.Text = e.Reason
	case MainPID:
		if e.PID > 0 && s.Phase != Sweeping {
			s.MainPID = e.PID
		}
	}
}

func (m *handler) onReady() {
	s := m.state
	switch s.Phase {
	case Spawning, Parked:
		s.ReadyEarly = m.policy.Ready == ReadyNotify
	case Starting:
		if m.policy.Ready == ReadyNotify {
			m.cause = "it said that it is ready"
			m.life.run()
		}
	case Running:
		s.Reloading, s.ReportedErrno, s.ReportedExit = false, 0, nil
	}
}

func (m *handler) onUnhealthy() {
	reason := "unhealthy"
	if m.event.Reason != "" {
		reason += ": " + m.event.Reason
	}
	if m.policy.HealthRestart {
		m.life.stop(StopUnhealthy, reason)
	} else {
		m.reason = reason
	}
}

// onExtend handles EXTEND_TIMEOUT_USEC=: the deadline of a start or of a stop is at
// least that far from now.
func (m *handler) onExtend() {
	if m.event.Within <= 0 {
		return
	}
	at := m.event.after(time.Duration(m.event.Within))
	m.life.watch.extendReady(at)
	if m.state.Phase == Stopping {
		m.life.ending.extend(at)
	}
}

// onTrouble handles a service's report of its own failure. The report alone is no
// failure: it is added to the reason when the run ends badly. A program reports it right
// before it exits, so the exit may arrive first.
func (m *handler) onTrouble() {
	s, e := m.state, &m.event
	if e.ID == 0 || e.ID != s.LastID {
		return
	}
	switch s.Phase {
	case Spawning, Parked, Starting, Running, Stopping:
		if e.Errno != 0 {
			s.ReportedErrno = e.Errno
		}
		if e.ExitStatus != nil {
			s.ReportedExit = e.ExitStatus
		}
	case Sweeping:
		if s.StopBy != StopCommand {
			s.StopReason = s.History.addReport(s.StopReason, e)
			m.life.ending.reportLeftovers()
		}
	case Backoff, Failed, Exited:
		m.reason = s.History.addReport(m.reason, e)
	}
}
