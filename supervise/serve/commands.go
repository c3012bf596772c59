package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
)

// Commands gives commands on services, and waits for what becomes of them. When one is
// carried out, and what becomes of it, is the core's to say.
type Commands struct {
	*Directory
	Jobs *JobHost
}

// CommandOf is a command on units, for an actor.
func CommandOf(verb string, units []*View, by control.Actor) core.Command {
	c := core.Command{Verb: verb, Actor: operation.Actor(by), Lives: livesOf(units), Event: machine.Event{Cause: fmt.Sprintf("%s by uid %d", verb, by.UID), Actor: &by.UID}}
	switch verb {
	case core.VerbStart, core.VerbRestart:
		c.Want, c.Along = service.Running, true
	case core.VerbStop:
		c.Want = service.Stopped
	}
	return c
}

func livesOf(units []*View) []*core.Life {
	lives := make([]*core.Life, len(units))
	for i, u := range units {
		lives[i] = u.Life
	}
	return lives
}

// Give carries out a command, and returns what has become of each service that it is
// for: as it is when the command has begun, or with wait when it is known, or ctx ends.
// refused: it goes no further.
func (c *Commands) Give(ctx context.Context, cmd core.Command, units []*View, wait *control.Wait) (outcomes []control.Outcome, id uint64, refused *control.Problem) {
	is, outcomes, refused := c.give(ctx, cmd, units, wait)
	return outcomes, is.ID, refused
}

// give is Give that shows the operation too.
func (c *Commands) give(ctx context.Context, cmd core.Command, units []*View, wait *control.Wait) (shown control.Operation, outcomes []control.Outcome, refused *control.Problem) {
	g := given{cmd: &cmd, units: units, wait: wait, began: time.Now()}
	if cmd.Verb == core.VerbStop {
		g.ended = c.endOccurrences(units, cmd.Event.Cause)
	}
	if g.noted, refused = c.loop.Begin(&cmd); refused != nil {
		return shown, failAll(units, refused), refused
	}
	defer c.loop.Tell(core.Input{Kind: core.Drop, ID: cmd.ID})
	if wait != nil {
		if wait.TimeoutMS > 0 { // one time for all of them
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(wait.TimeoutMS)*time.Millisecond)
			defer cancel()
		}
		if g.err = c.awaitMembers(ctx, cmd.ID); g.err == nil {
			g.watched, g.err = c.watchRest(ctx, cmd.ID)
		}
	}
	c.loop.Read(func(now Services) {
		o := now.Core().Operations.Get(cmd.ID)
		shown, outcomes = Shown(now, o), g.outcomes(now, o)
	})
	if wait != nil {
		c.Copies.Shown()
	} else if cmd.Want != service.IntentNone && g.noted == nil {
		c.Copies.Copied()
	}
	return shown, outcomes, nil
}

// given is a command that has begun, with what is known of it besides its operation.
type given struct {
	cmd     *core.Command
	units   []*View
	wait    *control.Wait
	began   time.Time
	ended   map[*core.Life]occurring
	noted   *control.Problem // why it is not recorded
	watched map[int]operation.Member
	err     error // why it was waited for no longer
}

// outcomes are those of a command's members. Who reads calls it.
func (g *given) outcomes(now Services, o *core.Operation) (outcomes []control.Outcome) {
	views := make(map[*core.Life]*View, len(g.units))
	for _, u := range g.units {
		views[u.Life] = u
	}
	for i, l := range g.cmd.Lives {
		u := now.Again(views[l])
		is := control.Outcome{Service: u.Status(), Changed: o.Members[i].Changed, Note: g.ended[l].note}
		if g.wait != nil {
			m, rest := g.watched[i]
			switch {
			case !rest:
				m, is.Problem = o.Members[i], problem(o, i)
			case m.State == operation.StateFailed:
				is.Problem = problemOf(m)
			}
			if m.Open() && errors.Is(g.err, context.DeadlineExceeded) {
				is.Problem = control.TimedOut(u.Title, is.Service.State, time.Since(g.began), "status "+u.Title)
			}
		}
		if g.noted != nil && is.Problem == nil {
			is.Problem = stoppedOnly(u.Title, g.noted)
		}
		outcomes = append(outcomes, is)
	}
	if i := o.Changed(); i >= 0 {
		outcomes[i].Along = slices.Clone(o.Went)
	}
	return outcomes
}

