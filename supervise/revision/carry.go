package revision

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/internal/durable"
	"rlminit/plan"
	"rlminit/plan/apply"
	"rlminit/rights"
	"rlminit/service"
)

// carrier carries one revision out. Its run is one goroutine, which owns the
// state; actions run beside it and end as events.
type carrier struct {
	r     *Revisions
	doc   *Document
	begun apply.RecordedBegun
	state apply.State
	cold  bool // nothing is started yet

	events  chan apply.Event
	watches map[int]context.CancelFunc // of gates

	operations map[int]uint64 // by step, of acts under way
	until      map[int]time.Time
	over       chan struct{} // closed when the revision is
}

func (r *Revisions) carry(doc *Document, begun apply.RecordedBegun, state apply.State) *carrier {
	return &carrier{
		r: r, doc: doc, begun: begun, state: state,
		// An action ends with one event, and a step has two at most at a time.
		events: make(chan apply.Event, 2*len(doc.Steps)+1), watches: map[int]context.CancelFunc{}, operations: map[int]uint64{},
		until: map[int]time.Time{},
		over:  make(chan struct{}),
	}
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// timeout is how long a step may take.
func (c *carrier) timeout() time.Duration { return milliseconds(c.begun.TimeoutMS) }

// run carries the revision to its end.
func (c *carrier) run(first apply.Event) {
	if c.begun.DeadlineMS > 0 {
		deadline := milliseconds(c.begun.DeadlineMS)
		timer := time.AfterFunc(deadline, func() {
			c.events <- apply.Event{Kind: apply.Halt, Cause: apply.TimedOut, Reason: fmt.Sprintf("the whole has taken %s", deadline)}
		})
		defer timer.Stop()
	}
	defer close(c.over)
	if starts := c.starts(); len(starts) > 0 && !c.cold {
		c.r.box.Announce(starts)
		defer c.r.box.Withdraw(starts)
	}
	for e := first; ; e = <-c.events {
		var do []apply.Action
		c.state, do = apply.Next(c.state, e)
		c.carryOut(do)
		c.r.progress.bump()
		if c.state.Over() {
			slog.Info("a revision has ended", "revision", c.doc.Revision, "outcome", string(c.state.Outcome), "why", c.state.Reason)
			if c.state.Unfinished() && !c.cold {
				c.r.retries.begin()
			}
			return
		}
	}
}

// starts are the profiles that are to run when all is done: one of them may need another.
func (c *carrier) starts() (names []string) {
	for _, k := range c.doc.Steps {
		if k.After != nil && k.After.State == service.Running && !plan.IsConfiguration(k.Name) {
			names = append(names, k.Name)
		}
	}
	return names
}

// carryOut executes decisions, in their order. The record of several
// steps in a row is one record.
func (c *carrier) carryOut(do []apply.Action) {
	for i := 0; i < len(do); i++ {
		a := do[i]
		switch a.Do {
		case apply.RecordStep:
			record := apply.RecordedStep{Revision: c.doc.Revision, Steps: []int{a.Step}, Place: a.Place, Reason: a.Reason, Temporary: a.Temporary}
			for i+1 < len(do) && do[i+1].Do == apply.RecordStep && do[i+1].Place == a.Place && do[i+1].Reason == a.Reason {
				i++
				record.Steps = append(record.Steps, do[i].Step)
			}
			c.record(apply.TypeStep, record)
			if a.Place != apply.Begun {
				c.conclude(record.Steps, a.Reason)
			}
		case apply.RecordTurn:
			slog.Warn("a revision is rolled back", "revision", c.doc.Revision, "why", a.Reason)
			c.record(apply.TypeTurned, apply.RecordedTurn{Revision: c.doc.Revision, Cause: c.state.Turned, Reason: a.Reason})
			c.conclude(slices.Collect(maps.Keys(c.operations)), a.Reason)
		case apply.RecordEnd:
			c.record(apply.TypeEnded, apply.RecordedEnd{Revision: c.doc.Revision, Outcome: c.state.Outcome})
			if c.state.Outcome == apply.RolledBack {
				c.forgetUndone()
			}
		case apply.Act:
			c.operate(a.Step, c.doc.Steps[a.Step].Action)
			go c.act(a.Step, c.operations[a.Step], c.until[a.Step])
		case apply.Gate:
			ctx, cancel := context.WithTimeout(context.Background(), c.timeout())
			c.watches[a.Step] = cancel
			go c.gate(ctx, a.Step, c.operations[a.Step])
		case apply.Abandon:
			c.watches[a.Step]()
		case apply.Undo:
			c.operate(a.Step, "rollback")
			go c.undo(a.Step, c.operations[a.Step], c.until[a.Step])
		case apply.UndoUnstarted:
			go c.undo(a.Step, 0, time.Now().Add(c.allowance(c.doc.Steps[a.Step])))
		case apply.TryAgain:
			slog.Warn("a step of a revision is tried again", "revision", c.doc.Revision, "in", a.Pause, "why", a.Reason)
			c.r.progress.hold(a.Step, a.Reason+"; it is tried again in "+a.Pause.String())
			time.AfterFunc(a.Pause, func() { c.send(apply.Event{Kind: apply.Again, Step: a.Step}) })
		}
	}
}

// retry is how long it takes until a record that could not be written is tried
// again, and tries how often that is before anything is started: a volume that
// cannot be written to must not hold a boot up. The next one does it again.
const (
	retry = time.Second
	tries = 3
)

// record writes a record down, however long that takes: what follows it must
// not begin before, and nobody may be told an outcome that a successor would not
// know. A full disk holds a revision up; it does not make it a half of each.
func (c *carrier) record(kind string, body any) {
	for try := 1; ; try++ {
		err := c.r.journal.Record(kind, body)
		if err == nil || c.cold && try >= tries {
			return
		}
		if try == 1 {
			slog.Error("cannot record how far a revision is; it goes on when that works", "revision", c.doc.Revision, "err", err)
			c.r.progress.hold(wholeOfIt, fmt.Sprintf("how far it is cannot be recorded: %v", err))
			defer c.r.progress.hold(wholeOfIt, "")
		}
		time.Sleep(retry)
	}
}

// operate notes the act of a step as an operation. One that is cancelled,
// or in whose middle somebody commands the service, turns the revision around; the
// events of a carrier that has ended are nobody's.
func (c *carrier) operate(i int, verb string) {
	c.r.progress.hold(i, "")
	if c.operations[i] != 0 {
		return // it is tried again
	}
	c.until[i] = time.Now().Add(c.allowance(c.doc.Steps[i]))
	if c.doc.Quiet {
		return
	}
	c.operations[i] = c.r.box.Begin(verb, c.doc.Steps[i], c.begun.UID, func(why Halted) { c.halt(i, why) })
}

// halt turns the revision around, whichever part has seen it first.
func (c *carrier) halt(i int, why Halted) {
	e := apply.Event{Kind: apply.Halt, Cause: apply.GateLost, Reason: c.doc.Steps[i].Name + ": " + why.Why}
	if why.Cancelled {
		e.Cause = apply.Called
	}
	c.send(e)
}

// send is for senders that may be late: after the end nobody listens.
func (c *carrier) send(e apply.Event) {
	select {
	case c.events <- e:
	case <-c.over:
	}
}

// conclude notes the end of operations; why is empty of those that have succeeded.
func (c *carrier) conclude(steps []int, why string) {
	for _, i := range steps {
		if id := c.operations[i]; id != 0 {
			c.r.box.End(id, c.doc.Steps[i], why)
			delete(c.operations, i)
		}
	}
}

func (c *carrier) how(k Kept, operation uint64, cold bool) Put {
	return Put{
		Create: k.Action == plan.Create, Cold: cold, Quiet: c.doc.Quiet, Actor: c.begun.UID, Operation: operation,
		Services: k.Services, Rolling: c.begun.Rolling,
	}
}

// act brings one step's profile to its target.
func (c *carrier) act(i int, operation uint64, until time.Time) {
	k := c.doc.Steps[i]
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	defer c.watch(i, until)()
	untouched, err := c.do(ctx, k, operation)
	var halted Halted
	if errors.As(err, &halted) { // which waits for no gate to be noticed
		c.halt(i, halted)
	}
	e := apply.Event{
		Kind: apply.ActDone, Step: i, OK: err == nil, Late: err != nil && ctx.Err() != nil, Untouched: untouched,
		Temporary: temporary(err), Left: time.Until(until),
	}
	if err != nil {
		e.Reason = fmt.Sprintf("%s: cannot %s it: %v", k.Name, k.Action, err)
	}
	c.events <- e
}

func (c *carrier) do(ctx context.Context, k Kept, operation uint64) (untouched bool, err error) {
	f, err := c.find(k)
	switch {
	case err != nil:
		return true, err
	case f.lost(k) && k.After == nil:
		return true, c.r.whereabouts.touched(k.Name)
	case f.lost(k):
		return false, c.r.whereabouts.lost(k)
	case !f.ours(k):
		return !f.done(k), c.r.whereabouts.touched(k.Name)
	}
	if k.After == nil {
		if f.is == nil {
			return false, nil // it is in the trash already
		}
		err := c.r.box.Discard(ctx, k.Name, k.Trash, c.how(k, operation, false))
		if err != nil && c.left(k) {
			return true, c.r.whereabouts.touched(k.Name)
		}
		return false, err
	}
	how := c.how(k, operation, false)
	how.Create = f.is == nil && k.From == ""
	if f.trashed {
		if err := c.r.box.Restore(k.Name, k.From, k.After.Secrets, c.begun.UID); err != nil {
			return false, fmt.Errorf("cannot take it out of the trash: %w", err)
		}
	}
	err = c.r.box.Put(ctx, k.Name, *k.After, how)
	if err != nil && f.is != nil && c.left(k) {
		err = c.r.whereabouts.touched(k.Name)
	}
	if plan.IsConfiguration(k.Name) && err != nil {
		is, failure := c.now(k.Name)
		untouched = failure == nil && sameContent(is, k.Before) // it was not even put in place
	}
	return untouched, err
}

// allowance is how long a step's action may take: each service that a configuration has
// restarted is a change of its own.
func (c *carrier) allowance(k Kept) time.Duration {
	return c.timeout() * time.Duration(max(1, len(k.Services)))
}

// between tells whether a profile is between before and after: a kill can leave
// the definition written, and the intent not yet.
func between(is, before, after *Content) bool {
	if is == nil || after == nil || before == nil {
		return false
	}
	either := func(same func(*Content) bool) bool { return same(before) || same(after) }
	return either(func(c *Content) bool { return bytes.Equal(is.Text, c.Text) }) &&
		either(func(c *Content) bool { return sameState(is, c) }) &&
		either(func(c *Content) bool { return maps.Equal(is.Secrets, c.Secrets) })
}

// now is a profile's content; nil: there is none.
func (c *carrier) now(name string) (*Content, error) {
	f, err := c.r.box.Profile(name)
	switch {
	case errors.Is(err, ErrGone):
		return nil, nil //nolint:nilnil // that there is none is an answer
	case err != nil:
		return nil, err
	}
	return &f.Content, nil
}

// gate watches one step's service.
func (c *carrier) gate(ctx context.Context, i int, operation uint64) {
	k := c.doc.Steps[i]
	e := apply.Event{Kind: apply.GateDone, Step: i, OK: true}
	if k.After != nil && !c.doc.Quiet {
		steady := milliseconds(c.begun.SteadyMS)
		err := c.r.box.Gate(ctx, k.Name, Gating{Up: k.After.State == service.Running, Steady: steady, Operation: operation, Services: k.Services})
		var halted Halted
		if errors.As(err, &halted) {
			c.halt(i, halted)
			return
		}
		e.OK = err == nil
		if e.Late = errors.Is(err, context.DeadlineExceeded); e.Late {
			err = fmt.Errorf("not %s, and so for %s, within %s", upOrDown(k.After.State), steady, c.timeout())
		}
		if err != nil {
			e.Reason = about(k.Name, err)
			if is, failure := c.now(k.Name); failure == nil && !sameContent(is, k.After) {
				// Of a definition that is changed no operation tells.
				e.Late, e.Reason = false, k.Name+": somebody has changed it meanwhile"
			}
		}
	}
	c.events <- e
}

// grace is the time of a call with a deadline to end by itself.
const grace = 2 * time.Second

// watch has it said that a step takes longer than it may: a file system may never answer.
func (c *carrier) watch(i int, until time.Time) (ended func()) {
	late := time.AfterFunc(time.Until(until)+grace, func() {
		c.r.progress.hold(i, c.doc.Steps[i].Name+": it takes longer than it may; its file system may not answer")
	})
	return func() {
		if !late.Stop() {
			c.r.progress.hold(i, "")
		}
	}
}

// temporary tells whether a failed call may succeed at another time.
func temporary(err error) bool {
	var problem *control.Problem
	return durable.Temporary(err) || errors.Is(err, unix.EROFS) || errors.Is(err, rights.ErrEnded) || errors.As(err, &problem) && problem.Retryable
}

// about is an error with the name of its subject, once.
func about(name string, err error) string {
	what := strings.TrimPrefix(strings.TrimPrefix(err.Error(), name+": "), name+" ")
	return name + ": " + what
}

func upOrDown(state service.Intent) string {
	if state == service.Running {
		return "ready"
	}
	return "stopped"
}

// undo puts one step's profile back, and its service.
func (c *carrier) undo(i int, operation uint64, until time.Time) {
	k := c.doc.Steps[i]
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	defer c.watch(i, until)()
	err := c.putBack(ctx, k, operation, c.cold)
	passes := temporary(err)
	if err == nil && !c.cold && !c.doc.Quiet && k.Before != nil && (k.Up || k.Before.State != service.Running) {
		if err = c.r.box.Gate(ctx, k.Name, c.backTo(k, operation)); errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("it is as it was, but not %s again after %s", upOrDown(k.Before.State), c.timeout())
		}
	}
	e := apply.Event{Kind: apply.UndoDone, Step: i, OK: err == nil, Temporary: passes, Left: time.Until(until)}
	if err != nil {
		e.Reason = about(k.Name, err)
		slog.Error("a change could not be rolled back", "revision", c.doc.Revision, "profile", k.Name, "why", err)
	}
	c.events <- e
}

