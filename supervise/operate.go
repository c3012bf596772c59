package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
)

// commands gives commands to the core, has them recorded, and tells whoever waits for
// one what has become of it. What is wanted, when a command is carried out, and what
// becomes of it is the core's to say. Anybody may command but the loop; of the others
// each says who calls it.
type commands struct {
	loop      *mailbox
	fleet     *fleet
	records   *records
	directory *directory
	jobs      *jobHost
	isFor     func(service string) bool // whether the container is for it

	gc *gcTarget // nil in a simulation

	// The loop's.
	changed  map[uint64]chan struct{}    // closed when the operation of that id has changed
	problems map[uint64]*control.Problem // why a command goes no further, or is not recorded
	hidden   uint64                      // ids of parts and waits that were given
}

// commandOf is a command on units, for an actor.
func commandOf(verb string, units []*unit, by control.Actor) core.Command {
	c := core.Command{Verb: verb, Actor: operation.Actor(by), Lives: livesOf(units), Event: commanded(verb, by)}
	switch verb {
	case core.VerbStart, core.VerbRestart:
		c.Want, c.Along = service.Running, true
	case core.VerbStop:
		c.Want = service.Stopped
	}
	return c
}

// commanded is what the machine is told of a command.
func commanded(verb string, by control.Actor) machine.Event {
	return machine.Event{Cause: fmt.Sprintf("%s by uid %d", verb, by.UID), Actor: &by.UID}
}

func livesOf(units []*unit) []*core.Life {
	lives := make([]*core.Life, len(units))
	for i, u := range units {
		lives[i] = u.life
	}
	return lives
}

// newID is an id that no operation has had. Only the loop calls it.
func (c *commands) newID(hidden bool) uint64 {
	if hidden {
		c.hidden++
		return core.Hidden | c.hidden
	}
	return c.fleet.set.Operations.Last() + 1
}

