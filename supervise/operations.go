package supervise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
	"rlminit/supervise/order"
)

// commands carries out what people command on services, each command as an operation.
// What it wants is durable before anything is done; the later one on a service wins;
// and each ends, or says of each member what it waits for. Anybody may command but
// the loop.
type commands struct {
	loop      *mailbox
	tier1     *tier1
	fleet     *fleet
	records   *records
	directory *directory

	operations     *operation.Book
	operationsFile int // memfd: what a successor is to know of them; 0: none

	rolls map[chan struct{}][]*unit // rolling operations that wait for a change, and their members; the loop's
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
	units, problems := c.choose(how.Names, how.State, v, false)
	if len(problems) > 0 {
		for _, problem := range problems {
			return control.Operation{}, problem
		}
	}
	if how.Rolling > 0 {
		begun, err := c.roll(v, units, how.Rolling, time.Duration(how.SteadyMS)*time.Millisecond, actor)
		if err != nil {
			return control.Operation{}, err
		}
		return c.now(begun), nil
	}
	outcomes, begun := c.operateAs(ctx, v, units, c.startedAlong(v, units), actor, nil, 0)
	if begun.ID() == 0 { // it was refused as a whole
		for _, o := range outcomes {
			return control.Operation{}, o.Problem
		}
	}
	return c.now(begun), nil
}

// choose returns the units that names mean, each of them a name or a pattern; no
// names mean all. By name it returns what is wrong with one.
func (c *commands) choose(names []string, state string, v verb, failedOnly bool) (units []*unit, problems map[string]*control.Problem) {
	problems = map[string]*control.Problem{}
	c.wakeFor(names, state, v, failedOnly)
	c.loop.ask(func() {
		var all []*unit
		if len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return c.fleet.find(name) == nil }) {
			all = c.fleet.all()
		}
		in := map[*unit]bool{}
		add := func(u *unit) {
			if !in[u] && (state == "" || u.status().State == state) {
				in[u] = true
				units = append(units, u)
			}
		}
		for _, name := range names {
			if u := c.fleet.find(name); u != nil {
				add(u)
				continue
			}
			found := false
			for _, u := range all {
				found = found || fits(name, u)
				if fits(name, u) {
					add(u)
				}
			}
			if !found {
				problems[name] = nil
			}
		}
		if len(names) > 0 {
			return
		}
		for _, u := range all {
			if failedOnly && u.state.Phase != machine.Failed {
				continue
			}
			if v.name == "restart" && u.state.Want != machine.WantUp {
				continue // restart --all wakes nothing that was stopped
			}
			add(u)
		}
	})
	for name := range problems {
		_, err := c.directory.lookUp(name)
		var problem *control.Problem
		if errors.As(err, &problem) {
			problems[name] = problem
		} else { // it came this moment
			delete(problems, name)
		}
	}
	return units, problems
}

// wakeFor wakes the profiles at rest that a command is for. What is to stop, or to
// be restarted where it runs, is none of those that were not named.
func (c *commands) wakeFor(names []string, state string, v verb, failedOnly bool) {
	all := len(names) == 0 && (v.name == "start" && !failedOnly || state != "")
	if len(names) > 0 { // what has a unit is awake
		c.loop.ask(func() {
			names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return c.fleet.find(name) != nil })
		})
	}
	if !all && len(names) == 0 {
		return
	}
	c.directory.registry.AtRest.Wake(func(service, profile string) bool {
		return all || slices.ContainsFunc(names, func(name string) bool { return matches(name, service, profile) })
	})
}

// fits tells whether a pattern is for u: by its name, or its profile's.
func fits(pattern string, u *unit) bool { return matches(pattern, u.name, u.definition.Profile) }

func matches(pattern string, names ...string) bool {
	for _, name := range names {
		if ok, err := path.Match(pattern, name); name != "" && ok && err == nil {
			return true
		}
	}
	return false
}

// startedAlong are the units that are started with those that a verb starts.
func (c *commands) startedAlong(v verb, units []*unit) (along []*unit) {
	if v.name != "stop" {
		c.loop.ask(func() { along = c.fleet.along(units...) })
	}
	return along
}

// beginOperation notes an operation on units. Only the loop calls it.
func (c *commands) beginOperation(id uint64, v verb, units []*unit, state operation.State, actor control.Actor, cancel func()) operation.Handle {
	members := make([]control.OperationMember, len(units))
	for i, u := range units {
		members[i] = control.OperationMember{Name: u.title(), OldPID: u.pid()}
	}
	begun := c.operations.Begin(id, v.name, actor, time.Now().UTC(), members, state, cancel)
	c.keepOperations()
	return begun
}

// pid is that of u's process; 0: there is none.
func (u *unit) pid() int {
	if u.state.Alive() {
		return u.state.PID
	}
	return 0
}

