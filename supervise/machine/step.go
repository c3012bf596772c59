package machine

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// Step is the machine: what becomes of s under p when e happens, and what is to
// be done. It is pure and total; see the package comment.
func Step(s State, p Policy, e Event) (State, []Action) {
	m := &step{State: s, policy: p, event: e, cause: string(e.Kind)}
	if e.Cause != "" {
		m.cause = e.Cause
	}
	m.handle()
	m.arm()
	if before := s.Public(); m.Public() != before || m.ID != s.ID && m.ID != 0 {
		m.State.Since = e.Wall
		m.State.Cause = m.cause
		m.State.Actor = e.Actor
	}
	return m.State, m.actions
}

const (
	// spawnAnswer bounds the wait for tier 1's answer. Tier 1 itself reports a
	// stuck spawn much earlier; this is for a lost answer.
	spawnAnswer = 30 * time.Second
	// spawnRetry is the least wait after a spawn that failed for want of
	// something (memory, pids): trying at once would make the want worse.
	spawnRetry = 100 * time.Millisecond
	// killAgain is the pause between two SIGKILLs of a process that does not go.
	killAgain = time.Second
	// sweepFirst and sweepLast bound the pauses between two looks at what is left.
	sweepFirst = 10 * time.Millisecond
	sweepLast  = 200 * time.Millisecond
	// adoptGrace is the least time that a new supervisor gives a service whose
	// sign of life may still lie unread in its socket.
	adoptGrace = 5 * time.Second
	// maxTries bounds the exponent of the back-off.
	maxTries = 64
)

// step is one call of Step: the State being changed, and what comes out.
type step struct {
	State
	policy  Policy
	event   Event
	actions []Action
	cause   string // of the transition, if there is one
	rearm   bool   // the timer slot of the supervisor is empty, whatever State says
}

func (m *step) handle() {
	switch m.event.Kind {
	case Start:
		m.onStart()
	case Stop:
		m.onStop()
	case Restart:
		m.onRestart()
	case Remove:
		m.Removed = true
		m.onStop()
	case Update:
		m.onUpdate()
	case DependenciesMet:
		m.onDependenciesMet()
	case DependenciesUnmet:
		m.onDependenciesUnmet()
	case Spawned:
		m.onSpawned()
	case SpawnFailed:
		m.onSpawnFailed()
	case SpawnStuck:
		m.onSpawnStuck()
	case ExitedEvent:
		m.onExited()
	case Swept:
		m.onSwept()
	case Adopt:
		m.onAdopt()
	case TimerFired:
		m.onTimer()
	case Stalled:
		m.onStalled()
	case Trouble:
		m.onTrouble()
	default:
		if m.ID != 0 && m.event.ID == m.ID {
			m.onReport()
		}
	}
}

// do adds an action on the current spawn.
func (m *step) do(a Action) {
	if a.ID == 0 && a.Kind != Arm && a.Kind != Disarm {
		a.ID = m.ID
	}
	m.actions = append(m.actions, a)
}

// after is the time d from now. It does not overflow.
func (m *step) after(d time.Duration) int64 {
	if d < 0 {
		d = 0
	}
	if m.event.Now > math.MaxInt64-int64(d) {
		return math.MaxInt64
	}
	return m.event.Now + int64(d)
}

// enter changes the phase. What belonged to the old one ends here: its probe
// and its deadlines. Only the deadline of a stop reaches over to the sweep that
// completes it.
func (m *step) enter(ph Phase) {
	m.stopProbe()
	stop := m.Deadlines.Stop
	m.Deadlines = Deadlines{}
	if m.Phase == Stopping && ph == Sweeping {
		m.Deadlines.Stop = stop
	}
	m.Phase = ph
}

func (m *step) startProbe(p Probe) {
	m.Probing = p
	m.do(Action{Kind: StartProbe, Probe: p})
}

func (m *step) stopProbe() {
	if m.Probing != "" {
		m.do(Action{Kind: StopProbe, Probe: m.Probing})
		m.Probing = ""
	}
}

// launch asks for a spawn, or waits for what is required. Nothing of the last
// run may be left: over saw to that.
func (m *step) launch() {
	m.stopProbe() // before it is forgotten: what ran may end in a launch at once
	m.Run = Run{}
	m.NoRetry, m.Text = false, ""
	if m.Blocked != "" {
		m.enter(Waiting)
		m.Reason = m.Blocked
		return
	}
	m.enter(Spawning)
	m.Reason = ""
	m.ID = max(m.event.NextID, m.LastID+1)
	m.LastID = m.ID
	m.Deadlines.Spawn = m.after(spawnAnswer)
	m.do(Action{Kind: Spawn})
}

