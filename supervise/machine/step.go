package machine

import (
	"time"

	"golang.org/x/sys/unix"
)

// Step is the machine: what becomes of s under p when e happens, and what is to
// be done. It is pure and total; see the package comment.
func Step(s State, p Policy, e Event) (State, []Action) {
	before, id := s.Public(), s.ID
	t := turn{policy: p, event: e, cause: string(e.Kind), reason: s.Reason}
	if e.Cause != "" {
		t.cause = e.Cause
	}
	m := step{&t, &s, life{&t, &s, watch{&t, &s.Run, &s.Deadlines}, ending{&t, &s.Run, &s.Deadlines}}}
	m.handle()
	t.arm(&s.Timer, s.Deadlines.earliest())
	s.Reason = t.reason
	if s.Public() != before || s.ID != id && s.ID != 0 {
		s.Since, s.Cause, s.Actor = e.Wall, t.cause, e.Actor
	}
	return s, t.actions
}

// turn is one call of Step: what has happened, under which policy, and what comes of
// it beside the State.
type turn struct {
	policy  Policy
	event   Event
	actions []Action
	cause   string // of the transition, if there is one
	reason  string // State.Reason, when the turn is over
}

func (t *turn) do(a Action) { t.actions = append(t.actions, a) }

func (t *turn) sendKill(id uint64) {
	t.do(Action{Kind: Signal, ID: id, Signal: unix.SIGKILL, Scope: ScopeGroup})
}

// arm makes the timer slot follow the earliest deadline. That of a supervisor which has
// just adopted the service is empty, whatever the State says.
func (t *turn) arm(slot *Timer, next int64) {
	empty := t.event.Kind == Adopt
	if next == slot.At && !empty {
		return
	}
	slot.Generation++
	slot.At = next
	switch {
	case next != 0:
		t.do(Action{Kind: Arm, Generation: slot.Generation, At: next})
	case !empty:
		t.do(Action{Kind: Disarm})
	}
}

// step takes an event to the phase that it finds the service in.
type step struct {
	*turn
	state *State
	life  life
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
		m.state.Removed = true
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
		a := adoption{m.turn, m.state, m.life}
		a.reconcile()
	case TimerFired:
		m.onTimer()
	case Stalled: // the bound of the container's stop budget is kept outside
		m.state.Deadlines.stall(m.event.Within, m.state.StopMax == 0)
	case Trouble:
		m.onTrouble()
	default:
		if m.state.ID != 0 && m.event.ID == m.state.ID {
			m.onReport()
		}
	}
}

// onTimer does what is due. A timer of an older generation does nothing, and
// one that fires early is armed again.
func (m *step) onTimer() {
	s := m.state
	if s.Timer.At == 0 || m.event.Generation != s.Timer.Generation {
		return
	}
	s.Timer.At = 0
	due := func(at int64) bool { return at != 0 && at <= m.event.Now }
	switch d := s.Deadlines; {
	case s.Phase == Backoff && due(d.Start):
		m.cause = "back-off is over: " + m.reason
		s.Restarts++
		m.life.launch()
	case s.Phase == Failed && due(d.Start):
		m.cause = "tried again after " + short(m.policy.RetryFailed)
		s.Restarts++
		s.History.forget()
		m.life.launch()
	case s.Phase == Spawning && due(d.Spawn):
		m.life.park("no answer to the request to start it")
	case s.Phase == Starting && due(d.Ready):
		m.onNotReady()
	case s.Phase == Running && due(d.Watchdog):
		m.life.stop(StopWatchdog, "watchdog: no WATCHDOG=1 for "+short(m.life.watch.watchdog()))
	case s.Phase == Stopping && due(d.Stop):
		m.life.ending.kill()
	case s.Phase == Sweeping && due(d.Stop):
		m.life.ending.sweepKill()
	case s.Phase == Sweeping && due(d.Sweep):
		m.life.ending.sweepAgain()
	}
}

// onNotReady ends what is not ready in time. READY=1 of a process that was adopted may
// have been read by a supervisor that died before it could note that: to end a service
// that works would be worse than to trust one that hangs, which health check and
// watchdog will find.
func (m *step) onNotReady() {
	s := m.state
	if s.Adopted && m.policy.Ready == ReadyNotify {
		m.cause = "taken to be ready: a supervisor was replaced while it started"
		m.life.run()
		return
	}
	reason := "not ready within " + short(time.Duration(s.Deadlines.Ready-s.StartedAt-s.Deadlines.Stalled))
	if s.NotReady != "" {
		reason += ": " + s.NotReady
	}
	m.life.stop(StopNotReady, reason)
}
