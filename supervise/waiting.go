package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
	"rlminit/supervise/process"
)

// waiter is somebody who wants to know when a unit has come to the end of what
// was asked of it.
type waiter struct {
	// over tells whether it is over, and the problem if it went wrong.
	over    func(*unit) (bool, *control.Problem)
	then    func(*control.Problem) // called in place of an answer to outcome; nil: none
	outcome chan control.Outcome   // takes one without blocking
	changed bool
}

// waiters are those of one unit. Invariant: none of them is over, as long as answer
// was called after each change of the unit.
type waiters []*waiter

// answer tells those of u whose wait is over.
func (ws *waiters) answer(u *unit) {
	*ws = slices.DeleteFunc(*ws, func(w *waiter) bool {
		over, problem := w.over(u)
		switch {
		case over && w.then != nil:
			w.then(problem)
		case over:
			w.outcome <- control.Outcome{Service: u.status(), Changed: w.changed, Problem: problem}
		}
		return over
	})
}

// add has somebody wait for u, who is answered at once where there is nothing to
// wait for.
func (ws *waiters) add(u *unit, changed bool, over func(*unit) (bool, *control.Problem)) *waiter {
	w := &waiter{over: over, outcome: make(chan control.Outcome, 1), changed: changed}
	*ws = append(*ws, w)
	ws.answer(u)
	return w
}

// then calls then when it is over, at once where it is already.
func (ws *waiters) then(u *unit, over func(*unit) (bool, *control.Problem), then func(*control.Problem)) {
	*ws = append(*ws, &waiter{over: over, then: then})
	ws.answer(u)
}

// drop has w wait no more.
func (ws *waiters) drop(w *waiter) {
	*ws = slices.DeleteFunc(*ws, func(other *waiter) bool { return other == w })
}

// full are the reasons of a service that waits for room which only somebody else's
// end makes, perhaps that of the very command that asks for it.
var full = []string{handover.ErrNoTag.Error(), process.NoProcess}

// started is over when the first attempt to start a service has come to an end: a
// oneshot's with its work. One that failed is tried again, for which nobody waits: with
// a service that never gets ready that would have no end.
func started() func(*unit) (bool, *control.Problem) { return (&attempt{restarts: -1}).over }

// attempt is the first start of a service since a command.
type attempt struct {
	restarts int    // of the service when it was to begin; -1: it is yet to be
	failed   string // why it did; "": it did not
}

func (a *attempt) over(u *unit) (bool, *control.Problem) {
	if u.fault == "" && u.life.Turn() == order.NoTurn && u.state.Want == machine.WantUp {
		a.look(u.state)
	}
	if over, problem := came(u); a.failed == "" || over && problem != nil {
		return over, problem
	}
	why, next := a.failed+lastSaid(u.output.last), "it has been tried again, and is "+u.plight()
	if strings.HasPrefix(a.failed, "cannot ") { // and has said nothing
		why = a.failed
	}
	if u.state.Phase == machine.Backoff {
		next = "it is tried again in " + soon(u.state.Deadlines.Start)
	}
	return u.output.unheard == 0, control.Failed("%s is not up: %s; %s; see rlminit logs %s", u.title(), why, next, u.title()).Retry()
}

// look notes that the attempt failed. Where there is no delay none is to be seen between
// two.
func (a *attempt) look(s *machine.State) {
	if a.restarts < 0 {
		a.restarts = s.Restarts
	}
	switch {
	case a.failed != "":
	case s.Phase == machine.Backoff:
		a.failed = s.Reason
	case s.Restarts > a.restarts && s.LastExit != nil:
		a.failed = cmp.Or(s.LastWords, s.LastExit.String())
	}
}

// soon is how long it is until a time of the boot clock, for people.
func soon(at int64) string {
	left := time.Duration(max(0, at-boottime()))
	if left > time.Second {
		return left.Round(time.Second).String()
	}
	return max(left.Round(10*time.Millisecond), 10*time.Millisecond).String()
}

