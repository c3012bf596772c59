package loop

import (
	"context"
	"log/slog"

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

	changed  map[uint64]chan struct{}    // closed when the operation of that id has changed
	problems map[uint64]*control.Problem // why a command goes no further, or is not recorded
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
	_ = c.Await(context.Background(), cmd.ID, func(o *core.Operation) bool {
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

func (c *Commands) Await(ctx context.Context, id uint64, enough func(*core.Operation) bool) error {
	for {
		var changed chan struct{}
		c.loop.ask(func() {
			if enough(c.fleet.set.Operations.Get(id)) {
				return
			}
			if changed = c.changed[id]; changed == nil {
				changed = make(chan struct{})
				c.changed[id] = changed
			}
		})
		if changed == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wake has those look again who wait for an operation.
func (c *Commands) wake(id uint64) {
	if changed := c.changed[id]; changed != nil {
		close(changed)
		delete(c.changed, id)
	}
}

// record makes a command durable, and tells the core.
func (c *Commands) record(cmd *core.Command) {
	answer := func(problem *control.Problem, intents []service.Intent) {
		switch {
		case problem == nil:
		case cmd.ID == 0:
			slog.Warn("what an operation has not come to stays recorded as it was to be", "operation", cmd.Part, "err", problem)
		default:
			c.problems[cmd.ID] = problem
		}
		c.fleet.apply(core.Input{Kind: core.Recorded, Command: cmd, Unrecorded: problem != nil, Intents: intents})
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
