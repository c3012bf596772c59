package loop

import (
	"context"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/garbage"
	"rlminit/supervise/serve"
)

// Commands is the way of others to the loop: serve.Loop. It gives commands to the core, has
// them recorded, and wakes whoever waits for one.
type Commands struct {
	loop    *mailbox
	fleet   *fleet
	records *Records

	gc *garbage.Target // nil in a simulation

	watched  map[uint64]*watched         // Invariant: those that somebody waits for, by id
	problems map[uint64]*control.Problem // why a command goes no further, or is not recorded; Begin takes it
	hidden   uint64                      // ids of parts and waits that were given
}

// newID is an id that no operation has had.
func (c *Commands) newID(hidden bool) uint64 {
	if hidden {
		c.hidden++
		return core.Hidden | c.hidden
	}
	return c.fleet.set.Operations.Last() + 1
}

// Read is serve.Loop's, as the next ones are.
func (c *Commands) Read(f func(serve.Services)) { c.loop.read(func() { f(c.fleet) }) }

func (c *Commands) Commander(name string) bool {
	_, may := c.fleet.commanders.Load(name)
	return may
}

func (c *Commands) Tell(in core.Input) { c.loop.do(func() { c.fleet.apply(in) }) }

func (c *Commands) Begin(cmd *core.Command) (noted, refused *control.Problem) {
	c.loop.ask(func() {
		c.gc.Worked()
		cmd.ID = c.newID(cmd.Part != 0 || cmd.Verb == core.VerbAwait)
		c.fleet.apply(core.Input{Kind: core.Commanded, Command: cmd})
	})
	begun := false
	c.await(context.Background(), cmd.ID, func(o *core.Operation) bool {
		if noted = c.problems[cmd.ID]; o == nil && noted == nil {
			return false
		}
		delete(c.problems, cmd.ID)
		begun = o != nil
		return true
	})
	if !begun {
		return nil, noted
	}
	return noted, nil
}

func (c *Commands) Await(ctx context.Context, id uint64, enough func(serve.Services, *core.Operation) bool) error {
	joined := false
	err := c.await(ctx, id, func(o *core.Operation) bool {
		is := enough(c.fleet, o)
		switch {
		case is || o == nil || joined:
		default:
			joined = true
			c.fleet.apply(core.Input{Kind: core.Join, ID: id})
		}
		return is
	})
	if joined {
		c.Tell(core.Input{Kind: core.Leave, ID: id})
	}
	return err
}

// watched is an operation that somebody waits for.
type watched struct {
	changed chan struct{} // closed when it has
	waiting int           // how many wait for that
}

// await waits until enough is true of an operation, or of none, which the loop calls, or
// ctx ends. enough is called a last time then.
func (c *Commands) await(ctx context.Context, id uint64, enough func(*core.Operation) bool) error {
	for {
		var w *watched
		c.loop.ask(func() {
			if enough(c.fleet.set.Operations.Get(id)) {
				return
			}
			if w = c.watched[id]; w == nil {
				w = &watched{changed: make(chan struct{})}
				c.watched[id] = w
			}
			w.waiting++
		})
		if w == nil {
			return nil
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			is := false
			c.loop.ask(func() {
				if w.waiting--; w.waiting == 0 && c.watched[id] == w {
					delete(c.watched, id)
				}
				is = enough(c.fleet.set.Operations.Get(id))
			})
			if is {
				return nil
			}
			return ctx.Err()
		}
	}
}

// wake has those look again who wait for an operation.
func (c *Commands) wake(id uint64) {
	if w := c.watched[id]; w != nil {
		close(w.changed)
		delete(c.watched, id)
	}
}

// record makes a command durable, and tells the core.
func (c *Commands) record(cmd *core.Command) {
	answer := func(problem *control.Problem, intents []service.Intent) {
		in := core.Input{Kind: core.Recorded, Command: cmd, Unrecorded: problem != nil, Intents: intents}
		if problem != nil {
			in.Text = problem.Detail
		}
		if problem != nil && cmd.ID != 0 { // else the operation that it is a part of tells it
			c.problems[cmd.ID] = problem
		}
		c.fleet.apply(in)
		c.wake(cmd.ID)
	}
	if cmd.Verb == core.VerbFollow {
		c.records.recordFollowed(c.fleet.having(cmd.Members()), func(intents []service.Intent) { answer(nil, intents) })
		return
	}
	c.records.recordCommand(cmd, c.fleet.having(cmd.Members()), c.fleet.having(cmd.AlongWith()), func(problem *control.Problem) { answer(problem, nil) })
}

// refused takes note of a command that goes no further.
func (c *Commands) refused(e *core.Effect) {
	if id := e.Command.ID; id != 0 && e.Text != "" {
		switch {
		case e.Gated:
			c.problems[id] = control.NewProblem(control.KindUnhealthy, e.Text)
		case e.Unclaimed:
			c.problems[id] = control.Refused("%s", e.Text)
		default:
			c.problems[id] = control.Conflict("%s", e.Text)
		}
		c.wake(id)
	}
}

// forgot has a successor know nothing of an operation any more. One that was hidden is
// nowhere from now on.
func (c *Commands) forgot(o *core.Operation) {
	if o.ID < core.Hidden {
		c.records.memory.ForgetOperation(o.ID)
	}
	c.wake(o.ID)
}

// told has a successor, the journal and those who wait know what has become of an
// operation.
func (c *Commands) told(e *core.Effect) {
	o := e.Operation
	if o.ID < core.Hidden {
		if e.Over {
			c.records.volume.Journal.OperationEnded(serve.Shown(c.fleet, o))
		}
		if e.Begun || e.Over {
			c.records.memory.Operation(serve.Shown(c.fleet, o))
		}
	}
	c.wake(o.ID)
}

// Recall adds operations of before, up to the id last.
func (c *Commands) Recall(before []control.Operation, last uint64) {
	c.loop.do(func() { c.recall(before, last) })
}

// recall is Recall for the loop.
func (c *Commands) recall(before []control.Operation, last uint64) {
	in := core.Input{Kind: core.Recall, ID: last}
	for _, is := range before {
		in.Operations = append(in.Operations, serve.Recalled(is))
	}
	c.fleet.apply(in)
}
