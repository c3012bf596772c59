package machine

import "time"

const (
	// spawnAnswer bounds the wait for tier 1's answer. Tier 1 itself reports a
	// stuck spawn much earlier; this is for a lost answer.
	spawnAnswer = 30 * time.Second
	// spawnRetry is the least wait after a spawn that failed for want of
	// something (memory, pids): trying at once would make the want worse.
	spawnRetry = 100 * time.Millisecond
)

// life is the way of a service through its phases: from one to the next, and from the
// end of a run to what follows.
type life struct {
	*turn
	state  *State
	watch  watch
	ending ending
}

// enter changes the phase. What belonged to the old one ends here: its probe
// and its deadlines. Only the deadline of a stop reaches over to the sweep that
// completes it.
func (l *life) enter(ph Phase) {
	l.watch.stopProbe()
	s := l.state
	stop := s.Deadlines.Stop
	s.Deadlines = Deadlines{}
	if s.Phase == Stopping && ph == Sweeping {
		s.Deadlines.Stop = stop
	}
	s.Phase = ph
}

// launch asks for a spawn, or waits for what is required. Nothing of the last
// run may be left: over saw to that.
func (l *life) launch() {
	l.watch.stopProbe() // before it is forgotten: what ran may end in a launch at once
	s := l.state
	s.Run = Run{}
	s.NoRetry, s.Text = false, ""
	l.reason = s.Blocked
	if s.Blocked != "" {
		l.enter(Waiting)
		return
	}
	l.enter(Spawning)
	s.ID = max(l.event.NextID, s.LastID+1)
	s.LastID = s.ID
	s.Deadlines.Spawn = l.event.after(spawnAnswer)
	l.do(Action{Kind: Spawn, ID: s.ID})
}

// park waits for the answer to a spawn without any deadline. No other spawn is
// asked for: when this one comes free there would be two.
func (l *life) park(reason string) {
	l.enter(Parked)
	l.cause, l.reason = reason, reason
	if l.state.Want == WantDown {
		l.sendKill(l.state.ID)
	}
}

// begin is the start of a run: the process lives.
func (l *life) begin(at int64) {
	s, e := l.state, &l.event
	s.PID, s.StartTime = e.PID, e.StartTime
	s.StartedAt, s.StartedWall = at, e.Wall-(e.Now-at)
	s.History.started(at, &l.policy)
	l.reason = ""
	l.enter(Starting)
	switch {
	case s.Want == WantDown:
		l.stop(StopCommand, "")
	case s.Again:
		l.stop(StopCommand, "started before the last command")
	case l.policy.Ready == ReadyAtOnce || s.ReadyEarly:
		l.run()
	default:
		l.watch.untilReady()
	}
}

// run makes a live service a running one.
func (l *life) run() {
	l.enter(Running)
	l.reason = ""
	l.watch.ready()
}

// stop begins to end a live process.
func (l *life) stop(by StopBy, reason string) {
	l.enter(Stopping)
	l.reason = reason
	if by != StopCommand {
		l.cause = reason
	}
	l.ending.begin(by, reason)
}

// ended settles how a run ended, and sweeps what it left.
func (l *life) ended(x Exit) {
	s := l.state
	s.LastExit = &x
	s.LastWords = l.ending.judge(x)
	l.cause, l.reason = s.StopReason, s.StopReason
	s.Process = Process{}
	s.Leftovers = l.event.Leftovers
	if s.Leftovers <= 0 {
		l.over()
		return
	}
	l.enter(Sweeping)
	l.ending.beginSweep(s.Want)
}

// over is the end of a run: nothing of it lives, tier 1 may forget it.
func (l *life) over() {
	s := l.state
	if s.ID != 0 {
		l.do(Action{Kind: Acknowledge, ID: s.ID})
	}
	s.ID, s.Leftovers = 0, 0
	switch {
	case s.Want == WantDown:
		l.rest()
	case s.Again, s.StopBy == StopCommand:
		l.cause += "; starts again"
		s.History.forget()
		l.launch()
	default:
		l.afterRun()
	}
}

// rest ends in the state that a person who said stop or remove expects.
func (l *life) rest() {
	if l.state.Removed {
		l.enter(Gone)
	} else {
		l.enter(Stopped)
	}
	l.state.Run = Run{}
	l.state.History.forget()
	l.reason = ""
	l.state.NoRetry = false
}

// fail gives up. It is tried again after retry_failed, unless that would not
// help (a fatal exit code) or the policy is to restart nothing.
func (l *life) fail(reason string, retry bool) {
	l.enter(Failed)
	l.state.Run = Run{}
	l.cause, l.reason = reason, reason
	l.state.NoRetry = !retry
	l.armRetry()
}

func (l *life) armRetry() {
	s := l.state
	s.NoRetry = s.NoRetry || l.policy.Restart == restartNo
	s.Deadlines.Start = 0
	if !s.NoRetry && l.policy.RetryFailed > 0 {
		s.Deadlines.Start = l.event.after(l.policy.RetryFailed)
	}
}
