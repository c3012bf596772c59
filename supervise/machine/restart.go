package machine

import (
	"fmt"
	"math"
	"time"

	"rlminit/service"
)

const restartNo = service.RestartNo

// afterRun decides what follows a run that ended by itself, or that we ended for
// the service's own fault.
func (m *step) afterRun() {
	switch m.Verdict {
	case VerdictSuccess:
		if m.policy.Oneshot || m.policy.Restart != service.RestartAlways {
			m.done()
			return
		}
	case VerdictFatal:
		m.fail(m.StopReason+", a fatal exit code", false)
		return
	case VerdictFailure:
		if m.policy.Restart != restartNo {
			break
		}
		// A oneshot that failed must not pass for one that did its work, nor
		// one that had to be killed for one that was done.
		if m.policy.Oneshot || m.StopBy != StopNone {
			m.fail(m.StopReason, false)
		} else {
			m.done()
		}
		return
	}
	m.restart()
}

func (m *step) done() {
	m.enter(Exited)
	m.Reason = m.StopReason
	m.Run = Run{Verdict: m.Verdict, NeverReady: m.NeverReady}
}

// restart schedules the next start, unless there were too many.
func (m *step) restart() {
	why := m.StopReason
	delay := m.nextDelay()
	if m.GoodRun {
		m.Tries, delay = 0, 0
	}
	if n, first := m.startsBefore(m.after(delay)); m.policy.Limit > 0 && n >= m.policy.Limit {
		took := time.Duration(m.event.Now - first)
		m.fail(fmt.Sprintf("%d starts in %s, last %s", n, short(took), why), true)
		return
	}
	if delay <= 0 {
		m.Restarts++
		m.launch()
		return
	}
	m.backOff(delay, why)
}

// startsBefore counts the starts in the window that ends at the given time, and
// tells when the first of them was.
func (m *step) startsBefore(at int64) (n int, first int64) {
	for _, t := range m.Starts {
		if t > at-int64(m.policy.Window) {
			if n == 0 {
				first = t
			}
			n++
		}
	}
	return n, first
}

// backOff waits for the next start.
func (m *step) backOff(delay time.Duration, why string) {
	m.enter(Backoff)
	m.Run = Run{}
	m.Reason = why
	m.Deadlines.Start = m.after(delay)
	if m.Tries < maxTries {
		m.Tries++
	}
}

// nextDelay is delay × factorⁿ, at most max_delay, of which the share jitter is
// random. The random part only shortens it, so that max_delay is a bound.
func (m *step) nextDelay() time.Duration {
	p := m.policy
	d := float64(p.Delay) * math.Pow(max(p.Factor, 1), float64(m.Tries))
	if p.MaxDelay > 0 {
		d = min(d, float64(p.MaxDelay))
	}
	d *= 1 - min(max(p.Jitter, 0), 1)*float64(m.event.Rand>>11)/(1<<53)
	if !(d < math.MaxInt64/2) { // also what is not a number
		return math.MaxInt64 / 2
	}
	return time.Duration(d)
}
