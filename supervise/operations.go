package supervise

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"rlminit/control"
	"rlminit/supervise/core"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
	"rlminit/supervise/order"
)

// operations is what was commanded and what has become of it, as people see it and as
// a successor finds it. Invariant: after each change but a member's the file has what
// the book has.
type operations struct {
	loop  *mailbox
	tier1 *tier1
	fleet *fleet

	book *operation.Book
	text *handover.Text // what a successor is to know of them; nil: nothing
}

// members are units as an operation begins with them.
func members(units []*unit) []control.OperationMember {
	list := make([]control.OperationMember, len(units))
	for i, u := range units {
		list[i] = control.OperationMember{Name: u.title(), OldPID: u.pid()}
	}
	return list
}

// titles are what units are called.
func titles(units []*unit) []string {
	names := make([]string, len(units))
	for i, u := range units {
		names[i] = u.title()
	}
	return names
}

// begin notes an operation, and who is started along with its members. Only the loop
// calls it.
func (o *operations) begin(id uint64, verb string, members []control.OperationMember, along []*unit, state operation.State, actor control.Actor, cancel func()) operation.Handle {
	begun := o.book.Begin(id, verb, actor, time.Now().UTC(), members, state, cancel)
	if len(along) > 0 {
		o.book.Along(id, titles(along))
	}
	o.keep()
	return begun
}

// along notes who is started along with more of an operation's members: what others
// still do for them ends, as it does for a member.
func (o *operations) along(id uint64, units []*unit) {
	if len(units) > 0 {
		o.book.Along(id, titles(units))
		o.keep()
	}
}

// member notes what has become of u in an operation.
func (o *operations) member(id uint64, u *unit, state operation.State, reason string) {
	o.book.Member(id, u.title(), state, reason, u.pid())
}

// standing is what has become of u in an operation.
func (o *operations) standing(id uint64, u *unit) operation.Standing {
	return o.book.Standing(id, u.title())
}

// conclude notes what became of a member.
func (o *operations) conclude(id uint64, u *unit, problem *control.Problem) {
	state, reason := operation.Done, ""
	if problem != nil {
		state, reason = operation.Failed, problem.Detail
	}
	o.member(id, u, state, reason)
	if o.book.Over(id) {
		o.keep()
	}
}

// Operations are those under way and the latest that are over.
func (o *operations) Operations() []control.Operation { return o.book.List() }

// Operation is one of them. Each member that waits says what for.
func (o *operations) Operation(id uint64) (control.Operation, error) {
	h, problem := o.book.Get(id)
	if problem != nil {
		return control.Operation{}, problem
	}
	return o.now(h), nil
}

// now is an operation, in which each member that waits says what for.
func (o *operations) now(h operation.Handle) control.Operation {
	is, _ := h.Now()
	if !is.Over() {
		o.loop.ask(func() {
			for i := range is.Members {
				if m := &is.Members[i]; m.State == operation.Running {
					if u := o.fleet.find(m.Name); u != nil {
						m.PID, m.Reason = u.pid(), o.waitsFor(u)
					}
				}
			}
		})
	}
	return is
}

// AwaitOperation returns when an operation is over, has changed, or ctx ends.
func (o *operations) AwaitOperation(ctx context.Context, id uint64) (control.Operation, error) {
	h, problem := o.book.Get(id)
	if problem != nil {
		return control.Operation{}, problem
	}
	if is, changed := h.Now(); !is.Over() {
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return o.now(h), nil
}

// CancelOperation has an operation go no further: who waits for its turn to be
// restarted stays as it is, and a rolling one takes nobody any more: whom it has not come
// to is wanted as before. What has begun stays, and so does its intent.
func (o *operations) CancelOperation(id uint64) (control.Operation, error) {
	is, problem := o.book.Cancel(id)
	if problem != nil {
		return is, problem
	}
	o.loop.ask(func() {
		var back []*unit
		for _, m := range is.Members {
			if m.State != operation.Cancelled {
				continue // a later operation has it, or it is over
			}
			if u := o.fleet.find(m.Name); u != nil && (is.Verb == "restart" || is.Verb == "reload") && u.life.Turn() == order.Restart {
				back = append(back, u)
			}
		}
		o.fleet.apply(core.Input{Kind: core.Revoke, Nodes: nodesOf(back)})
		o.keep()
	})
	return is, nil
}

// waitsFor is what a member waits for, in words.
func (o *operations) waitsFor(u *unit) string {
	if u.life.Turn().Stops() {
		if before := o.fleet.set.Before(u.life.Node()); before != "" {
			return "waits for " + before + " to stop"
		}
	}
	if u.state.Phase == machine.Waiting {
		return u.state.Blocked
	}
	return "is " + u.state.Public()
}

// open takes over what a predecessor kept of its operations, before any is begun.
func (o *operations) open(hold handover.Hold) {
	text, left, err := handover.OpenText("operations", o.tier1.held, hold)
	if err != nil {
		slog.Warn("a successor will not know of operations", "err", err)
		return
	}
	o.text = text
	var before []control.Operation
	if json.Unmarshal(left, &before) == nil {
		o.book.Recall(before, 0)
	}
}

// resume ends those of a predecessor that were under way. A member that has come to
// what was asked is done, by what is true of it now.
func (o *operations) resume() {
	o.book.Resume(func(verb string, m control.OperationMember) (int, bool) {
		u := o.fleet.find(m.Name)
		switch {
		case u == nil:
			return 0, false
		case verb == "stop":
			return 0, !u.active() && u.state.Want != machine.WantUp
		}
		up := u.state.Phase == machine.Running || u.state.Satisfies(u.policy())
		return u.pid(), up && (verb == "start" || u.pid() != m.OldPID)
	})
	o.keep()
}

// keep writes down, for a successor, what is under way and what is over.
// It is memory: it does not wait. Only the loop calls it.
func (o *operations) keep() {
	if o.text != nil {
		o.text.Write(o.book.AppendTo)
	}
}
