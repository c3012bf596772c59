package supervise

import (
	"context"
	"fmt"
	"time"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/operation"
)

// BeginOperation begins one operation on the services that it says, and returns it as it
// is when all is recorded and nothing waits for the caller any more.
func (c *commands) BeginOperation(ctx context.Context, how control.BeginOperation, actor control.Actor) (control.Operation, error) {
	switch known := how.Verb == core.VerbStart || how.Verb == core.VerbStop || how.Verb == core.VerbRestart; {
	case !known:
		return control.Operation{}, control.BadRequest("unknown verb %q; write start, stop or restart", how.Verb)
	case how.Runtime && how.Verb != core.VerbStop:
		return control.Operation{}, control.BadRequest("cannot %s: runtime goes with stop alone", how.Verb)
	case how.Rolling < 0 || how.SteadyMS < 0:
		return control.Operation{}, control.BadRequest("rolling and steady_ms are not negative")
	}
	if err := control.CheckState(how.State); err != nil {
		return control.Operation{}, err
	}
	units, only, problems := c.directory.choose(how.Names, how.State, how.Verb, false)
	for _, problem := range problems {
		return control.Operation{}, problem
	}
	cmd := commandOf(how.Verb, units, actor)
	cmd.Only, cmd.Width, cmd.Steady = only, how.Rolling, how.SteadyMS*int64(time.Millisecond)
	if how.Runtime {
		cmd.Want = service.IntentNone
	}
	outcomes, id, refused := c.operate(ctx, cmd, units, nil)
	switch {
	case refused != nil:
		return control.Operation{}, refused
	case len(outcomes) > 0 && outcomes[0].Problem != nil: // nobody has waited for anything else
		return control.Operation{}, outcomes[0].Problem
	}
	return c.Operation(id)
}

// view is an operation for people. Each member that is under way says what it waits for.
// The loop calls it, or who reads.
func (c *commands) view(o *core.Operation) control.Operation {
	is := control.Operation{
		ID: o.ID, Verb: o.Verb, Actor: control.Actor(o.Actor), At: time.Unix(0, o.Wall).UTC(), State: o.State, Reason: o.Reason,
		Members: make([]control.OperationMember, len(o.Members)), Omitted: o.Omitted,
	}
	for i, m := range o.Members {
		is.Members[i] = control.OperationMember{Name: m.Name, State: m.State, Reason: m.Reason, OldPID: m.OldPID, PID: m.PID}
		if u := c.fleet.find(m.Name); u != nil && m.State == operation.StateRunning && !o.Over() {
			is.Members[i].PID, is.Members[i].Reason = u.pid(), c.fleet.set.WaitsFor(u.life)
		}
	}
	return is
}

// recalled is an operation as somebody before has left it.
func recalled(is control.Operation) operation.Operation {
	o := operation.Operation{
		ID: is.ID, Verb: is.Verb, Actor: operation.Actor(is.Actor), Wall: is.At.UnixNano(), State: is.State, Reason: is.Reason, Omitted: is.Omitted,
	}
	for _, m := range is.Members {
		o.Members = append(o.Members, operation.Member{Name: m.Name, State: m.State, Reason: m.Reason, OldPID: m.OldPID, PID: m.PID})
	}
	return o
}

// Operations are those under way and the latest that are over.
func (c *commands) Operations() []control.Operation {
	list := []control.Operation{}
	c.loop.read(func() {
		for _, o := range c.fleet.set.Operations.List() {
			list = append(list, c.view(o))
		}
	})
	return list
}

// Operation is one of them.
func (c *commands) Operation(id uint64) (is control.Operation, err error) {
	c.loop.read(func() {
		if o := c.fleet.set.Operations.Get(id); o != nil && id < core.Hidden {
			is = c.view(o)
			return
		}
		err = control.NewProblem(control.KindNoSuchName, fmt.Sprintf("no operation %d; rlminit operations lists them", id))
	})
	return is, err
}

// AwaitOperation returns when an operation is over, has changed, or ctx ends.
func (c *commands) AwaitOperation(ctx context.Context, id uint64) (control.Operation, error) {
	is, err := c.Operation(id)
	if err != nil || is.Over() {
		return is, err
	}
	asked := false
	_ = c.await(ctx, id, func(o *core.Operation) bool {
		again := asked
		asked = true
		return again || o == nil || o.Over()
	})
	return c.Operation(id)
}

// CancelOperation has an operation go no further: who waits for its turn to be restarted
// stays as it is, and a rolling one takes nobody any more: whom it has not come to is
// wanted as before, which is recorded when it returns. What has begun stays, and so does
// its intent.
func (c *commands) CancelOperation(id uint64) (control.Operation, error) {
	is, err := c.Operation(id)
	if err == nil && is.Over() {
		err = control.Conflict("operation %d is over: %s", id, is.State)
	}
	if err != nil {
		return is, err
	}
	c.loop.ask(func() { c.fleet.apply(core.Input{Kind: core.Cancel, ID: id}) })
	_ = c.await(context.Background(), id, func(o *core.Operation) bool { return o == nil || o.Over() })
	return c.Operation(id)
}

// recall adds operations of before, up to the id last. Only the loop calls it, or who is
// there before it.
func (c *commands) recall(before []control.Operation, last uint64) {
	in := core.Input{Kind: core.Recall, ID: last}
	for _, is := range before {
		in.Operations = append(in.Operations, recalled(is))
	}
	c.fleet.apply(in)
}
