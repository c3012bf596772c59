package machine

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const sigKill = unix.SIGKILL

func (m *step) onSpawned() {
	switch {
	case m.event.ID > m.LastID:
		// Nobody here asked for it. Two of one service must never live.
		m.LastID = m.event.ID
		m.do(Action{Kind: Signal, ID: m.event.ID, Signal: sigKill, Scope: ScopeGroup})
	case m.event.ID == m.ID && (m.Phase == Spawning || m.Phase == Parked):
		m.cause = "its process is there"
		m.begin(m.event.Now)
	}
}

// begin is the start of a run: the process lives.
func (m *step) begin(at int64) {
	m.PID, m.StartTime = m.event.PID, m.event.StartTime
	m.countStart(at)
	m.Reason = ""
	m.enter(Starting)
	switch {
	case m.Want == WantDown:
		m.stopMain(StopCommand, "", m.stopSignal())
	case m.Again:
		m.stopMain(StopCommand, "started before the last command", m.stopSignal())
	case m.policy.Ready == ReadyAtOnce || m.ReadyEarly:
		m.run()
	default:
		m.awaitReady()
	}
}

// countStart records a start, and forgets those that limit and window no longer
// need. The slice is copied: the old State keeps its own.
func (m *step) countStart(at int64) {
	m.StartedAt = at
	m.StartedWall = m.event.Wall - (m.event.Now - at)
	if m.policy.Limit <= 0 {
		m.Starts = nil
		return
	}
	old := m.Starts
	if n := len(old) - m.policy.Limit + 1; n > 0 {
		old = old[n:]
	}
	for len(old) > 0 && old[0] <= at-int64(m.policy.Window) {
		old = old[1:]
	}
	m.Starts = append(slices.Clone(old), at)
}

// stopMain begins to end a live process. sig 0 sends nothing: the service ends
// by itself, and only the deadline is ours.
func (m *step) stopMain(by StopBy, reason string, sig unix.Signal) {
	m.enter(Stopping)
	m.StopBy, m.StopReason, m.Killed = by, reason, false
	m.Reason = reason
	if by != StopCommand {
		m.cause = reason
	}
	m.Deadlines.Stop = m.after(m.within())
	m.StopMax = 0
	if m.StopWithin > 0 {
		m.StopMax = m.Deadlines.Stop
	}
	if m.event.Kind == Stop && m.event.Hurry {
		sig = sigKill
	}
	switch sig {
	case 0:
	case sigKill:
		m.kill()
	default:
		m.do(Action{Kind: Signal, Signal: sig, Scope: m.scope()})
		// A stopped process (^Z, SIGSTOP) gets no other signal before this one.
		m.do(Action{Kind: Signal, Signal: unix.SIGCONT, Scope: m.scope()})
	}
}

// kill sends SIGKILL, and sees to it that it is sent again: a fork may have
// slipped past the first one.
func (m *step) kill() {
	switch {
	case m.Killed:
		m.Reason = "still alive after SIGKILL: blocked in the kernel"
	case m.StopBy == StopSelf:
		m.StopReason = "it said that it was stopping, and was not gone after " + short(m.policy.StopTimeout)
	}
	m.Killed = true
	m.Deadlines.Stop = m.after(killAgain)
	m.do(Action{Kind: Signal, Signal: sigKill, Scope: ScopeGroup})
}

func (m *step) within() time.Duration {
	if m.StopWithin > 0 {
		return time.Duration(m.StopWithin)
	}
	return m.policy.StopTimeout
}

func (m *step) stopSignal() unix.Signal {
	if m.policy.StopSignal == 0 {
		return unix.SIGTERM
	}
	return m.policy.StopSignal
}

func (m *step) scope() Scope {
	if m.policy.StopScope == ScopeMain {
		return ScopeMain
	}
	return ScopeGroup
}

func (m *step) onSpawnFailed() {
	if m.event.ID != m.ID || m.Phase != Spawning && m.Phase != Parked {
		return
	}
	reason := m.event.Reason
	if reason == "" {
		reason = "it could not be started"
	}
	m.cause = reason
	m.ID = 0
	switch {
	case m.Want == WantDown:
		m.rest()
	case m.Again:
		m.resetHistory()
		m.launch()
	case m.event.Temporary:
		// The machine's fault, not the service's: no start is counted, and it is
		// tried for as long as it takes.
		m.backOff(max(m.nextDelay(), spawnRetry), reason)
	default:
		m.fail(reason, true)
	}
}

func (m *step) onSpawnStuck() {
	if m.event.ID == m.ID && m.Phase == Spawning {
		reason := m.event.Reason
		if reason == "" {
			reason = "the start is stuck in the kernel"
		}
		m.park(reason)
	}
}

// park waits for the answer to a spawn without any deadline. No other spawn is
// asked for: when this one comes free there would be two.
func (m *step) park(reason string) {
	m.enter(Parked)
	m.cause, m.Reason = reason, reason
	if m.Want == WantDown {
		m.do(Action{Kind: Signal, Signal: sigKill, Scope: ScopeGroup})
	}
}

func (m *step) onExited() {
	e := m.event
	if e.ID == 0 {
		return
	}
	if e.ID != m.ID {
		// A run that was settled long ago, and tier 1 does not know it.
		m.LastID = max(m.LastID, e.ID)
		m.do(Action{Kind: Acknowledge, ID: e.ID})
		return
	}
	if m.Phase == Sweeping { // said again
		return
	}
	if m.Phase == Spawning || m.Phase == Parked { // it went before it was announced
		m.countStart(e.Now)
	}
	m.ended(m.exit())
}

