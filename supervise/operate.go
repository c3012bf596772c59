package supervise

import (
	"context"
	"slices"
	"time"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/operation"
)

// commands carries out what people command on services, each command as an operation.
// What it wants is durable before anything is done; the later one on a service wins;
// and each ends, or says of each member what it waits for. Anybody may command but
// the loop.
type commands struct {
	loop      *mailbox
	fleet     *fleet
	records   *records
	directory *directory
	jobs      *jobHost

	operations operations
	rolls      rolls
	thrift     *thrift // nil in a simulation
}

// BeginOperation begins one operation on the services that it says, and returns it
// as it is when all is recorded and nothing waits for the caller any more.
func (c *commands) BeginOperation(ctx context.Context, how control.BeginOperation, actor control.Actor) (control.Operation, error) {
	v, ok := verbs[how.Verb]
	switch {
	case !ok:
		return control.Operation{}, control.BadRequest("unknown verb %q; write start, stop or restart", how.Verb)
	case how.Runtime && v.name != "stop":
		return control.Operation{}, control.BadRequest("cannot %s: runtime goes with stop alone", v.name)
	case how.Rolling < 0 || how.SteadyMS < 0:
		return control.Operation{}, control.BadRequest("rolling and steady_ms are not negative")
	}
	if how.Runtime {
		v.intent = service.IntentNone
	}
	if err := control.CheckState(how.State); err != nil {
		return control.Operation{}, err
	}
	units, v, problems := c.directory.choose(how.Names, how.State, v, false)
	for _, problem := range problems {
		return control.Operation{}, problem
	}
	if how.Rolling > 0 {
		if problem := c.rolls.hopeless(v, units, how.Rolling); problem != nil {
			return control.Operation{}, problem
		}
		begun, err := c.roll(v, units, how.Rolling, time.Duration(how.SteadyMS)*time.Millisecond, actor)
		if err != nil {
			return control.Operation{}, err
		}
		return c.operations.now(begun), nil
	}
	outcomes, begun, refused := c.operateAs(ctx, v, units, c.startedAlong(v, units), actor, nil, 0)
	switch {
	case refused != nil:
		return control.Operation{}, refused
	case len(outcomes) > 0 && outcomes[0].Problem != nil: // nobody has waited for anything else
		return control.Operation{}, outcomes[0].Problem
	}
	return c.operations.now(begun), nil
}

// startedAlong are the units that are started with those that a verb starts.
func (c *commands) startedAlong(v verb, units []*unit) (along []*unit) {
	if v.name != "stop" {
		c.loop.ask(func() { along = c.fleet.along(units...) })
	}
	return along
}

// operate carries out a command on the units, and on those that go along with
// them: it makes the intent durable, and only then acts, on those for which that
// succeeded. With wait it answers when the outcome is known or ctx ends.
func (c *commands) operate(ctx context.Context, v verb, units, along []*unit, actor uint32, wait *control.Wait) []control.Outcome {
	outcomes, _, _ := c.operateAs(ctx, v, units, along, control.Actor{UID: actor}, wait, 0)
	return outcomes
}

