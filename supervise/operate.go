package supervise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/supervise/machine"
)

// waiter is somebody who wants to know when a unit has come to the end of what
// was asked of it.
type waiter struct {
	// over tells whether it is over, and the problem if it went wrong.
	over    func(*unit) (bool, *control.Problem)
	outcome chan control.Outcome // takes one without blocking
	changed bool
}

// answer tells those waiters of u whose wait is over.
func (s *Supervisor) answer(u *unit) {
	u.waiters = slices.DeleteFunc(u.waiters, func(w *waiter) bool {
		over, problem := w.over(u)
		if over {
			w.outcome <- control.Outcome{Service: u.status(), Changed: w.changed, Problem: problem}
		}
		return over
	})
}

// wait adds a waiter to u, and answers it at once where there is nothing to
// wait for.
func (s *Supervisor) wait(u *unit, changed bool, over func(*unit) (bool, *control.Problem)) *waiter {
	w := &waiter{over: over, outcome: make(chan control.Outcome, 1), changed: changed}
	u.waiters = append(u.waiters, w)
	s.answer(u)
	return w
}

// started is over when a start has come to an end: a oneshot's with its work.
func started(u *unit) (bool, *control.Problem) {
	switch {
	case u.fault != "":
		return true, control.Failed("%s failed: %s", u.title(), u.fault)
	case u.state.Phase == machine.Gone:
		return true, control.Failed("%s was removed before it was ready", u.title())
	case u.state.Want != machine.WantUp && !u.state.Settled():
		return false, nil
	case u.state.Phase == machine.Failed, u.state.Phase == machine.Parked:
		return u.unheard == 0, u.failure()
	case u.state.Phase == machine.Waiting && u.stuck:
		return true, control.Failed("%s is waiting: %s", u.title(), u.state.Blocked)
	case u.state.Phase == machine.Backoff && u.state.Reason == errNoTag.Error(): // until a service is removed
		return true, control.Failed("%s cannot be started yet: %v", u.title(), errNoTag)
	case u.state.Phase == machine.Exited && (u.state.Verdict != machine.VerdictSuccess || u.state.NeverReady):
		return u.unheard == 0, u.failure()
	case u.state.Want != machine.WantUp && u.state.Phase == machine.Stopped:
		return true, control.Conflict("%s was stopped before it was ready", u.title())
	}
	return u.state.Phase == machine.Running && !u.policy.Oneshot || u.state.Phase == machine.Exited, nil
}

// stopped is over when nothing of the service is left.
func stopped(u *unit) (bool, *control.Problem) {
	if u.state.Want == machine.WantUp && u.stop == nil {
		return true, control.Conflict("%s was started again before it had stopped", u.title())
	}
	return !u.active() && u.stop == nil, nil
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
		return u.unheard == 0, u.failure()
	case u.state.Phase == machine.Exited && !u.state.Satisfies(u.policy):
		return true, control.Failed("%s has exited: %s; start it with rlminit start %s", u.title(), u.state.LastExit, u.title())
	}
	return u.state.Phase == machine.Running || u.state.Phase == machine.Exited, nil
}

// restarted is over when a run other than that of the spawn id has started.
func restarted(id uint64) func(*unit) (bool, *control.Problem) {
	return func(u *unit) (bool, *control.Problem) {
		switch {
		case u.fault != "" && u.active(): // with the definition before, and left alone
			return true, control.Failed("%s is not restarted: %s", u.title(), u.fault)
		case u.stop != nil || u.state.ID == id && u.active():
			return false, nil
		}
		return started(u)
	}
}

// title is how a person names the unit: a gateway by its profile.
func (u *unit) title() string {
	if u.definition.Profile != "" {
		return u.definition.Profile
	}
	return u.name
}

