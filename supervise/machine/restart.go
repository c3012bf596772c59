package machine

import (
	"fmt"
	"math"
	"time"

	"rlminit/service"
)

const restartNo = service.RestartNo

// maxTries bounds the exponent of the back-off.
const maxTries = 64

// afterRun decides what follows a run that ended by itself, or that rlminit ended
// because of a fault of the service.
func (l *life) afterRun() {
	s, p := l.state, &l.policy
	switch s.Verdict {
	case VerdictSuccess:
		if p.Oneshot || p.Restart != service.RestartAlways {
			l.done()
			return
		}
	case VerdictFatal:
		l.fail(s.StopReason+", a fatal exit code", false)
		return
	case VerdictFailure:
		if p.Restart != restartNo {
			break
		}
		// A oneshot that failed must not look like one that did its work, nor a
		// service that rlminit ended like one that exited by itself.
		if p.Oneshot || s.StopBy != StopNone {
			l.fail(s.StopReason, false)
		} else {
			l.done()
		}
		return
	}
	l.restart()
}

func (l *life) done() {
	s := l.state
	l.enter(Exited)
	l.reason = s.StopReason
	s.Run = Run{Verdict: s.Verdict, NeverReady: s.NeverReady}
}

// restart schedules the next start, unless there were too many.
func (l *life) restart() {
	s := l.state
	why := s.StopReason
	delay := l.policy.delay(s.Tries, l.event.Rand)
	if s.GoodRun {
		s.Tries, delay = 0, 0
	}
	s.History.countRun(!s.NeverReady, &l.policy)
	if n, first := s.History.startsBefore(l.event.after(delay), &l.policy); l.policy.Limit > 0 && n >= l.policy.Limit {
		took := time.Duration(l.event.Now - first)
		l.fail(fmt.Sprintf("%d starts in %s, last %s", n, short(took), why), true)
		return
	}
	if l.policy.Limit > 0 && s.Unready >= l.policy.Limit {
		l.fail(fmt.Sprintf("%d starts in a row were never ready, last %s", s.Unready, why), true)
		return
	}
	if delay <= 0 {
		s.History.countRestart(l.event.Now)
		l.launch()
		return
	}
	l.backOff(delay, why)
}

// backOff waits for the next start.
func (l *life) backOff(delay time.Duration, why string) {
	l.enter(Backoff)
	l.state.Run = Run{}
	l.reason = why
	l.state.Deadlines.Start = l.event.after(delay)
	l.state.Tries = min(l.state.Tries+1, maxTries)
}

// delay is delay × factorⁿ, at most max_delay. The share jitter of it is random,
// which only shortens it, so that max_delay is a bound.
func (p *Policy) delay(n int, random uint64) time.Duration {
	d := float64(p.Delay) * math.Pow(max(p.Factor, 1), float64(n))
	if p.MaxDelay > 0 {
		d = min(d, float64(p.MaxDelay))
	}
	d *= 1 - min(max(p.Jitter, 0), 1)*float64(random>>11)/(1<<53)
	if !(d < math.MaxInt64/2) { // also NaN
		return math.MaxInt64 / 2
	}
	return time.Duration(d)
}
