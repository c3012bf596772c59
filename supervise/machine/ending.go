package machine

import (
	"cmp"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// killAgain is the pause between two SIGKILLs to a process that still lives.
	killAgain = time.Second
	// sweepFirst and sweepLast are the first and the longest pause between two sweeps.
	sweepFirst = 10 * time.Millisecond
	sweepLast  = 200 * time.Millisecond
)

// ending ends a run: first the main process, then its leftovers. It also judges how the
// run ended.
type ending struct {
	*call
	run *Run
	due *Deadlines // Stop, Sweep
}

// begin asks a live process to end. A process that said that it is stopping gets no
// signal, but has the same deadline.
func (g *ending) begin(by StopBy, reason string) {
	run := g.run
	run.StopBy, run.StopReason, run.Killed = by, reason, false
	g.due.Stop = g.event.after(g.timeout())
	run.StopMax = 0
	if run.StopWithin > 0 {
		run.StopMax = g.due.Stop
	}
	sig := g.policy.stopSignal()
	if by == StopWatchdog {
		sig = unix.SIGABRT
	}
	switch {
	case by == StopSelf:
	case sig == unix.SIGKILL, g.event.Kind == Stop && g.event.Hurry:
		g.kill()
	default:
		g.do(Action{Kind: Signal, ID: run.ID, Signal: sig, Scope: g.policy.stopScope()})
		// A suspended process (^Z, SIGSTOP) handles no other signal before SIGCONT.
		g.do(Action{Kind: Signal, ID: run.ID, Signal: unix.SIGCONT, Scope: g.policy.stopScope()})
	}
}

// limitStop notes how long this stop may take, if the command says so. A later
// command can only shorten that: both come from the container's stop budget.
func (g *ending) limitStop() {
	within := g.event.Within
	if g.event.Hurry {
		within = 1
	}
	if within > 0 && (g.run.StopWithin == 0 || within < g.run.StopWithin) {
		g.run.StopWithin = within
	}
}

func (g *ending) timeout() time.Duration {
	return cmp.Or(time.Duration(g.run.StopWithin), g.policy.StopTimeout)
}

// extend handles EXTEND_TIMEOUT_USEC= during a stop. A service that was found to hang
// cannot extend its stop, and no service can extend it beyond the stop budget.
func (g *ending) extend(at int64) {
	if g.run.Killed || g.run.byUs() {
		return
	}
	if g.run.StopMax != 0 {
		at = min(at, g.run.StopMax)
	}
	g.due.Stop = max(g.due.Stop, at)
}

// kill sends SIGKILL, and sets the deadline to send it again: a process may have
// forked while the first one was sent.
func (g *ending) kill() {
	switch {
	case g.run.Killed:
		g.reason = "still alive after SIGKILL: blocked in the kernel"
	case g.run.StopBy == StopSelf:
		g.run.StopReason = "it said that it was stopping, and was not gone after " + short(g.policy.StopTimeout)
	}
	g.run.Killed = true
	g.due.Stop = g.event.after(killAgain)
	g.sendKill(g.run.ID)
}

// judge decides how the run ended, and returns the facts that the exit alone does not tell.
func (g *ending) judge(x Exit) (words string) {
	run := g.run
	if run.Verdict = g.policy.Judge(x); run.byUs() {
		run.Verdict = VerdictFailure
	}
	run.GoodRun = g.wasGood()
	run.NeverReady = g.policy.Ready != ReadyAtOnce && run.ReadyAt == 0 && !run.ReadyEarly
	short := ""
	switch {
	case run.StopBy == StopNone:
		short = g.shortfall()
		run.StopReason = x.String() + short
	case !run.byUs():
		run.StopReason = x.String()
	}
	if run.byUs() || x.Memory != "" || short != "" {
		words = run.StopReason
	}
	if said := explained(run.StopReason, run.ReportedErrno, run.ReportedExit, &x); run.StopBy != StopCommand && said != run.StopReason {
		run.StopReason, words = said, said
	}
	return words
}

// byUs tells whether rlminit ended the run because of a fault of the service.
func (r *Run) byUs() bool {
	switch r.StopBy {
	case StopNotReady, StopUnhealthy, StopWatchdog:
		return true
	}
	return r.StopBy == StopSelf && r.Killed
}

// wasGood reports whether the run counts as healthy: it was healthy for reset_after
// after it became ready. A run that was ended for its health counts until its last
// sign of health; otherwise an immediate restart would follow every hang.
func (g *ending) wasGood() bool {
	until := g.event.Now
	if g.run.StopBy == StopUnhealthy || g.run.StopBy == StopWatchdog {
		until = g.run.GoodAt
	}
	return g.run.ReadyAt != 0 && until-g.run.ReadyAt >= int64(g.policy.ResetAfter)
}

// shortfall names the fault of a daemon that exits with success.
func (g *ending) shortfall() string {
	switch {
	case g.run.Verdict != VerdictSuccess || g.policy.Oneshot:
		return ""
	case g.event.Leftovers > 0:
		return ", having gone to the background: run it in the foreground"
	case g.run.NeverReady:
		return " before it was ready"
	}
	return ""
}

// beginSweep is the first sweep of a run's leftovers: they get TERM and time to end
// if the run ended as it should, and KILL at once after a crash.
func (g *ending) beginSweep(want Want) {
	run := g.run
	graceful := run.StopBy != StopNone && !run.Killed && g.due.Stop > g.event.Now
	fresh := run.StopBy == StopNone && (want == WantDown ||
		run.Verdict == VerdictSuccess || run.Verdict == VerdictRestart)
	if !graceful && !fresh {
		g.sweepKill()
		return
	}
	if fresh {
		g.due.Stop = g.event.after(g.timeout())
	}
	g.sweep(unix.SIGTERM, sweepFirst)
}

// sweepKill sweeps with SIGKILL from now on.
func (g *ending) sweepKill() {
	g.due.Stop = 0
	g.sweep(unix.SIGKILL, sweepFirst)
}

// sweepAgain looks whether leftovers still live. TERM is sent once: many programs
// take a second one as a demand to hurry.
func (g *ending) sweepAgain() {
	sig := g.run.SweepWith
	if sig != unix.SIGKILL {
		sig = 0
	}
	g.sweep(sig, min(time.Duration(g.run.SweepPause)*2, sweepLast))
}

func (g *ending) sweep(sig unix.Signal, pause time.Duration) {
	if sig != 0 {
		g.run.SweepWith = sig
	}
	g.run.SweepPause = int64(pause)
	g.due.Sweep = g.event.after(pause)
	g.reportLeftovers()
	g.do(Action{Kind: Sweep, ID: g.run.ID, Signal: sig})
}

// reportLeftovers sets the reason: how the run ended, and how many leftovers there are.
func (g *ending) reportLeftovers() { g.reason = leftText(g.run.StopReason, g.run.Leftovers) }