// operateAs is operate, and returns the operation too, or why it was refused as a
// whole. What is a part of another operation is none of its own.
func (c *commands) operateAs(ctx context.Context, v verb, units, along []*unit, actor control.Actor, wait *control.Wait, part uint64) (outcomes []control.Outcome, begun operation.Handle, refused *control.Problem) {
	order, refused := c.accept(ctx, v, units, along, actor, part)
	if refused != nil {
		return failAll(units, refused), begun, refused
	}
	id, units, along := order.id, order.units, order.along
	outcomes = make([]control.Outcome, len(units))
	waiters := make([]*waiter, len(units))
	changed := make([]bool, len(units))
	var went []string // along
	var ended map[*unit]occurring
	if v.name == "stop" {
		ended = c.jobs.endOccurrences(units, commanded(v, actor).Cause)
	}
	c.loop.ask(func() {
		c.thrift.worked(boottime())
		event := commanded(v, actor)
		over := make([]func(*unit) (bool, *control.Problem), len(units))
		act := slices.Clone(along)
		for i, u := range units {
			over[i] = v.outcome(u)
			if ended[u].over != nil {
				changed[i], over[i] = true, ended[u].after(over[i])
				c.loop.when(ended[u].over, func() { u.waiters.answer(u) })
			}
			u.kept.owed = u.fault != "" && v.name != "stop" && (u.kept.owed || v.intent == service.Running)
			if u.fault != "" && v.intent == service.Running {
				continue
			}
			if v.needed(u) {
				changed[i], act = true, append(act, u)
			}
		}
		if part == 0 {
			begun = c.operations.begin(id, v.name, members(units), along, operation.Running, actor, nil)
		} else {
			c.operations.along(id, along)
		}
		c.records.intend(order.wants, units, along, func() {
			for _, u := range v.apply(c.fleet, act, event) {
				went = append(went, u.title())
			}
		})
		went = append(went, titles(along)...)
		for i, u := range units {
			if part == 0 {
				u.waiters.then(u, over[i], func(problem *control.Problem) { c.operations.conclude(id, u, problem) })
			}
			if wait == nil {
				outcomes[i] = control.Outcome{Service: u.status(), Changed: changed[i]}
				continue
			}
			waiters[i] = u.waiters.add(u, changed[i], over[i])
		}
	})
	order.release()
	if wait != nil && wait.TimeoutMS > 0 { // one time for all of them
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(wait.TimeoutMS)*time.Millisecond)
		defer cancel()
	}
	for i, w := range waiters {
		if w != nil {
			outcomes[i] = c.loop.await(ctx, units[i], w, wait)
		}
	}
	if i := slices.Index(changed, true); i >= 0 {
		outcomes[i].Along = went
	}
	for i, u := range units {
		outcomes[i].Note = ended[u].note
		if order.unrecorded != nil && outcomes[i].Problem == nil {
			outcomes[i].Problem = stoppedOnly(u.title(), order.unrecorded)
		}
	}
	if wait != nil {
		c.records.written(flushPatience)
	} else if order.wants != service.IntentNone {
		c.records.copied()
	}
	return outcomes, begun, nil
}

// accepted is a command that is recorded, and yet to be carried out.
type accepted struct {
	id           uint64
	units, along []*unit
	wants        service.Intent   // what the record says of them; IntentNone: nothing
	unrecorded   *control.Problem // why there is none
	release      func()           // lets others command them
}

// accept has a command recorded, with an id of its own unless it is a part of another,
// and keeps the units for it until it is released. refused: it goes no further. A
// stop does all the same where it cannot be recorded.
func (c *commands) accept(ctx context.Context, v verb, units, along []*unit, actor control.Actor, part uint64) (a accepted, refused *control.Problem) {
	a = accepted{id: part, units: units, along: along, release: oneAtATime(append(slices.Clone(units), along...))}
	if refused = c.refusal(v); refused == nil {
		c.stillMeant(v, &a)
		own := uint64(0)
		if part == 0 {
			own = c.operations.book.NewID()
			a.id = own
		}
		a.unrecorded = c.records.recordCommand(ctx, own, v, a.units, a.along, actor)
		if v.name != "stop" {
			refused = a.unrecorded
		}
		if a.unrecorded == nil {
			a.wants = v.intent
		}
	}
	if refused != nil {
		a.release()
	}
	return a, refused
}

// stillMeant leaves out who was stopped, or started, by the command that was waited
// for, and is not meant any more: what was acknowledged before would not hold.
func (c *commands) stillMeant(v verb, a *accepted) {
	if v.meant == nil {
		return
	}
	c.loop.ask(func() {
		a.units = slices.DeleteFunc(slices.Clone(a.units), func(u *unit) bool { return !v.meant(u) })
		if len(a.along) > 0 {
			needed := c.fleet.along(a.units...)
			a.along = slices.DeleteFunc(slices.Clone(a.along), func(u *unit) bool { return !slices.Contains(needed, u) })
		}
	})
}

// refusal is why a command is not even recorded.
func (c *commands) refusal(v verb) (problem *control.Problem) {
	c.loop.ask(func() {
		if c.fleet.set.Stopping() {
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