// failure is the line of a service that failed, with what to do.
func (u *unit) failure() *control.Problem {
	why := u.state.Reason
	if strings.HasPrefix(why, "cannot run ") { // it has nothing to do with what an earlier run logged
		return control.Failed("%s: %s", u.title(), why)
	}
	if u.lastLine != "" {
		why += fmt.Sprintf(", %q", u.lastLine)
	}
	return control.Failed("%s failed: %s; see rlminit logs %s, then rlminit start %s", u.title(), why, u.title(), u.title())
}

// verb is what a command does to units that exist.
type verb struct {
	name    string
	intent  string // what it makes a person's intent; "": leaves it as it is
	needed  func(*unit) bool
	apply   func(*Supervisor, []*unit, machine.Event)
	outcome func(*unit) func(*unit) (bool, *control.Problem)
}

// wanted tells whether u is to run, after a stop that has yet to begin too.
func (u *unit) wanted() bool {
	return u.state.Want == machine.WantUp && (u.stop == nil || u.stop.event.Kind != machine.Stop)
}

func always(over func(*unit) (bool, *control.Problem)) func(*unit) func(*unit) (bool, *control.Problem) {
	return func(*unit) func(*unit) (bool, *control.Problem) { return over }
}

func stepEach(s *Supervisor, kind machine.EventKind, units []*unit, e machine.Event) {
	for _, u := range units {
		overruled := u.stop != nil
		u.stop = nil // a later command overrules a stop that has yet to begin
		e.Kind = kind
		s.step(u, e)
		if overruled {
			s.ripple(u)
		}
	}
}

func startUnits(s *Supervisor, units []*unit, e machine.Event) {
	stepEach(s, machine.Start, units, e)
}

var (
	verbStart = verb{
		name: "start", intent: "running",
		needed:  func(u *unit) bool { return !u.wanted() || u.stop != nil || u.state.Phase != machine.Running },
		apply:   startUnits,
		outcome: always(started),
	}
	verbStop = verb{
		name: "stop", intent: "stopped",
		needed:  func(u *unit) bool { return u.state.Want == machine.WantUp || u.active() },
		apply:   stopUnits,
		outcome: always(stopped),
	}
	verbRestart = verb{
		name: "restart", intent: "running",
		needed: func(*unit) bool { return true },
		apply:  restartUnits,
		outcome: func(u *unit) func(*unit) (bool, *control.Problem) {
			return restarted(u.state.ID)
		},
	}
)

// operate carries out a command on the units, and on those that go along with
// them: it makes the intent durable, and only then acts, on those for which that
// succeeded. With wait it answers when the outcome is known or ctx ends.
func (s *Supervisor) operate(ctx context.Context, v verb, units, along []*unit, actor uint32, wait *control.Wait) []control.Outcome {
	release := oneAtATime(append(slices.Clone(units), along...))
	if problem := s.refusal(v); problem != nil {
		release()
		return failAll(units, problem)
	}
	var refused map[*unit]*control.Problem
	if v.intent != "" {
		refused = s.recordIntents(units, along, v.intent)
	}
	outcomes := make([]control.Outcome, len(units))
	waiters := make([]*waiter, len(units))
	s.ask(func() {
		event := machine.Event{Cause: fmt.Sprintf("%s by uid %d", v.name, actor), Actor: &actor}
		changed := make([]bool, len(units))
		over := make([]func(*unit) (bool, *control.Problem), len(units))
		act := slices.DeleteFunc(slices.Clone(along), func(u *unit) bool { return refused[u] != nil })
		for i, u := range units {
			if refused[u] != nil || u.fault != "" && v.intent == "running" {
				continue
			}
			if changed[i] = v.needed(u); changed[i] {
				act = append(act, u)
			}
		}
		for i, u := range units {
			over[i] = v.outcome(u)
		}
		v.apply(s, act, event)
		for i, u := range units {
			if problem := refused[u]; problem != nil {
				outcomes[i] = control.Outcome{Service: u.status(), Problem: problem}
				continue
			}
			if wait == nil {
				outcomes[i] = control.Outcome{Service: u.status(), Changed: changed[i]}
				continue
			}
			waiters[i] = s.wait(u, changed[i], over[i])
		}
	})
	release()
	for i, w := range waiters {
		if w != nil {
			outcomes[i] = s.await(ctx, units[i], w, wait)
		}
	}
	if wait != nil {
		s.written(flushPatience)
	} else {
		brief, cancel := context.WithTimeout(ctx, flushPatience)
		defer cancel()
		s.publisher.flush(brief) // what is acknowledged must be known to a successor
	}
	return outcomes
}

