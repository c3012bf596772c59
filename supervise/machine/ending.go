package machine

import (
	"cmp"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// killAgain is the pause between two SIGKILLs of a process that does not go.
	killAgain = time.Second
	// sweepFirst and sweepLast bound the pauses between two looks at what is left.
	sweepFirst = 10 * time.Millisecond
	sweepLast  = 200 * time.Millisecond
)

// ending brings a run to its end, the process first and then what that has left, and
// says how it ended.
type ending struct {
	*turn
	run *Run
	due *Deadlines // Stop, Sweep
}

// begin asks a live process to end. One that says that it is stopping ends by itself,
// and only the deadline is ours.
func (g *ending) begin(by StopBy, reason string) {
	run := g.run
	run.StopBy, run.StopReason, run.Killed = by, reason, false
	g.due.Stop = g.event.after(g.within())
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
		// A stopped process (^Z, SIGSTOP) gets no other signal before this one.
		g.do(Action{Kind: Signal, ID: run.ID, Signal: unix.SIGCONT, Scope: g.policy.stopScope()})
	}
}

// bound notes how long this stop may take, if the command says so. A later
// command may shorten it only: the first came from the same budget.
func (g *ending) bound() {
	within := g.event.Within
	if g.event.Hurry {
		within = 1
	}
	if within > 0 && (g.run.StopWithin == 0 || within < g.run.StopWithin) {
		g.run.StopWithin = within
	}
}

func (g *ending) within() time.Duration {
	return cmp.Or(time.Duration(g.run.StopWithin), g.policy.StopTimeout)
}

// extend is EXTEND_TIMEOUT_USEC= in a stop. A service that hangs does not get to say
// so, nor can one outlast a stop that has a budget.
func (g *ending) extend(at int64) {
	if g.run.Killed || g.run.byUs() {
		return
	}
	if g.run.StopMax != 0 {
		at = min(at, g.run.StopMax)
	}
	g.due.Stop = max(g.due.Stop, at)
}

// kill sends SIGKILL, and sees to it that it is sent again: a fork may have
// slipped past the first one.
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

// judge settles how the run ended, and returns what its exit alone does not tell.
func (g *ending) judge(x Exit) (words string) {
	run := g.run
	if run.Verdict = g.policy.judge(x); run.byUs() {
		run.Verdict = VerdictFailure
	}
	run.GoodRun = g.wasGood()
	run.NeverReady = g.policy.Ready != ReadyAtOnce && run.ReadyAt == 0 && !run.ReadyEarly
	switch {
	case run.StopBy == StopNone:
		run.StopReason = x.String() + g.shortfall()
	case !run.byUs():
		run.StopReason = x.String()
	}
	if run.byUs() || x.Memory != "" {
		words = run.StopReason
	}
	if said := explained(run.StopReason, run.ToldErrno, run.ToldExit, &x); run.StopBy != StopCommand && said != run.StopReason {
		run.StopReason, words = said, said
	}
	return words
}

// byUs tells whether the run had to be ended, for the service's own fault.
func (r *Run) byUs() bool {
	switch r.StopBy {
	case StopNotReady, StopUnhealthy, StopWatchdog:
		return true
	}
	return r.StopBy == StopSelf && r.Killed
}

// wasGood reports whether the run counts as healthy: it was ready, and well for
// reset_after from then on. One that was ended for its health was well until the
// last sign of it, or every hang would be followed by an immediate restart.
func (g *ending) wasGood() bool {
	until := g.event.Now
	if g.run.StopBy == StopUnhealthy || g.run.StopBy == StopWatchdog {
		until = g.run.GoodAt
	}
	return g.run.ReadyAt != 0 && until-g.run.ReadyAt >= int64(g.policy.ResetAfter)
}

// shortfall says what is wrong with the exit of a daemon that calls it success.
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

// beginSweep is the first look at what a run left: TERM and time to go if it
// ended as it should, KILL at once after a crash.
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
		g.due.Stop = g.event.after(g.within())
	}
	g.sweep(unix.SIGTERM, sweepFirst)
}

// sweepKill turns to SIGKILL, at once.
func (g *ending) sweepKill() {
	g.due.Stop = 0
	g.sweep(unix.SIGKILL, sweepFirst)
}

// sweepAgain looks whether all have gone. TERM is sent once: to many programs a
// second one means hurry.
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
	g.tellLeft()
	g.do(Action{Kind: Sweep, ID: g.run.ID, Signal: sig})
}

// tellLeft has the status say how the run ended, and how many of it are left.
func (g *ending) tellLeft() { g.reason = leftText(g.run.StopReason, g.run.Leftovers) }