// backTo is the state that a service is to come to again.
func (c *carrier) backTo(k Kept, operation uint64) Gating {
	return Gating{
		Up: k.Up, Steady: min(milliseconds(c.begun.SteadyMS), backAgain), Operation: operation, Services: k.Services, Back: true,
	}
}

// backAgain is for how long a service must be ready that runs with the
// definition that it ran with before.
const backAgain = 2 * time.Second

func (c *carrier) putBack(ctx context.Context, k Kept, operation uint64, cold bool) error {
	f, err := c.find(k)
	if err != nil {
		return err
	}
	err = c.putBackFrom(ctx, k, f, c.how(k, operation, cold))
	if err != nil && f.is != nil && c.left(k) {
		return c.putBackFrom(ctx, k, finding{}, c.how(k, operation, cold))
	}
	return err
}

func (c *carrier) putBackFrom(ctx context.Context, k Kept, f finding, how Put) error {
	how.Create = false
	switch {
	case f.lost(k):
		return c.r.whereabouts.lost(k)
	case !f.ours(k) && f.trashed:
		return fmt.Errorf("there is another one by now, which is left as it is; it is in the trash as %s", k.entry())
	case !f.ours(k):
		return fmt.Errorf("%w; it is left as it is", c.r.whereabouts.touched(k.Name))
	case k.Before == nil && f.is == nil:
		if became, to, _ := c.r.whereabouts.of(k.Name); to != "" {
			return fmt.Errorf("it was %s, which is left as it is", became)
		}
		return nil // it was never made, or is gone again
	case k.Before == nil:
		return c.r.box.Discard(ctx, k.Name, k.Trash, how)
	case f.is == nil:
		if err := c.r.box.Restore(k.Name, k.Trash, k.Before.Secrets, c.begun.UID); err != nil {
			return fmt.Errorf("cannot take it out of the trash: %w", err)
		}
	}
	before := *k.Before
	before.Secrets = maps.Clone(before.Secrets)
	return c.r.box.Put(ctx, k.Name, before, how)
}

// left tells whether a step's profile has gone while the step was acted: somebody had
// begun to rename or delete it.
func (c *carrier) left(k Kept) bool {
	f, err := c.find(k)
	return err == nil && f.is == nil && !f.trashed && !plan.IsConfiguration(k.Name)
}
