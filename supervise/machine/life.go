package machine

import "time"

const (
	// spawnAnswer bounds the wait for tier 1's answer. Tier 1 itself reports a
	// stuck spawn much earlier; this is for a lost answer.
	spawnAnswer = 30 * time.Second
	// spawnRetry is the least wait after a spawn that failed because something was
	// short (memory, pids): trying again at once would make that worse.
	spawnRetry = 100 * time.Millisecond
)

// life changes the phase of a service, and decides what follows the end of a run.
type life struct {
	*call
	state  *State
	watch  watch
	ending ending
}

// enter changes the phase. It ends the probe and the deadlines of the old one. Only
// the deadline of a stop also applies to the sweep that follows.
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

// launch asks for a spawn, or waits for dependencies. Nothing of the last run may be
// left: finish is called only then.
func (l *life) launch() {
	l.watch.stopProbe() // before Run is cleared: a launch may follow a run at once
	s := l.state
	s.Run = Run{}
	s.NoRetry, s.Text = false, ""
	if l.policy.Deadline && s.Lease.At <= l.event.Now { // every start comes through here
		s.Want = WantDown
		l.becomeStopped()
		l.reason = "it needs a start with a deadline"
		return
	}
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

// park waits for the answer to a spawn without a deadline. It asks for no other spawn:
// when the kernel completes this one there would be two processes.
func (l *life) park(reason string) {
	l.enter(Parked)
	l.cause, l.reason = reason, reason
	if l.state.Want == WantDown {
		l.sendKill(l.state.ID)
	}
}

// begin begins a run whose process lives.
func (l *life) begin(at int64) {
	s, e := l.state, &l.event
	s.PID, s.StartTime = e.PID, e.StartTime
	s.StartedAt, s.StartedWall = at, e.Wall-(e.Now-at)
	s.History.countStart(at, &l.policy)
	l.reason = ""
	l.enter(Starting)
	switch {
	case s.Want == WantDown:
		l.stop(StopCommand, "")
	case s.StartAgain:
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

// stop begins to stop a live process.
func (l *life) stop(by StopBy, reason string) {
	l.enter(Stopping)
	l.reason = reason
	if by != StopCommand {
		l.cause = reason
	}
	l.ending.begin(by, reason)
}

// processEnded judges a run whose main process has ended, and sweeps its leftovers.
func (l *life) processEnded(x Exit) {
	s := l.state
	s.LastExit = &x
	s.LastWords = l.ending.judge(x)
	l.cause, l.reason = s.StopReason, s.StopReason
	s.Process = Process{}
	s.Leftovers = l.event.Leftovers
	if s.Leftovers <= 0 {
		l.finish()
		return
	}
	l.enter(Sweeping)
	l.ending.beginSweep(s.Want)
}

// finish completes a run: nothing of it lives, and tier 1 may forget it.
func (l *life) finish() {
	s := l.state
	if s.ID != 0 {
		l.do(Action{Kind: Acknowledge, ID: s.ID})
	}
	s.ID, s.Leftovers = 0, 0
	switch {
	case s.Want == WantDown:
		l.becomeStopped()
	case s.StartAgain, s.StopBy == StopCommand:
		l.cause += "; starts again"
		s.History.clear()
		l.launch()
	default:
		l.afterRun()
	}
}

// becomeStopped enters the phase that follows a stop or a remove.
func (l *life) becomeStopped() {
	if l.state.Removed {
		l.enter(Gone)
	} else {
		l.enter(Stopped)
	}
	l.state.Run = Run{}
	l.state.History.clear()
	l.reason = ""
	l.state.NoRetry = false
}

// fail gives up. The service is tried again after retry_failed, unless that would not
// help (a fatal exit code) or the policy is never to restart.
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