// begin gives a command to the core, and returns when it has begun, or the problem for
// which it goes no further. noted is why one that has begun is not recorded.
func (c *commands) begin(cmd *core.Command) (noted, refused *control.Problem) {
	c.loop.ask(func() {
		if c.gc != nil {
			c.gc.worked(boottime())
		}
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

// await waits until enough is true of an operation, which the loop calls, or ctx ends.
func (c *commands) await(ctx context.Context, id uint64, enough func(*core.Operation) bool) error {
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

// wake has those look again who wait for an operation. The loop calls it.
func (c *commands) wake(id uint64) {
	if changed := c.changed[id]; changed != nil {
		close(changed)
		delete(c.changed, id)
	}
}

// record makes a command durable, and tells the core. The loop calls it.
func (c *commands) record(cmd *core.Command) {
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
		c.records.recordFollowed(c.fleet.having(cmd.Members()), c.isFor, func(intents []service.Intent) { answer(nil, intents) })
		return
	}
	c.records.recordCommand(cmd, c.fleet.having(cmd.Members()), c.fleet.having(cmd.AlongWith()), func(problem *control.Problem) { answer(problem, nil) })
}

// refused takes note of a command that goes no further. The loop calls it.
func (c *commands) refused(e *core.Effect) {
	if id := e.Command.ID; id != 0 && e.Text != "" {
		c.problems[id] = control.Conflict("%s", e.Text)
		if e.Gated {
			c.problems[id] = control.NewProblem(control.KindUnhealthy, e.Text)
		}
		c.wake(id)
	}
}

// told has a successor, the journal and those who wait know what has become of an
// operation. The loop calls it.
func (c *commands) told(e *core.Effect) {
	o := e.Operation
	if o.ID < core.Hidden {
		if e.Over {
			c.records.volume.Journal.OperationEnded(c.view(o))
		}
		if e.Begun || e.Over {
			c.records.memory.Operation(c.view(o))
		}
	}
	c.wake(o.ID)
}

// operate carries out a command, and returns what has become of each service that it is
// for: as it is when the command has begun, or with wait when it is known, or ctx ends.
// refused: it goes no further.
func (c *commands) operate(ctx context.Context, cmd core.Command, units []*unit, wait *control.Wait) (outcomes []control.Outcome, id uint64, refused *control.Problem) {
	var ended map[*unit]occurring
	if cmd.Verb == core.VerbStop {
		ended = c.endOccurrences(units, cmd.Event.Cause)
	}
	noted, refused := c.begin(&cmd)
	if refused != nil {
		return failAll(units, refused), 0, refused
	}
	began, err := time.Now(), error(nil)
	var watched map[int]operation.Member
	if wait != nil {
		if wait.TimeoutMS > 0 { // one time for all of them
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(wait.TimeoutMS)*time.Millisecond)
			defer cancel()
		}
		if err = c.awaitMembers(ctx, cmd.ID); err == nil {
			watched, err = c.watchRest(ctx, cmd.ID)
		}
	}
	c.loop.ask(func() {
		o := c.fleet.set.Operations.Get(cmd.ID)
		for i, l := range cmd.Lives {
			u := units[slices.IndexFunc(units, func(u *unit) bool { return u.life == l })]
			is := control.Outcome{Service: u.status(), Changed: o.Members[i].Changed, Note: ended[u].note}
			if wait != nil {
				m, rest := watched[i]
				if is.Problem = c.problem(o, i); rest {
					is.Problem = nil
					if m.State == operation.StateFailed {
						is.Problem = problemOf(m)
					}
				} else {
					m = o.Members[i]
				}
				if m.Open() && errors.Is(err, context.DeadlineExceeded) {
					is.Problem = control.TimedOut(u.title(), is.Service.State, time.Since(began), "status "+u.title())
				}
			}
			if noted != nil && is.Problem == nil {
				is.Problem = stoppedOnly(u.title(), noted)
			}
			outcomes = append(outcomes, is)
		}
		if i := o.Changed(); i >= 0 {
			outcomes[i].Along = slices.Clone(o.Went)
		}
		if cmd.Part != 0 {
			c.fleet.apply(core.Input{Kind: core.Drop, ID: cmd.ID})
		}
	})
	if wait != nil {
		c.records.written(flushPatience)
	} else if cmd.Want != service.IntentNone && noted == nil {
		c.records.copied()
	}
	return outcomes, cmd.ID, nil
}

// endOccurrences ends what the schedules of the units have begun, and has the core know
// when that is over.
func (c *commands) endOccurrences(units []*unit, cause string) map[*unit]occurring {
	ended := c.jobs.endOccurrences(units, cause)
	for u, is := range ended {
		if is.over == nil {
			continue
		}
		c.loop.ask(func() { c.fleet.apply(core.Input{Kind: core.Freed, Life: u.life, Busy: true}) })
		go func() {
			<-is.over
			c.loop.do(func() { c.fleet.apply(core.Input{Kind: core.Freed, Life: u.life}) })
		}()
	}
	return ended
}

// awaitMembers waits until each member of an operation is over, or of the later one that
// has the same done with it.
func (c *commands) awaitMembers(ctx context.Context, id uint64) error {
	for {
		open := uint64(0)
		c.loop.read(func() {
			o := c.fleet.set.Operations.Get(id)
			for i := range o.Members {
				if later, j := c.fleet.set.Operations.Follow(o, i); later.Members[j].Open() {
					open = later.ID
				}
			}
		})
		if open == 0 {
			return nil
		}
		later := func(o *core.Operation) bool { return o == nil || o.Over() }
		if err := c.await(ctx, open, later); err != nil {
			return err
		}
	}
}

// watchRest waits for those members whom a later operation has that wants nothing else of
// them, and does not say itself when they have come to it: an apply that is noted, or one
// that is forgotten. What counts for whoever waits is the service.
func (c *commands) watchRest(ctx context.Context, id uint64) (watched map[int]operation.Member, err error) {
	rest, down := map[int]*unit{}, false
	c.loop.read(func() {
		o := c.fleet.set.Operations.Get(id)
		down = o.Down()
		for i := range o.Members {
			later, j := c.fleet.set.Operations.Follow(o, i)
			if m := later.Members[j]; m.State == operation.StateSuperseded && !c.opposed(later, m) {
				if u := c.fleet.find(m.Name); u != nil {
					rest[i] = u
				}
			}
		}
	})
	watched = map[int]operation.Member{}
	for i, u := range rest {
		if watched[i], err = c.watch(ctx, []*unit{u}, operation.Gate{Down: down}, 0); err != nil {
			break
		}
	}
	return watched, err
}

// opposed tells whether a later operation has a member for the opposite. Who reads calls it.
func (c *commands) opposed(o *core.Operation, m operation.Member) bool {
	later := c.fleet.set.Operations.Get(m.By)
	return later != nil && later.Down() != o.Down()
}

// problem is what has gone wrong with a member of an operation; nil: nothing, or it is
// not over. The loop calls it.
func (c *commands) problem(o *core.Operation, i int) *control.Problem {
	o, i = c.fleet.set.Operations.Follow(o, i)
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
func (c *commands) watch(ctx context.Context, units []*unit, gate operation.Gate, part uint64) (m operation.Member, err error) {
	cmd := core.Command{Verb: core.VerbAwait, Lives: livesOf(units), Gate: gate, Part: part}
	c.begin(&cmd)
	err = c.await(ctx, cmd.ID, func(o *core.Operation) bool {
		for i, is := range o.Members {
			if failed := !is.Open() && is.State != operation.StateDone; failed || i == 0 {
				if m = is; failed {
					return true
				}
			}
		}
		return o.Over()
	})
	c.loop.do(func() { c.fleet.apply(core.Input{Kind: core.Drop, ID: cmd.ID}) })
	return m, err
}

// outcome is that of waiting until a unit has come to what a gate wants of it, as long as
// the caller does.
func (c *commands) outcome(ctx context.Context, u *unit, gate operation.Gate, wait *control.Wait) (outcome control.Outcome) {
	began := time.Now()
	if wait.TimeoutMS > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(wait.TimeoutMS)*time.Millisecond)
		defer cancel()
	}
	m, err := c.watch(ctx, []*unit{u}, gate, 0)
	c.loop.read(func() { outcome.Service = u.status() })
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		outcome.Problem = control.TimedOut(u.title(), outcome.Service.State, time.Since(began), "status "+u.title())
	case m.State == operation.StateFailed && m.Why == operation.Removed && gate.Patient:
		outcome.Problem = control.NewProblem(control.KindNoSuchName, m.Reason)
	case m.State == operation.StateFailed:
		outcome.Problem = problemOf(m)
	case m.State == operation.StateInterrupted:
		outcome.Problem = control.Conflict("%s: %s", u.title(), m.Reason)
	}
	return outcome
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

// stoppedOnly is the problem of a stop that was carried out all the same.
func stoppedOnly(name string, why *control.Problem) *control.Problem {
	reason, _, _ := strings.Cut(why.Detail, "; nothing was done")
	return control.Failed("%s is stopped, as with --runtime: %s; it may run again when the container is started", name, reason)
}