// exit is the one that the event tells of.
func (m *step) exit() Exit {
	e := m.event
	x := Exit{Code: e.Code, Signal: e.Signal, Wall: e.Wall}
	if !m.Killed { // or it was we who sent KILL
		x.Memory = e.Memory
	}
	return x
}

// ended settles how a run ended, and sweeps what it left.
func (m *step) ended(x Exit) {
	m.LastExit = &x
	m.Verdict = m.judge(x)
	m.GoodRun = m.wasGood()
	m.NeverReady = m.policy.Ready != ReadyAtOnce && m.ReadyAt == 0 && !m.ReadyEarly
	switch m.StopBy {
	case StopNone:
		m.StopReason = x.String() + m.shortfall()
	case StopCommand:
		m.StopReason = x.String()
	case StopSelf:
		if !m.Killed {
			m.StopReason = x.String()
		}
	}
	m.LastWords = ""
	if m.endedByUs() || x.Memory != "" {
		m.LastWords = m.StopReason
	}
	if said := explained(m.StopReason, m.ToldErrno, m.ToldExit, m.LastExit); m.StopBy != StopCommand && said != m.StopReason {
		m.StopReason, m.LastWords = said, said
	}
	m.cause, m.Reason = m.StopReason, m.StopReason
	m.Process = Process{}

	m.Leftovers = m.event.Leftovers
	if m.Leftovers <= 0 {
		m.over()
		return
	}
	m.beginSweep()
}

// shortfall says what is wrong with the exit of a daemon that calls it success.
func (m *step) shortfall() string {
	switch {
	case m.Verdict != VerdictSuccess || m.policy.Oneshot:
		return ""
	case m.event.Leftovers > 0:
		return ", having gone to the background: run it in the foreground"
	case m.NeverReady:
		return " before it was ready"
	}
	return ""
}

// judge classifies an exit. One that we brought about, other than by command,
// is a failure whatever its code.
func (m *step) judge(x Exit) Verdict {
	if m.endedByUs() {
		return VerdictFailure
	}
	p := m.policy
	switch {
	case x.Signal != 0 || x.Lost:
		return VerdictFailure
	case slices.Contains(p.ExitFatal, x.Code):
		return VerdictFatal
	case slices.Contains(p.ExitRestart, x.Code):
		return VerdictRestart
	case slices.Contains(p.ExitSuccess, x.Code):
		return VerdictSuccess
	}
	return VerdictFailure
}

// endedByUs tells whether the run had to be ended, for the service's own fault.
func (m *step) endedByUs() bool {
	switch m.StopBy {
	case StopNotReady, StopUnhealthy, StopWatchdog:
		return true
	}
	return m.StopBy == StopSelf && m.Killed
}

// wasGood reports whether the run counts as healthy: it was ready, and well for
// reset_after from then on. One that was ended for its health was well until the
// last sign of it, or every hang would be followed by an immediate restart.
func (m *step) wasGood() bool {
	if m.ReadyAt == 0 {
		return false
	}
	until := m.event.Now
	if m.StopBy == StopUnhealthy || m.StopBy == StopWatchdog {
		until = m.GoodAt
	}
	return until-m.ReadyAt >= int64(m.policy.ResetAfter)
}

// beginSweep is the first look at what a run left: TERM and time to go if it
// ended as it should, KILL at once after a crash.
func (m *step) beginSweep() {
	graceful := m.StopBy != StopNone && !m.Killed && m.Deadlines.Stop > m.event.Now
	fresh := m.StopBy == StopNone && (m.Want == WantDown ||
		m.Verdict == VerdictSuccess || m.Verdict == VerdictRestart)
	m.enter(Sweeping)
	if !graceful && !fresh {
		m.sweepKill()
		return
	}
	if fresh {
		m.Deadlines.Stop = m.after(m.within())
	}
	m.sweep(unix.SIGTERM, sweepFirst)
}

// sweepKill turns to SIGKILL, at once.
func (m *step) sweepKill() {
	m.Deadlines.Stop = 0
	m.sweep(sigKill, sweepFirst)
}

// sweepAgain looks whether all have gone. TERM is sent once: to many programs a
// second one means hurry.
func (m *step) sweepAgain() {
	pause := min(time.Duration(m.SweepPause)*2, sweepLast)
	if m.SweepWith == sigKill {
		m.sweep(sigKill, pause)
	} else {
		m.sweep(0, pause)
	}
}

func (m *step) sweep(sig unix.Signal, pause time.Duration) {
	if sig != 0 {
		m.SweepWith = sig
	}
	m.SweepPause = int64(pause)
	m.Deadlines.Sweep = m.after(pause)
	m.Reason = leftText(m.StopReason, m.Leftovers)
	m.do(Action{Kind: Sweep, Signal: sig})
}

func (m *step) onSwept() {
	if m.event.ID != m.ID || m.Phase != Sweeping {
		return
	}
	m.Leftovers = m.event.Remaining
	if m.Leftovers > 0 {
		m.Reason = leftText(m.StopReason, m.Leftovers)
		return
	}
	m.cause = m.StopReason
	m.over()
}

// over is the end of a run: nothing of it lives, tier 1 may forget it.
func (m *step) over() {
	if m.ID != 0 {
		m.do(Action{Kind: Acknowledge})
	}
	m.ID, m.Leftovers = 0, 0
	switch {
	case m.Want == WantDown:
		m.rest()
	case m.Again, m.StopBy == StopCommand:
		m.cause += "; starts again"
		m.resetHistory()
		m.launch()
	default:
		m.afterRun()
	}
}
