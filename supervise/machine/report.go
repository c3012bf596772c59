package machine

import (
	"time"

	"golang.org/x/sys/unix"
)

// onReport handles what the service or a probe says of the current run.
func (m *step) onReport() {
	e := m.event
	switch e.Kind {
	case Ready:
		m.onReady()
	case ProbePassed:
		if m.Phase == Starting && m.policy.Ready == ReadyProbe {
			m.cause = "its probe passed"
			m.run()
		}
	case ProbeFailed:
		if m.Phase == Starting {
			m.NotReady = e.Reason
		}
	case HealthPassed:
		m.onHealthPassed()
	case HealthFailed:
		m.onHealthFailed()
	case Reloading:
		if m.Phase == Running {
			m.Reloading = true
		}
	case StoppingItself:
		if m.Phase == Starting || m.Phase == Running {
			m.stopMain(StopSelf, "it said that it is stopping", 0)
		}
	case ExtendTimeout:
		m.onExtend(time.Duration(e.Within))
	case WatchdogPing:
		if m.Phase == Running {
			m.alive(!m.policy.Health)
			m.armWatchdog()
		}
	case WatchdogBark:
		if m.Phase == Starting || m.Phase == Running {
			m.stopMain(StopWatchdog, "watchdog: the service asked for it", unix.SIGABRT)
		}
	case WatchdogSet:
		if e.Within > 0 {
			m.WatchdogNS = e.Within
			if m.Phase == Running {
				m.armWatchdog()
			}
		}
	case StatusText:
		m.Text = e.Reason
	case MainPID:
		if e.PID > 0 && m.Phase != Sweeping {
			m.MainPID = e.PID
		}
	}
}

func (m *step) onReady() {
	switch m.Phase {
	case Spawning, Parked:
		m.ReadyEarly = m.policy.Ready == ReadyNotify
	case Starting:
		if m.policy.Ready == ReadyNotify {
			m.cause = "it said that it is ready"
			m.run()
		}
	case Running:
		m.Reloading, m.ToldErrno, m.ToldExit = false, 0, nil
	}
}

// onTrouble is what a service says of its own failure. It is no failure yet: it
// goes into the reason when there is one. A program says it right before it
// exits, and news of that may overtake it.
func (m *step) onTrouble() {
	if m.event.ID == 0 || m.event.ID != m.LastID {
		return
	}
	switch m.Phase {
	case Spawning, Parked, Starting, Running, Stopping:
		if m.event.Errno != 0 {
			m.ToldErrno = m.event.Errno
		}
		if m.event.ExitStatus != nil {
			m.ToldExit = m.event.ExitStatus
		}
	case Sweeping:
		if m.StopBy == StopCommand {
			return
		}
		m.StopReason = m.hear(m.StopReason)
		m.Reason = leftText(m.StopReason, m.Leftovers)
	case Backoff, Failed, Exited:
		m.Reason = m.hear(m.Reason)
	}
}

// hear adds what a service said of its failure after its exit to the reason.
func (m *step) hear(reason string) string {
	said := explained(reason, m.event.Errno, m.event.ExitStatus, m.LastExit)
	if said != reason {
		m.LastWords = said
	}
	return said
}

// awaitReady is the wait for readiness, from the start of the process, without the
// time during which it could not run.
func (m *step) awaitReady() {
	m.Deadlines.Ready = 0
	if t := m.policy.ReadyTimeout; t > 0 {
		m.Deadlines.Ready = m.after(t - time.Duration(m.event.Now-m.StartedAt-m.Deadlines.Stalled))
	}
	if m.policy.Ready == ReadyProbe {
		m.startProbe(ProbeReady)
	}
}

// run makes a live service a running one.
func (m *step) run() {
	m.enter(Running)
	m.Reason, m.NotReady, m.ToldErrno, m.ToldExit = "", "", 0, nil
	m.ReadyAt, m.GoodAt = m.event.Now, m.event.Now
	m.watch()
}

// watch starts what watches over a running service.
func (m *step) watch() {
	m.armWatchdog()
	if m.policy.Health {
		m.startProbe(ProbeHealth)
	}
}

func (m *step) watchdog() time.Duration {
	if m.WatchdogNS > 0 {
		return time.Duration(m.WatchdogNS)
	}
	return m.policy.Watchdog
}

func (m *step) armWatchdog() {
	m.Deadlines.Watchdog = 0
	if w := m.watchdog(); w > 0 {
		m.Deadlines.Watchdog = m.after(w)
	}
}

// alive notes a sign of health. A service with a health check is as well as that
// says: one that pings but does not answer is not.
func (m *step) alive(counts bool) {
	if counts {
		m.GoodAt = m.event.Now
	}
}

func (m *step) onHealthPassed() {
	if m.Phase != Running || !m.policy.Health {
		return
	}
	if m.Health == Unhealthy {
		m.Reason = ""
	}
	m.Health, m.Fails = Healthy, 0
	m.alive(true)
}

func (m *step) onHealthFailed() {
	if m.Phase != Running || !m.policy.Health {
		return
	}
	// As Docker has it: until start_period is over, or a check has passed,
	// failures say only that it is still busy with its start.
	if m.Health == HealthUnknown && m.event.Now-m.ReadyAt < int64(m.policy.HealthStartPeriod) {
		return
	}
	retries := max(m.policy.HealthRetries, 1)
	m.Fails = min(m.Fails+1, retries)
	if m.Fails < retries {
		return
	}
	m.Health = Unhealthy
	reason := "unhealthy"
	if m.event.Reason != "" {
		reason += ": " + m.event.Reason
	}
	if m.policy.HealthRestart {
		m.stopMain(StopUnhealthy, reason, m.stopSignal())
	} else {
		m.Reason = reason
	}
}

// onExtend is EXTEND_TIMEOUT_USEC=: the deadline of a start or of a stop is not
// before so long from now. A service that hangs does not get to say so, nor can
// one outlast a stop that has a budget.
func (m *step) onExtend(d time.Duration) {
	if d <= 0 {
		return
	}
	at := m.after(d)
	switch {
	case m.Phase == Starting && m.Deadlines.Ready != 0:
		m.Deadlines.Ready = max(m.Deadlines.Ready, at)
	case m.Phase == Stopping && !m.Killed && (m.StopBy == StopCommand || m.StopBy == StopSelf):
		if m.StopMax != 0 {
			at = min(at, m.StopMax)
		}
		m.Deadlines.Stop = max(m.Deadlines.Stop, at)
	}
}