// endOccurrences ends what the schedules of the units have begun, and has the core know
// when that is over.
func (c *Commands) endOccurrences(units []*View, cause string) map[*core.Life]occurring {
	ended := c.Jobs.endOccurrences(units, cause)
	for life, is := range ended {
		if is.over == nil {
			continue
		}
		c.loop.Tell(core.Input{Kind: core.Freed, Life: life, Busy: true})
		go func() {
			<-is.over
			c.loop.Tell(core.Input{Kind: core.Freed, Life: life})
		}()
	}
	return ended
}

// awaitMembers waits until each member of an operation is over, or of the later one that
// has the same done with it.
func (c *Commands) awaitMembers(ctx context.Context, id uint64) error {
	for from := 0; ; {
		open := uint64(0)
		c.loop.Read(func(now Services) {
			o := now.Core().Operations.Get(id)
			for ; from < len(o.Members); from++ {
				if later, j := o.Follow(from); later.Members[j].Open() && !later.Over() {
					open = later.ID
					return
				}
			}
		})
		if open == 0 {
			return nil
		}
		over := func(_ Services, o *core.Operation) bool { return o == nil || o.Over() }
		if err := c.loop.Await(ctx, open, over); err != nil {
			return err
		}
	}
}

// watchRest waits for those members whom a later operation has that wants nothing else of
// them, and does not say itself when they have come to it: an apply that is noted, or one
// that starts them along. What counts for whoever waits is the service.
func (c *Commands) watchRest(ctx context.Context, id uint64) (watched map[int]operation.Member, err error) {
	rest, down := map[int]*View{}, false
	c.loop.Read(func(now Services) {
		o := now.Core().Operations.Get(id)
		down = o.Down()
		for i := range o.Members {
			later, j := o.Follow(i)
			if m := later.Members[j]; m.State == operation.StateSuperseded && !later.Opposed(j) {
				if u := now.Find(m.Name); u != nil {
					rest[i] = u
				}
			}
		}
	})
	watched = map[int]operation.Member{}
	for i, u := range rest {
		if watched[i], err = c.watch(ctx, []*View{u}, operation.Gate{Down: down}, 0); err != nil {
			break
		}
	}
	return watched, err
}

// problem is what has gone wrong with a member of an operation; nil: nothing, or it is
// not over. Who reads calls it.
func problem(o *core.Operation, i int) *control.Problem {
	o, i = o.Follow(i)
	m := o.Members[i]
	switch m.State {
	case operation.StateFailed:
		return problemOf(m)
	case operation.StateSuperseded:
		if o.Down() {
			return control.Conflict("%s was started again before it had stopped", m.Name)
		}
		return control.Conflict("%s was stopped before it was ready", m.Name)
	case operation.StateCancelled, operation.StateInterrupted:
		return control.Conflict("operation %d is %s: %s", o.ID, m.State, m.Reason)
	}
	if m.Open() && o.Over() {
		return control.Conflict("operation %d ended before it came to %s: %s", o.ID, m.Name, o.Reason)
	}
	return nil
}

// problemOf is why a member has failed.
func problemOf(m operation.Member) *control.Problem {
	switch m.Why {
	case operation.Tried, operation.Full:
		return control.Failed("%s", m.Reason).Retry()
	case operation.Stopped, operation.Started:
		return control.Conflict("%s", m.Reason)
	}
	return control.Failed("%s", m.Reason)
}