// refusal is why a command is not even recorded.
func (s *Supervisor) refusal(v verb) (problem *control.Problem) {
	s.ask(func() {
		if s.stopping {
			problem = control.Conflict("cannot %s anything: the container is stopping", v.name)
		}
	})
	return problem
}

// oneAtATime keeps the commands on a unit in one order, on the volume and in the
// loop: or what was acknowledged last might not be what is recorded.
func oneAtATime(units []*unit) (release func()) {
	slices.SortFunc(units, byName) // in one order, lest two commands wait for each other
	units = slices.Compact(units)
	for _, u := range units {
		u.commands.Lock()
	}
	return func() {
		for _, u := range units {
			u.commands.Unlock()
		}
	}
}

// failAll is the outcome of a command that could not be carried out at all.
func failAll(units []*unit, problem *control.Problem) []control.Outcome {
	outcomes := make([]control.Outcome, len(units))
	for i, u := range units {
		outcomes[i] = control.Outcome{Service: control.Service{Name: u.name}, Problem: problem}
	}
	return outcomes
}

// flushPatience is how long an answer is held back for files to show it.
const flushPatience = 300 * time.Millisecond

// await waits for a waiter's outcome, as long as the caller does.
func (s *Supervisor) await(ctx context.Context, u *unit, w *waiter, wait *control.Wait) control.Outcome {
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
	s.ask(func() {
		select {
		case outcome = <-w.outcome: // it came in between
			return
		default:
		}
		u.waiters = slices.DeleteFunc(u.waiters, func(other *waiter) bool { return other == w })
		outcome = control.Outcome{Service: u.status(), Changed: w.changed}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			outcome.Problem = control.TimedOut(u.title(), outcome.Service.State, time.Since(began))
		}
	})
	return outcome
}

// stopUnits stops units in reverse order of dependency.
func stopUnits(s *Supervisor, units []*unit, e machine.Event) {
	s.stopInOrder(machine.Stop, units, e)
}

// restartUnits restarts those that run in reverse order of dependency. What
// requires one that does not run does without it already.
func restartUnits(s *Supervisor, units []*unit, e machine.Event) {
	var running, rest []*unit
	for _, u := range units {
		if u.active() && u.state.Want == machine.WantUp {
			running = append(running, u)
		} else {
			rest = append(rest, u)
		}
	}
	s.stopInOrder(machine.Restart, running, e)
	stepEach(s, machine.Restart, rest, e)
}

// stopInOrder gives units the event when all that requires them has stopped.
// What of that is not meant waits, and comes back when they do.
func (s *Supervisor) stopInOrder(kind machine.EventKind, units []*unit, e machine.Event) {
	meant := make(map[*unit]bool, len(units)) // false: it only goes along
	for _, u := range units {
		meant[u] = true
	}
	all := slices.Clone(units)
	for _, u := range units {
		for _, other := range s.dependentsOf(u) {
			if _, known := meant[other]; !known && other.state.Want == machine.WantUp {
				meant[other] = false
				all = append(all, other)
			}
		}
	}
	s.stopTogether(all, func(u *unit) machine.Event {
		event := e
		switch {
		case meant[u]:
			event.Kind = kind
		case u.wanted():
			event.Kind = machine.Restart
		default: // it is being stopped anyway
			event.Kind = machine.Stop
		}
		return event
	})
}