// came is over when a service has come to be as a start would have it, and when it will
// not do so by itself.
func came(u *unit) (bool, *control.Problem) {
	switch {
	case u.fault != "":
		return true, control.Failed("%s failed: %s", u.title(), u.fault)
	case u.state.Phase == machine.Gone:
		return true, control.Failed("%s was removed before it was ready", u.title())
	case u.life.Turn().Stops():
		return false, nil
	case u.state.Want != machine.WantUp && !u.state.Settled():
		return false, nil
	case u.state.Phase == machine.Failed, u.state.Phase == machine.Parked:
		return u.output.unheard == 0, u.failure()
	case u.state.Phase == machine.Waiting && u.life.Stuck():
		return true, control.Failed("%s is waiting: %s", u.title(), u.state.Blocked)
	case u.state.Phase == machine.Backoff && slices.Contains(full, u.state.Reason):
		return true, control.Failed("%s cannot be started yet: %s; it is tried again", u.title(), u.state.Reason).Retry()
	case u.state.Phase == machine.Exited && (u.state.Verdict != machine.VerdictSuccess || u.state.NeverReady):
		return u.output.unheard == 0, u.failure()
	case u.state.Want != machine.WantUp && u.state.Phase == machine.Stopped:
		return true, control.Conflict("%s was stopped before it was ready", u.title())
	}
	return u.state.Phase == machine.Running && !u.policy().Oneshot || u.state.Phase == machine.Exited, nil
}

// stopped is over when nothing of the service is left.
func stopped(u *unit) (bool, *control.Problem) {
	if u.state.Want == machine.WantUp && !u.life.Turn().Stops() {
		return true, control.Conflict("%s was started again before it had stopped", u.title())
	}
	return !u.active() && !u.life.Turn().Stops(), nil
}

// becameRunning is over when a service runs, and when it will not do so by
// itself. One that is stopped is waited for: somebody may start it.
func becameRunning(u *unit) (bool, *control.Problem) {
	switch {
	case u.fault != "":
		return true, control.Failed("%s failed: %s", u.title(), u.fault)
	case u.state.Phase == machine.Gone:
		return true, control.NewProblem(control.KindNoSuchName, u.title()+" was removed")
	case u.state.Phase == machine.Failed, u.state.Phase == machine.Parked:
		return u.output.unheard == 0, u.failure()
	case u.state.Phase == machine.Exited && !u.state.Satisfies(u.policy()):
		return true, control.Failed("%s has exited: %s; start it with rlminit start %s", u.title(), u.state.LastExit, u.title())
	}
	return u.state.Phase == machine.Running || u.state.Phase == machine.Exited, nil
}

// restarted is over when a run other than that of the spawn id has started.
func restarted(id uint64) func(*unit) (bool, *control.Problem) {
	anew := started()
	return func(u *unit) (bool, *control.Problem) {
		switch {
		case u.fault != "" && u.active(): // with the definition before, and left alone
			return true, control.Failed("%s is not restarted: %s", u.title(), u.fault)
		case u.life.Turn().Stops() || u.state.ID == id && u.active():
			return false, nil
		}
		return anew(u)
	}
}

// failure is the line of a service that failed, with what to do.
func (u *unit) failure() *control.Problem {
	why := u.state.Reason
	if strings.HasPrefix(why, "cannot run ") { // it has nothing to do with what an earlier run logged
		return control.Failed("%s: %s", u.title(), why)
	}
	why += lastSaid(u.output.last)
	return control.Failed("%s failed: %s; see rlminit logs %s, then rlminit start %s", u.title(), why, u.title(), u.title())
}

// lastSaid is what follows on a reason, of what a run said last.
func lastSaid(line string) string {
	if line == "" {
		return ""
	}
	return fmt.Sprintf(", %q", line)
}

// await waits for a waiter's outcome, as long as the caller does.
func (m *mailbox) await(ctx context.Context, u *unit, w *waiter, wait *control.Wait) control.Outcome {
	began := time.Now()
	if wait != nil && wait.TimeoutMS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(wait.TimeoutMS)*time.Millisecond)
		defer cancel()
	}
	select {
	case outcome := <-w.outcome:
		return outcome
	case <-ctx.Done():
	}
	var outcome control.Outcome
	m.ask(func() {
		select {
		case outcome = <-w.outcome: // it came in between
			return
		default:
		}
		u.waiters.drop(w)
		outcome = control.Outcome{Service: u.status(), Changed: w.changed}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			outcome.Problem = control.TimedOut(u.title(), outcome.Service.State, time.Since(began), "status "+u.title())
		}
	})
	return outcome
}

// until waits until something is over for u, or ctx is.
func (m *mailbox) until(ctx context.Context, u *unit, over func(*unit) (bool, *control.Problem)) {
	var w *waiter
	m.ask(func() { w = u.waiters.add(u, false, over) })
	select {
	case <-w.outcome:
	case <-ctx.Done():
		m.ask(func() { u.waiters.drop(w) })
	}
}