// watch waits until units have come to what a gate wants of them, or one of them will
// not, or ctx ends. It returns what has become of the first that failed, or of the first
// of all. What is a part of an operation ends with it.
func (c *Commands) watch(ctx context.Context, units []*View, gate operation.Gate, part uint64) (m operation.Member, err error) {
	cmd := core.Command{Verb: core.VerbAwait, Lives: livesOf(units), Gate: gate, Part: part}
	c.loop.Begin(&cmd)
	err = c.loop.Await(ctx, cmd.ID, func(_ Services, o *core.Operation) bool {
		for i, is := range o.Members {
			if failed := !is.Open() && is.State != operation.StateDone; failed || i == 0 {
				if m = is; failed {
					return true
				}
			}
		}
		return o.Over()
	})
	c.loop.Tell(core.Input{Kind: core.Drop, ID: cmd.ID})
	return m, err
}

// Outcome is that of waiting until a unit has come to what a gate wants of it, as long as
// the caller does.
func (c *Commands) Outcome(ctx context.Context, u *View, gate operation.Gate, wait *control.Wait) (outcome control.Outcome) {
	began := time.Now()
	if wait.TimeoutMS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(wait.TimeoutMS)*time.Millisecond)
		defer cancel()
	}
	m, err := c.watch(ctx, []*View{u}, gate, 0)
	c.loop.Read(func(now Services) { outcome.Service = now.Again(u).Status() })
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		outcome.Problem = control.TimedOut(u.Title, outcome.Service.State, time.Since(began), "status "+u.Title)
	case m.State == operation.StateFailed && m.Why == operation.Removed && gate.Patient:
		outcome.Problem = control.NewProblem(control.KindNoSuchName, m.Reason)
	case m.State == operation.StateFailed:
		outcome.Problem = problemOf(m)
	case m.State == operation.StateInterrupted:
		outcome.Problem = control.Conflict("%s: %s", u.Title, m.Reason)
	}
	return outcome
}

// failAll is the outcome of a command that could not be carried out at all.
func failAll(units []*View, problem *control.Problem) (outcomes []control.Outcome) {
	for _, u := range units {
		outcomes = append(outcomes, control.Outcome{Service: control.Service{Name: u.Name}, Problem: problem})
	}
	return outcomes
}

// stoppedOnly is the problem of a stop that was carried out all the same.
func stoppedOnly(name string, why *control.Problem) *control.Problem {
	reason, _, _ := strings.Cut(why.Detail, "; nothing was done")
	return control.Failed("%s is stopped, as with --runtime: %s; it may run again when the container is started", name, reason)
}

// BeginOperation begins one operation on the services that it says, and returns it as it
// is when all is recorded and nothing waits for the caller any more.
func (c *Commands) BeginOperation(ctx context.Context, how control.BeginOperation, actor control.Actor) (control.Operation, error) {
	switch known := how.Verb == core.VerbStart || how.Verb == core.VerbStop || how.Verb == core.VerbRestart; {
	case !known:
		return control.Operation{}, control.BadRequest("unknown verb %q; write start, stop or restart", how.Verb)
	case how.Runtime && how.Verb != core.VerbStop:
		return control.Operation{}, control.BadRequest("cannot %s: runtime goes with stop alone", how.Verb)
	case how.Rolling < 0 || how.SteadyMS < 0:
		return control.Operation{}, control.BadRequest("rolling and steady_ms are not negative")
	}
	meant := set{names: how.Names, state: how.State, kind: how.Kind}
	if err := c.check(meant); err != nil {
		return control.Operation{}, err
	}
	of := c.choose(meant, how.Verb)
	units := of.units
	for _, problem := range of.problems {
		return control.Operation{}, problem
	}
	cmd := CommandOf(how.Verb, units, actor)
	cmd.Only, cmd.Width, cmd.Steady = of.only, how.Rolling, how.SteadyMS*int64(time.Millisecond)
	if how.Runtime {
		cmd.Want = service.IntentNone
	}
	is, outcomes, refused := c.give(ctx, cmd, units, nil)
	switch {
	case refused != nil:
		return control.Operation{}, refused
	case len(outcomes) > 0 && outcomes[0].Problem != nil: // nobody has waited for anything else
		return control.Operation{}, outcomes[0].Problem
	}
	for _, u := range of.left {
		is.Left = append(is.Left, control.Left{Name: u.Title, Why: u.Left})
	}
	return is, nil
}