// rest ends in the state that a person who said stop or remove expects.
func (m *step) rest() {
	if m.Removed {
		m.enter(Gone)
	} else {
		m.enter(Stopped)
	}
	m.Run = Run{}
	m.resetHistory()
	m.Reason = ""
	m.NoRetry = false
}

// fail gives up. It is tried again after retry_failed, unless that would not
// help (a fatal exit code) or the policy is to restart nothing.
func (m *step) fail(reason string, retry bool) {
	m.enter(Failed)
	m.Run = Run{}
	m.cause, m.Reason = reason, reason
	m.NoRetry = !retry || m.policy.Restart == restartNo
	m.armRetry()
}

func (m *step) armRetry() {
	m.Deadlines.Start = 0
	if !m.NoRetry && m.policy.RetryFailed > 0 {
		m.Deadlines.Start = m.after(m.policy.RetryFailed)
	}
}

// resetHistory forgets earlier starts: somebody asked for this one.
func (m *step) resetHistory() {
	m.Starts, m.Tries, m.LastWords = nil, 0, ""
}

// arm makes the timer slot follow the earliest deadline.
func (m *step) arm() {
	var next int64
	d := m.Deadlines
	for _, at := range [...]int64{d.Start, d.Spawn, d.Ready, d.Watchdog, d.Stop, d.Sweep} {
		if at != 0 && (next == 0 || at < next) {
			next = at
		}
	}
	if next == m.Timer.At && !m.rearm {
		return
	}
	armed := m.Timer.At != 0 && !m.rearm
	m.Timer.Generation++
	m.Timer.At = next
	switch {
	case next != 0:
		m.do(Action{Kind: Arm, Generation: m.Timer.Generation, At: next})
	case armed:
		m.do(Action{Kind: Disarm})
	}
}

// onStalled moves what the service, or tier 1, has to be in time for: it could not
// run either. The bound of the container's stop budget stays, which is kept
// outside, and so do the times of starts to come.
func (m *step) onStalled() {
	d := &m.Deadlines
	late := []*int64{&d.Spawn, &d.Ready, &d.Watchdog}
	if m.StopMax == 0 {
		late = append(late, &d.Stop)
	}
	ready := d.Ready
	for _, at := range late {
		if *at != 0 && m.event.Within > 0 {
			*at += min(m.event.Within, math.MaxInt64-*at)
		}
	}
	m.Deadlines.Stalled += d.Ready - ready
}

// onTimer does what is due. A timer of an older generation does nothing, and
// one that fires early is armed again.
func (m *step) onTimer() {
	if m.Timer.At == 0 || m.event.Generation != m.Timer.Generation {
		return
	}
	m.Timer.At = 0
	due := func(at int64) bool { return at != 0 && at <= m.event.Now }
	d := m.Deadlines
	switch m.Phase {
	case Backoff:
		if due(d.Start) {
			m.cause = "back-off is over: " + m.Reason
			m.Restarts++
			m.launch()
		}
	case Failed:
		if due(d.Start) {
			m.cause = "tried again after " + short(m.policy.RetryFailed)
			m.Restarts++
			m.resetHistory()
			m.launch()
		}
	case Spawning:
		if due(d.Spawn) {
			m.park("no answer to the request to start it")
		}
	case Starting:
		switch {
		case !due(d.Ready):
		case m.Adopted && m.policy.Ready == ReadyNotify:
			// Its READY=1 may have been read by a supervisor that died before it
			// could note that. To end a service that works would be worse than to
			// trust one that hangs, which health check and watchdog will find.
			m.cause = "taken to be ready: a supervisor was replaced while it started"
			m.run()
		default:
			reason := "not ready within " + short(time.Duration(d.Ready-m.StartedAt-d.Stalled))
			if m.NotReady != "" {
				reason += ": " + m.NotReady
			}
			m.stopMain(StopNotReady, reason, m.stopSignal())
		}
	case Running:
		if due(d.Watchdog) {
			m.stopMain(StopWatchdog, "watchdog: no WATCHDOG=1 for "+short(m.watchdog()), unix.SIGABRT)
		}
	case Stopping:
		if due(d.Stop) {
			m.kill()
		}
	case Sweeping:
		if due(d.Stop) {
			m.sweepKill()
		} else if due(d.Sweep) {
			m.sweepAgain()
		}
	}
}