// conclude notes what became of a member.
func (c *commands) conclude(id uint64, u *unit, problem *control.Problem) {
	state, reason := operation.Done, ""
	if problem != nil {
		state, reason = operation.Failed, problem.Detail
	}
	c.operations.Member(id, u.title(), state, reason, u.pid())
	if c.operations.Over(id) {
		c.keepOperations()
	}
}

// Operations are those under way and the latest that are over.
func (c *commands) Operations() []control.Operation { return c.operations.List() }

// Operation is one of them. Each member that waits says what for.
func (c *commands) Operation(id uint64) (control.Operation, error) {
	h, problem := c.operations.Get(id)
	if problem != nil {
		return control.Operation{}, problem
	}
	return c.now(h), nil
}

// now is an operation, in which each member that waits says what for.
func (c *commands) now(h operation.Handle) control.Operation {
	o, _ := h.Now()
	if !o.Over() {
		c.loop.ask(func() {
			for i := range o.Members {
				if m := &o.Members[i]; m.State == operation.Running {
					if u := c.fleet.find(m.Name); u != nil {
						m.PID, m.Reason = u.pid(), c.waitsFor(u)
					}
				}
			}
		})
	}
	return o
}

// AwaitOperation returns when an operation is over, has changed, or ctx ends.
func (c *commands) AwaitOperation(ctx context.Context, id uint64) (control.Operation, error) {
	h, problem := c.operations.Get(id)
	if problem != nil {
		return control.Operation{}, problem
	}
	if o, changed := h.Now(); !o.Over() {
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return c.now(h), nil
}

// CancelOperation has an operation go no further: who waits for its turn to be
// restarted stays as it is, and a rolling one takes nobody any more. An intent that
// was recorded stays, and so does what has begun.
func (c *commands) CancelOperation(id uint64) (control.Operation, error) {
	o, problem := c.operations.Cancel(id)
	if problem != nil {
		return o, problem
	}
	c.loop.ask(func() {
		for _, m := range o.Members {
			if u := c.fleet.find(m.Name); u != nil && (o.Verb == "restart" || o.Verb == "reload") && u.order.turn == order.Restart {
				c.fleet.order.set.Withdraw(u.order.node)
				u.order.turn, u.order.command = order.NoTurn, machine.Event{}
			}
		}
		c.fleet.follow()
	})
	c.keepOperations()
	return o, nil
}

// waitsFor is what a member waits for, in words.
func (c *commands) waitsFor(u *unit) string {
	if u.order.turn.Stops() {
		if before := c.fleet.order.set.Told(u.order.node).Before; before != order.None {
			return "waits for " + c.fleet.order.names[before] + " to stop"
		}
	}
	if u.state.Phase == machine.Waiting {
		return u.state.Blocked
	}
	return "is " + u.state.Public()
}

// operationsKey names the file in which a successor finds the operations, among
// what tier 1 holds.
const operationsKey = "operations"

// openOperations takes over what a predecessor kept of its operations, before any
// is begun, or makes the file for it.
func (c *commands) openOperations(hold func(key string, fd int)) {
	if fds := c.tier1.held.Take(operationsKey); len(fds) == 1 {
		c.operationsFile = fds[0]
		var st unix.Stat_t
		if unix.Fstat(c.operationsFile, &st) == nil && st.Size > 0 {
			content := make([]byte, st.Size)
			n, _ := unix.Pread(c.operationsFile, content, 0)
			var before []control.Operation
			// What is longer than the value is what was there before it.
			if json.NewDecoder(bytes.NewReader(content[:max(0, n)])).Decode(&before) == nil {
				c.operations.Recall(before, 0)
			}
		}
		return
	}
	fd, err := unix.MemfdCreate("operations", unix.MFD_CLOEXEC)
	if err != nil {
		slog.Warn("a successor will not know of operations", "err", err)
		return
	}
	c.operationsFile = fd
	hold(operationsKey, fd)
}

// resumeOperations ends those of a predecessor that were under way. A member that
// has come to what was asked is done, by what is true of it now.
func (c *commands) resumeOperations() {
	c.operations.Resume(func(verb string, m control.OperationMember) (int, bool) {
		u := c.fleet.find(m.Name)
		switch {
		case u == nil:
			return 0, false
		case verb == "stop":
			return 0, !u.active() && u.state.Want != machine.WantUp
		}
		up := u.state.Phase == machine.Running || u.state.Satisfies(u.policy)
		return u.pid(), up && (verb == "start" || u.pid() != m.OldPID)
	})
	c.keepOperations()
}

// keepOperations writes down, for a successor, what is under way and what is over.
// It is memory: it does not wait.
func (c *commands) keepOperations() {
	if c.operationsFile <= 0 {
		return
	}
	content := c.operations.Encode()
	_, _ = unix.Pwrite(c.operationsFile, content, 0)
	_ = unix.Ftruncate(c.operationsFile, int64(len(content)))
}
