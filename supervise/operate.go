package supervise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
	"rlminit/supervise/order"
)

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

// verb is what a command does to units that exist.
type verb struct {
	name    string
	intent  service.Intent // what it makes a person's intent; IntentNone: leaves it as it is
	renews  bool           // it gives each member a new process
	needed  func(*unit) bool
	apply   func(*fleet, []*unit, machine.Event) (along []*unit)
	outcome func(*unit) func(*unit) (bool, *control.Problem)
}

// wanted tells whether u is to run, after a stop that has yet to begin too.
func (u *unit) wanted() bool {
	return u.state.Want == machine.WantUp && u.order.turn < order.Stop
}

func always(over func(*unit) (bool, *control.Problem)) func(*unit) func(*unit) (bool, *control.Problem) {
	return func(*unit) func(*unit) (bool, *control.Problem) { return over }
}

var (
	verbStart = verb{
		name: "start", intent: service.Running,
		needed:  func(u *unit) bool { return !u.wanted() || u.order.turn.Stops() || u.state.Phase != machine.Running },
		apply:   (*fleet).startUnits,
		outcome: always(started),
	}
	verbStop = verb{
		name: "stop", intent: service.Stopped,
		needed:  func(u *unit) bool { return u.state.Want == machine.WantUp || u.active() },
		apply:   (*fleet).stopUnits,
		outcome: always(stopped),
	}
	verbRestart = verb{
		name: "restart", intent: service.Running, renews: true,
		needed: func(*unit) bool { return true },
		apply:  (*fleet).restartUnits,
		outcome: func(u *unit) func(*unit) (bool, *control.Problem) {
			return restarted(u.state.ID)
		},
	}
)

// verbs are the commands on services.
var verbs = map[string]verb{"start": verbStart, "stop": verbStop, "restart": verbRestart}

// operate carries out a command on the units, and on those that go along with
// them: it makes the intent durable, and only then acts, on those for which that
// succeeded. With wait it answers when the outcome is known or ctx ends.
func (c *commands) operate(ctx context.Context, v verb, units, along []*unit, actor uint32, wait *control.Wait) []control.Outcome {
	outcomes, _ := c.operateAs(ctx, v, units, along, control.Actor{UID: actor}, wait, 0)
	return outcomes
}

// operateAs is operate, and returns the operation too; one without an id: it was
// refused as a whole. What is a part of another operation is none of its own.
func (c *commands) operateAs(ctx context.Context, v verb, units, along []*unit, actor control.Actor, wait *control.Wait, part uint64) (outcomes []control.Outcome, begun operation.Handle) {
	release := oneAtATime(append(slices.Clone(units), along...))
	if problem := c.refusal(v); problem != nil {
		release()
		return failAll(units, problem), begun
	}
	id, recorded := part, uint64(0)
	if part == 0 {
		id = c.operations.NewID()
		recorded = id
	}
	unrecorded := c.records.recordCommand(ctx, recorded, v, units, along, actor)
	if unrecorded != nil && v.name != "stop" { // which is carried out all the same
		release()
		return failAll(units, unrecorded), begun
	}
	outcomes = make([]control.Outcome, len(units))
	waiters := make([]*waiter, len(units))
	changed := make([]bool, len(units))
	var went []string // along
	c.loop.ask(func() {
		event := commanded(v, actor)
		over := make([]func(*unit) (bool, *control.Problem), len(units))
		act := slices.Clone(along)
		for i, u := range units {
			if u.fault != "" && v.intent == service.Running {
				continue
			}
			if changed[i] = v.needed(u); changed[i] {
				act = append(act, u)
			}
		}
		for i, u := range units {
			over[i] = v.outcome(u)
		}
		if part == 0 {
			begun = c.beginOperation(id, v, units, operation.Running, actor, nil)
		}
		for _, u := range v.apply(c.fleet, act, event) {
			went = append(went, u.title())
		}
		for _, u := range along {
			went = append(went, u.title())
		}
		for i, u := range units {
			if part == 0 {
				u.waiters.then(u, over[i], func(problem *control.Problem) { c.conclude(id, u, problem) })
			}
			if wait == nil {
				outcomes[i] = control.Outcome{Service: u.status(), Changed: changed[i]}
				continue
			}
			waiters[i] = u.waiters.add(u, changed[i], over[i])
		}
	})
	release()
	if wait != nil && wait.TimeoutMS > 0 { // one time for all of them
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(wait.TimeoutMS)*time.Millisecond)
		defer cancel()
	}
	for i, w := range waiters {
		if w != nil {
			outcomes[i] = c.await(ctx, units[i], w, wait)
		}
	}
	if i := slices.Index(changed, true); i >= 0 {
		outcomes[i].Along = went
	}
	for i, u := range units {
		if unrecorded != nil && outcomes[i].Problem == nil {
			outcomes[i].Problem = stoppedOnly(u.title(), unrecorded)
		}
	}
	if wait != nil {
		c.records.written(flushPatience)
	}
	return outcomes, begun
}

// commanded is what the machine is told of a command.
func commanded(v verb, actor control.Actor) machine.Event {
	return machine.Event{Cause: fmt.Sprintf("%s by uid %d", v.name, actor.UID), Actor: &actor.UID}
}

// refusal is why a command is not even recorded.
func (c *commands) refusal(v verb) (problem *control.Problem) {
	c.loop.ask(func() {
		if c.fleet.stopping {
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
func (c *commands) await(ctx context.Context, u *unit, w *waiter, wait *control.Wait) control.Outcome {
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
	c.loop.ask(func() {
		select {
		case outcome = <-w.outcome: // it came in between
			return
		default:
		}
		u.waiters.drop(w)
		outcome = control.Outcome{Service: u.status(), Changed: w.changed}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			outcome.Problem = control.TimedOut(u.title(), outcome.Service.State, time.Since(began))
		}
	})
	return outcome
}

// until waits until something is over for u, or ctx is.
func (c *commands) until(ctx context.Context, u *unit, over func(*unit) (bool, *control.Problem)) {
	var w *waiter
	c.loop.ask(func() { w = u.waiters.add(u, false, over) })
	select {
	case <-w.outcome:
	case <-ctx.Done():
		c.loop.ask(func() { u.waiters.drop(w) })
	}
}
