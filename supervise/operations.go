package supervise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// BeginOperation begins one operation on the services that it says, and returns it
// as it is when all is recorded and nothing waits for the caller any more.
func (s desk) BeginOperation(ctx context.Context, how control.BeginOperation, actor control.Actor) (control.Operation, error) {
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
	units, problems := s.choose(how.Names, how.State, v, false)
	if len(problems) > 0 {
		for _, problem := range problems {
			return control.Operation{}, problem
		}
	}
	if how.Rolling > 0 {
		id, err := s.roll(v, units, how.Rolling, time.Duration(how.SteadyMS)*time.Millisecond, actor)
		if err != nil {
			return control.Operation{}, err
		}
		return s.Operation(id)
	}
	outcomes, id := s.operateAs(ctx, v, units, s.startedAlong(v, units), actor, nil, 0)
	if id == 0 { // it was refused as a whole
		for _, o := range outcomes {
			return control.Operation{}, o.Problem
		}
	}
	return s.Operation(id)
}

// choose returns the units that names mean, each of them a name or a pattern; no
// names mean all. By name it returns what is wrong with one.
func (s *Supervisor) choose(names []string, state string, v verb, failedOnly bool) (units []*unit, problems map[string]*control.Problem) {
	problems = map[string]*control.Problem{}
	s.wakeFor(names, state, v, failedOnly)
	s.ask(func() {
		all := s.all()
		in := map[*unit]bool{}
		add := func(u *unit) {
			if !in[u] && (state == "" || u.status().State == state) {
				in[u] = true
				units = append(units, u)
			}
		}
		for _, name := range names {
			if u := s.find(name); u != nil {
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
		_, err := s.lookUp(name)
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
func (s *Supervisor) wakeFor(names []string, state string, v verb, failedOnly bool) {
	all := len(names) == 0 && (v.name == "start" && !failedOnly || state != "")
	if !all && len(names) == 0 {
		return
	}
	s.registry.Wake(func(service, profile string) bool {
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
func (s *Supervisor) startedAlong(v verb, units []*unit) (along []*unit) {
	if v.name != "stop" {
		s.ask(func() { along = s.along(units...) })
	}
	return along
}

// beginOperation notes an operation on units. Only the loop calls it.
func (s *Supervisor) beginOperation(id uint64, v verb, units []*unit, state operation.State, actor control.Actor, cancel func()) {
	members := make([]control.OperationMember, len(units))
	for i, u := range units {
		members[i] = control.OperationMember{Name: u.title(), OldPID: u.pid()}
	}
	s.operations.Begin(id, v.name, actor, time.Now().UTC(), members, state, cancel)
	s.keepOperations()
}

// pid is that of u's process; 0: there is none.
func (u *unit) pid() int {
	if u.state.Alive() {
		return u.state.PID
	}
	return 0
}

// conclude notes what became of a member.
func (s *Supervisor) conclude(id uint64, u *unit, problem *control.Problem) {
	state, reason := operation.Done, ""
	if problem != nil {
		state, reason = operation.Failed, problem.Detail
	}
	s.operations.Member(id, u.title(), state, reason, u.pid())
	if o, _, _ := s.operations.Get(id); o.Over() {
		s.keepOperations()
	}
}

// Operations are those under way and the latest that are over.
func (s desk) Operations() []control.Operation { return s.operations.List() }

// Operation is one of them. Each member that waits says what for.
func (s desk) Operation(id uint64) (control.Operation, error) {
	o, _, problem := s.operations.Get(id)
	if problem != nil {
		return o, problem
	}
	if !o.Over() {
		s.ask(func() {
			for i := range o.Members {
				if m := &o.Members[i]; m.State == operation.Running {
					if u := s.find(m.Name); u != nil {
						m.PID, m.Reason = u.pid(), s.waitsFor(u)
					}
				}
			}
		})
	}
	return o, nil
}

// AwaitOperation returns when an operation is over, has changed, or ctx ends.
func (s desk) AwaitOperation(ctx context.Context, id uint64) (control.Operation, error) {
	o, changed, problem := s.operations.Get(id)
	if problem != nil {
		return o, problem
	}
	if !o.Over() {
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return s.Operation(id)
}

// CancelOperation has an operation go no further: who waits for its turn to be
// restarted stays as it is, and a rolling one takes nobody any more. An intent that
// was recorded stays, and so does what has begun.
func (s desk) CancelOperation(id uint64) (control.Operation, error) {
	o, problem := s.operations.Cancel(id)
	if problem != nil {
		return o, problem
	}
	s.ask(func() {
		for _, m := range o.Members {
			if u := s.find(m.Name); u != nil && (o.Verb == "restart" || o.Verb == "reload") && u.turn == order.Restart {
				s.order.set.Withdraw(u.node)
				u.turn, u.command = order.NoTurn, machine.Event{}
			}
		}
		s.follow()
	})
	s.keepOperations()
	return o, nil
}

// waitsFor is what a member waits for, in words.
func (s *Supervisor) waitsFor(u *unit) string {
	if u.turn.Stops() {
		if before := s.order.set.Told(u.node).Before; before != order.None {
			return "waits for " + s.order.names[before] + " to stop"
		}
	}
	if u.state.Phase == machine.Waiting {
		return u.state.Blocked
	}
	return "is " + u.state.Public()
}

// roll restarts units, at most limit of which are out of service at once; or has
// at most so many on their way up, or down, at once.
func (s *Supervisor) roll(v verb, units []*unit, limit int, steady time.Duration, actor control.Actor) (uint64, error) {
	if problem := s.refusal(v); problem != nil {
		return 0, problem
	}
	along := s.startedAlong(v, units)
	release := oneAtATime(append(slices.Clone(units), along...))
	id := s.operations.NewID()
	problem := s.recordCommand(context.Background(), id, v, units, along, actor)
	release()
	if problem != nil && v.name != "stop" { // which is carried out all the same
		return 0, problem
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.ask(func() { s.beginOperation(id, v, units, operation.Pending, actor, cancel) })
	go func() {
		defer cancel()
		s.rolling(ctx, id, v, units, operation.NewRoll(len(units), limit, steady), actor)
	}()
	return id, nil
}

// rolling takes one member after the other. It decides and takes in one piece of
// the loop's work, so that nobody goes out of service in between.
func (s *Supervisor) rolling(ctx context.Context, id uint64, v verb, units []*unit, roll *operation.Roll, actor control.Actor) {
	event := commanded(v, actor)
	for ctx.Err() == nil {
		var verdict operation.Verdict
		wake := make(chan struct{}, 1)
		s.ask(func() {
			seen := make([]operation.Seen, len(units))
			for i, u := range units {
				seen[i] = s.seenIn(v, u, roll.Taken(i))
				if !roll.Taken(i) && !v.needed(u) {
					roll.Skip(i)
				}
			}
			o, _, _ := s.operations.Get(id)
			for i, m := range o.Members {
				if m.State == operation.Superseded {
					roll.Skip(i)
				}
			}
			verdict = roll.Next(seen)
			for i, u := range units {
				if roll.Done[i] {
					s.operations.Member(id, u.title(), operation.Done, "", u.pid())
				}
			}
			if s.stopping {
				s.operations.Stop(id, operation.Interrupted, "the container is stopping")
				return
			}
			if verdict.Take >= 0 && ctx.Err() == nil {
				u := units[verdict.Take]
				s.operations.Member(id, u.title(), operation.Running, "", 0)
				act := []*unit{u}
				if v.name != "stop" {
					act = append(s.along(u), u)
				}
				v.apply(&s.fleet, act, event)
			}
			s.rolls[wake] = units
		})
		o, _, _ := s.operations.Get(id)
		switch {
		case o.Over() || verdict.Over:
			s.ask(func() { delete(s.rolls, wake); s.keepOperations() })
			return
		case verdict.Failed >= 0:
			s.ask(func() {
				delete(s.rolls, wake)
				u := units[verdict.Failed]
				if roll.Taken(verdict.Failed) {
					s.operations.Member(id, u.title(), operation.Failed, verdict.Why, u.pid())
				}
				s.operations.Stop(id, operation.Failed, fmt.Sprintf(control.GateReason+"%s: %s; %s", u.title(), verdict.Why, newAndOld(units, roll)))
				s.keepOperations()
			})
			return
		}
		if verdict.Take < 0 {
			pause := time.Minute
			if verdict.Wait > 0 {
				pause = verdict.Wait
			}
			timer := time.NewTimer(pause)
			select {
			case <-wake:
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
		s.ask(func() { delete(s.rolls, wake) })
	}
}

// newAndOld says which members have a new process, and which have theirs from before.
func newAndOld(units []*unit, roll *operation.Roll) string {
	fresh, old := "", ""
	for i, u := range units {
		if roll.Taken(i) {
			fresh += ", " + u.title()
		} else {
			old += ", " + u.title()
		}
	}
	text := "new: " + "none"
	if fresh != "" {
		text = "new: " + fresh[2:]
	}
	if old == "" {
		return text + "; old: none"
	}
	return text + "; old: " + old[2:]
}

// seenIn is u as the gate of a verb sees it. To be started or stopped harms nobody,
// so there it is about those alone that were taken; and what has come to be stopped
// is what a new run is elsewhere.
func (s *Supervisor) seenIn(v verb, u *unit, taken bool) operation.Seen {
	seen := s.seen(u)
	switch {
	case v.renews:
	case !taken:
		seen.InService, seen.Hopeless = true, false
	case v.name == "stop":
		gone := !u.active() && !u.turn.Stops()
		seen = operation.Seen{InService: gone, For: time.Hour, Run: seen.Run, How: seen.How}
		if gone {
			seen.Run++
		}
	}
	return seen
}

// seen is u as the gate of a rolling operation sees it.
func (s *Supervisor) seen(u *unit) operation.Seen {
	seen := operation.Seen{
		InService: u.state.Phase == machine.Running && !u.turn.Stops() && u.state.Health != machine.Unhealthy,
		Run:       u.state.LastID,
		Unhealthy: u.state.Phase == machine.Running && u.state.Health == machine.Unhealthy,
		Wanted:    u.state.Want == machine.WantUp,
		Down:      !u.active() && u.state.Phase != machine.Backoff,
		How:       u.plight(),
	}
	switch u.state.Phase {
	case machine.Running:
		seen.For = time.Duration(boottime() - u.state.ReadyAt)
	case machine.Exited:
		if u.state.Satisfies(u.policy) { // a oneshot that is done
			seen.InService, seen.For = !u.turn.Stops(), time.Duration(1<<62)
		} else {
			seen.Ended, seen.Hopeless = true, true
		}
	case machine.Failed, machine.Parked, machine.Stopped, machine.Gone:
		seen.Ended, seen.Hopeless = true, true
	case machine.Backoff:
		seen.Ended = true
	case machine.Waiting:
		seen.Hopeless = u.stuck
		seen.Ended = u.stuck
	}
	return seen
}

// stirRolls has the rolling operations look again that u is a member of.
func (s *Supervisor) stirRolls(u *unit) {
	for wake, units := range s.rolls {
		if slices.Contains(units, u) {
			select {
			case wake <- struct{}{}:
			default:
			}
		}
	}
}

// operationsKey names the file in which a successor finds the operations, among
// what tier 1 holds.
const operationsKey = "operations"

// openOperations takes over what a predecessor kept of its operations, before any
// is begun, or makes the file for it.
func (s *Supervisor) openOperations(hold func(key string, fd int)) {
	if fds := s.held.Take(operationsKey); len(fds) == 1 {
		s.operationsFile = fds[0]
		var st unix.Stat_t
		if unix.Fstat(s.operationsFile, &st) == nil && st.Size > 0 {
			content := make([]byte, st.Size)
			n, _ := unix.Pread(s.operationsFile, content, 0)
			var before []control.Operation
			// What is longer than the value is what was there before it.
			if json.NewDecoder(bytes.NewReader(content[:max(0, n)])).Decode(&before) == nil {
				s.operations.Recall(before, 0)
			}
		}
		return
	}
	fd, err := unix.MemfdCreate("operations", unix.MFD_CLOEXEC)
	if err != nil {
		slog.Warn("a successor will not know of operations", "err", err)
		return
	}
	s.operationsFile = fd
	hold(operationsKey, fd)
}

// resumeOperations ends those of a predecessor that were under way. A member that
// has come to what was asked is done, by what is true of it now.
func (s *Supervisor) resumeOperations() {
	s.operations.Resume(func(verb string, m control.OperationMember) (int, bool) {
		u := s.find(m.Name)
		switch {
		case u == nil:
			return 0, false
		case verb == "stop":
			return 0, !u.active() && u.state.Want != machine.WantUp
		}
		up := u.state.Phase == machine.Running || u.state.Satisfies(u.policy)
		return u.pid(), up && (verb == "start" || u.pid() != m.OldPID)
	})
	s.keepOperations()
}

// keepOperations writes down, for a successor, what is under way and what is over.
// It is memory: it does not wait.
func (s *Supervisor) keepOperations() {
	if s.operationsFile <= 0 {
		return
	}
	list := s.operations.List()
	for i := range list {
		if list[i].Over() {
			list[i] = operation.Shortened(list[i])
		}
	}
	content, err := json.Marshal(list)
	if err != nil {
		return
	}
	_, _ = unix.Pwrite(s.operationsFile, content, 0)
	_ = unix.Ftruncate(s.operationsFile, int64(len(content)))
}