// Shown is an operation for people. Each member that is under way says what it waits for.
// The loop calls it, or who reads.
func Shown(now Services, o *core.Operation) control.Operation {
	is := control.Operation{
		ID: o.ID, Verb: o.Verb, Actor: control.Actor(o.Actor), At: time.Unix(0, o.Wall).UTC(), State: o.State, Reason: o.Reason,
		Members: make([]control.OperationMember, len(o.Members)), Omitted: o.Omitted,
	}
	for i, m := range o.Members {
		is.Members[i] = control.OperationMember{Name: m.Name, State: m.State, Reason: m.Reason, OldPID: m.OldPID, PID: m.PID}
		if u := now.Find(m.Name); u != nil && m.State == operation.StateRunning && !o.Over() {
			is.Members[i].PID, is.Members[i].Reason = u.State.PID, now.Core().WaitsFor(u.Life)
		}
	}
	return is
}

// Recalled is an operation as somebody before has left it.
func Recalled(is control.Operation) operation.Operation {
	o := operation.Operation{
		ID: is.ID, Verb: is.Verb, Actor: operation.Actor(is.Actor), Wall: is.At.UnixNano(), State: is.State, Reason: is.Reason, Omitted: is.Omitted,
	}
	for _, m := range is.Members {
		o.Members = append(o.Members, operation.Member{Name: m.Name, State: m.State, Reason: m.Reason, OldPID: m.OldPID, PID: m.PID})
	}
	return o
}

// Operations are those under way and the latest that are over.
func (c *Commands) Operations() []control.Operation {
	list := []control.Operation{}
	c.loop.Read(func(now Services) {
		for _, o := range now.Core().Operations.List() {
			list = append(list, Shown(now, o))
		}
	})
	return list
}

// Operation is one of them.
func (c *Commands) Operation(id uint64) (is control.Operation, err error) {
	c.loop.Read(func(now Services) {
		if o := now.Core().Operations.Get(id); o != nil && id < core.Hidden {
			is = Shown(now, o)
			return
		}
		err = noOperation(id)
	})
	return is, err
}

// AwaitOperation returns when an operation is over, has changed, or ctx ends.
func (c *Commands) AwaitOperation(ctx context.Context, id uint64) (is control.Operation, err error) {
	looks := 0
	err = noOperation(id)
	_ = c.loop.Await(ctx, id, func(now Services, o *core.Operation) bool {
		if o == nil || id >= core.Hidden {
			return true
		}
		is, err = Shown(now, o), nil
		looks++
		return looks > 1 || o.Over()
	})
	return is, err
}

// CancelOperation has an operation go no further: who waits for its turn to be restarted
// stays as it is, and a rolling one takes nobody any more: whom it has not come to stays as
// is recorded of it. What has begun stays, and so does its intent.
func (c *Commands) CancelOperation(id uint64) (is control.Operation, err error) {
	asked := false
	err = noOperation(id)
	_ = c.loop.Await(context.Background(), id, func(now Services, o *core.Operation) bool {
		switch {
		case o == nil || id >= core.Hidden:
			return true
		case !asked && o.Over():
			is, err = Shown(now, o), control.Conflict("operation %d is over: %s", id, o.State)
			return true
		}
		if !asked {
			asked = true
			c.loop.Tell(core.Input{Kind: core.Cancel, ID: id})
		}
		if o.Over() {
			is, err = Shown(now, o), nil
		}
		return o.Over()
	})
	return is, err
}

// noOperation is the problem of an id that no operation has.
func noOperation(id uint64) error {
	return control.NewProblem(control.KindNoSuchName, fmt.Sprintf("no operation %d; rlminit operations lists them", id))
}
