package machine

import (
	"time"

	"golang.org/x/sys/unix"
)

// Step is the machine: it returns the state that s becomes under p when e happens,
// and what is to be done. It is pure and total; see the package comment.
func Step(s State, p Policy, e Event) (State, []Action) {
	before, id := s.Public(), s.ID
	t := call{policy: p, event: e, cause: string(e.Kind), reason: s.Reason}
	if e.Cause != "" {
		t.cause = e.Cause
	}
	m := handler{&t, &s, life{&t, &s, watch{&t, &s.Run, &s.Deadlines}, ending{&t, &s.Run, &s.Deadlines}}}
	m.handle()
	t.arm(&s.Timer, s.Deadlines.earliest())
	s.Reason = t.reason
	if s.Public() != before || s.ID != id && s.ID != 0 {
		s.Since, s.Cause, s.Actor = e.Wall, t.cause, e.Actor
	}
	return s, t.actions
}

// call is one call of Step: the event and the policy, and what Step returns besides
// the phase.
type call struct {
	policy  Policy
	event   Event
	actions []Action
	cause   string // of the transition, if there is one
	reason  string // State.Reason, when the call is over
}

func (t *call) do(a Action) { t.actions = append(t.actions, a) }

func (t *call) sendKill(id uint64) {
	t.do(Action{Kind: Signal, ID: id, Signal: unix.SIGKILL, Scope: ScopeGroup})
}

// arm sets the timer to the earliest deadline. A supervisor that has just adopted the
// service has no timer yet, whatever the State says.
func (t *call) arm(slot *Timer, next int64) {
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

// handler handles an event in the phase that the service is in.
type handler struct {
	*call
	state *State
	life  life
}

func (m *handler) handle() {
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
	case Prolong:
		m.onProlong()
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
		a := adoption{m.call, m.state, m.life}
		a.reconcile()
	case TimerFired:
		m.onTimer()
	case Stalled: // a stop with a budget is not moved: the core keeps the budget
		m.state.Deadlines.stall(m.event.Within, m.state.StopMax == 0)
	case Trouble:
		m.onTrouble()
	default:
		if m.state.ID != 0 && m.event.ID == m.state.ID {
			m.onReport()
		}
	}
}

// onTimer handles the deadline that has passed. A timer of an older generation does
// nothing, and one that fires early is armed again.
func (m *handler) onTimer() {
	s := m.state
	if s.Timer.At == 0 || m.event.Generation != s.Timer.Generation {
		return
	}
	s.Timer.At = 0
	due := func(at int64) bool { return at != 0 && at <= m.event.Now }
	switch d := s.Deadlines; {
	case s.Phase == Backoff && due(d.Start):
		m.cause = "back-off is over: " + m.reason
		s.History.countRestart(m.event.Now)
		m.life.launch()
	case s.Phase == Failed && due(d.Start):
		m.cause = "tried again after " + short(m.policy.RetryFailed)
		s.History.countRestart(m.event.Now)
		s.History.clear()
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

// onNotReady stops a service that is not ready in time. An adopted process is taken to be
// ready: the old supervisor may have read its READY=1 and died before it could note that.
// To stop a service that works would be worse than to trust one that hangs, which health
// check and watchdog will find.
func (m *handler) onNotReady() {
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
