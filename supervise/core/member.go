package core

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
	"rlminit/supervise/order"
)

func durationOf(nanoseconds int64) time.Duration { return time.Duration(nanoseconds) }

// forever is since when something is up that will not change.
const forever = time.Duration(1 << 62)

// observe is how far a life is, as the operation o sees it; with nil, as anybody sees it.
func (s *scheduler) observe(l *Life, o *Operation) operation.Seen {
	is := &l.state
	seen := operation.Seen{
		Run: is.LastID, Restarts: is.Restarts, Active: Active(is), Wanted: is.Want == machine.WantUp, Turn: l.turn != order.NoTurn,
		Unhealthy: Unhealthy(is), Fault: l.definition.Fault != "", Unheard: l.known.unheard != 0, Busy: l.busy,
	}
	switch is.Phase {
	case machine.Stopped:
		seen.Is = operation.Down
	case machine.Waiting:
		seen.Is = operation.Waiting
		if l.stuck {
			seen.Is = operation.Stuck
		}
	case machine.Spawning, machine.Starting:
		seen.Is = operation.Starting
	case machine.Running:
		since := is.ReadyAt
		if o != nil && o.Verb == VerbAwait && o.command.Gate.Strict { // what goes on running is watched as well
			since = max(since, o.began)
		}
		seen.Is, seen.For = operation.Up, durationOf(s.set.input.Now-since)
		if l.definition.Policy.Oneshot {
			seen.Is = operation.Working
		}
	case machine.Stopping, machine.Sweeping:
		seen.Is = operation.Ending
	case machine.Backoff:
		seen.Is = operation.Backoff
		if slices.Contains(s.set.NoRoom, is.Reason) {
			seen.Is = operation.NoRoom
		}
	case machine.Failed, machine.Parked:
		seen.Is = operation.Broken
	case machine.Exited:
		seen.Is, seen.For = operation.Broken, forever
		switch {
		case is.Satisfies(l.definition.Policy):
			seen.Is = operation.Up
		case is.Verdict == machine.VerdictSuccess && !is.NeverReady:
			seen.Is = operation.Ended
		}
	case machine.Gone:
		seen.Is = operation.Gone
	}
	return seen
}

// Up tells whether a life is in service: it is up, nothing is about to stop it, and it
// is not unhealthy.
func (s *Set) Up(l *Life) bool {
	seen := s.scheduler.observe(l, nil)
	return seen.Is == operation.Up && !seen.Turn && !seen.Unhealthy
}

// Came tells whether a life has come to be as a start would have it.
func (s *Set) Came(l *Life) bool {
	gate := operation.Gate{}
	return gate.Look(s.scheduler.observe(l, nil)).Passed
}

// scheduler moves operations on: it looks at members that have changed, and takes the next
// ones of a rolling operation.
type scheduler struct {
	set *Set

	queued []*Operation // must look at their members again
	ending []*Operation // take no further member
}

// recheck queues an operation to look at a member again; -1: at all of them.
func (s *scheduler) recheck(o *Operation, member int) {
	if o.closing {
		return
	}
	switch {
	case o.command.Width > 0: // it looks at all
	case member < 0:
		o.dirty = o.dirty[:0]
		for i := range o.lives {
			o.dirty = append(o.dirty, i)
		}
	default:
		o.dirty = append(o.dirty, member)
	}
	if !o.queued {
		o.queued = true
		s.queued = append(s.queued, o)
	}
}

// recheckAll queues all operations that have a life as a member to look at it again.
func (s *scheduler) recheckAll(l *Life) {
	for _, m := range l.in {
		s.recheck(m.of, m.member)
	}
}

// runNext moves the first queued operation on; false: none is queued.
func (s *scheduler) runNext() bool {
	if len(s.ending) > 0 {
		o := s.ending[0]
		s.ending = s.ending[1:]
		if !o.Over() {
			s.set.Operations.finish(o)
		}
		return true
	}
	if len(s.queued) == 0 {
		return false
	}
	o := s.queued[0]
	s.queued = s.queued[1:]
	o.queued = false
	dirty := o.dirty
	o.dirty = nil
	switch {
	case o.closing || o.names != nil:
	case o.command.Width > 0:
		s.advance(o)
	default:
		for _, i := range dirty {
			s.judge(o, i)
		}
	}
	return true
}

// isRemembered tells whether a successor would know the latest state of a life. Nobody is
// told of that state before.
func (l *Life) isRemembered() bool { return l.known.rows == l.known.kept }

// judge looks at one member of an operation that has no width.
func (s *scheduler) judge(o *Operation, i int) {
	l := o.lives[i]
	if s.set.touched++; !o.Members[i].Open() || !l.isRemembered() {
		return
	}
	switch j := o.roll.Look(i, s.observe(l, o)); {
	case j.Why != operation.Nothing:
		s.failed(o, i, j.Why)
	case j.Passed:
		s.set.Operations.member(o, i, operation.StateDone, "")
	case j.Wait > 0:
		s.wake(o, j.Wait)
	}
}

// wake has an operation look again after some time.
func (s *scheduler) wake(o *Operation, after time.Duration) {
	at := s.set.input.Now + int64(after)
	if o.deadline.place >= 0 {
		at = min(at, o.deadline.at)
	}
	s.set.timers.set(&o.deadline, at)
}

func (s *scheduler) failed(o *Operation, i int, why operation.Why) {
	o.Members[i].Why = why
	s.set.Operations.member(o, i, operation.StateFailed, words(o, o.lives[i], why, s.set.input.Now))
}

// needs tells whether anything is to be done for a member.
func (s *scheduler) needs(o *Operation, i int) bool {
	l := o.lives[i]
	up := l.state.Want == machine.WantUp
	switch o.Verb {
	case VerbStart:
		return !l.Wanted() || l.turn.Stops() || l.state.Phase != machine.Running
	case VerbStop:
		return up || Active(&l.state) || l.turn == order.Start || l.turn == order.Restart
	case VerbReload:
		return o.command.Runs[i] != 0 && l.state.LastID == o.command.Runs[i] && l.Wanted()
	}
	return o.Verb == VerbRestart
}

// takeAll has all members of an operation without a width act, and those
// that are started along.
func (s *scheduler) takeAll(o *Operation) {
	c := o.command
	act := slices.DeleteFunc(slices.Clone(c.along), (*Life).Wanted) // somebody else has started it since
	for i, l := range o.lives {
		o.Members[i].Changed = o.Verb != VerbAwait && s.needs(o, i) && (l.definition.Fault == "" || c.Want != service.Running)
		if o.Verb == VerbReload && !o.Members[i].Changed || o.Verb == VerbAwait {
			o.roll.Begun(i)
			continue
		}
		if o.roll.Take(i, l.state.LastID); o.Members[i].Changed {
			act = append(act, l)
		}
		o.Members[i].Changed = o.Members[i].Changed || l.busy
	}
	if o.Verb != VerbAwait {
		s.set.queue.give(o, c, act)
		for _, l := range c.along {
			o.Went = append(o.Went, l.Title())
		}
	}
}

// advance judges the members of a rolling operation and takes the next one if it may. It
// takes one at a time: it is called again when all that follows from this one is decided.
func (s *scheduler) advance(o *Operation) {
	if slices.ContainsFunc(o.lives, func(l *Life) bool { return !l.isRemembered() }) {
		return // it is called again when their states are remembered
	}
	seen := s.observeAll(o)
	if o.closing {
		return
	}
	verdict := o.roll.Next(seen)
	for i := range o.Members {
		if o.roll.Done[i] {
			s.set.Operations.member(o, i, operation.StateDone, "")
		}
	}
	s.noteWaiting(o, verdict)
	switch {
	case o.closing:
	case verdict.Failed >= 0:
		s.halt(o, verdict)
	case verdict.Take >= 0:
		s.come(o, verdict.Take)
	case verdict.Wait > 0:
		s.wake(o, verdict.Wait)
	}
}

// observeAll observes all members of a rolling operation. Members that need nothing of it,
// or that are removed, are done with first.
func (s *scheduler) observeAll(o *Operation) []operation.Seen {
	seen := make([]operation.Seen, len(o.lives))
	for i, l := range o.lives {
		s.set.touched++
		seen[i] = s.observe(l, o)
		if removed := l.state.Removed || l.turn == order.Remove; removed && o.Verb != VerbStop {
			s.failed(o, i, operation.Removed)
			seen[i] = operation.Seen{Is: operation.Gone}
		}
		if o.Verb == VerbStop && o.roll.Taken(i) && !o.roll.Done[i] && l.Wanted() { // along with another
			s.failed(o, i, operation.Started)
		}
		if !o.Members[i].Open() || o.roll.Coming(i) || o.roll.Taken(i) || s.needs(o, i) {
			continue
		}
		switch {
		case o.command.renews(): // it has a new process, or is on its way with one
			o.roll.Begun(i)
			s.set.Operations.member(o, i, operation.StateRunning, "")
		case o.unrecorded(l, nil):
		case o.Verb != VerbStart || len(s.alongWith(o, l)) == 0:
			o.roll.Skip(i)
		}
	}
	return seen
}

// alongWith are those that are started with a member of a rolling operation: not those that
// a later command has stopped, or whose other desired state is being recorded.
func (s *scheduler) alongWith(o *Operation, l *Life) (along []*Life) {
	if o.command.down() {
		return nil
	}
	for _, n := range s.set.StartAlong([]order.Node{l.node}) {
		other := s.set.lives[n]
		meant := other.wants.Desired == service.Running || o.command.Along && other.commanded <= o.turn
		if meant && !other.claimed {
			along = append(along, other)
		}
	}
	return along
}

// unrecorded tells whether a rolling operation wants anything of a member, and of those
// that go along, that is not recorded of them.
func (o *Operation) unrecorded(l *Life, along []*Life) bool {
	differs := func(l *Life) bool { // without a command it may be a default that is recorded nowhere
		return l.node != order.None && (l.wants.Desired != o.command.Want || l.commanded == 0)
	}
	return o.command.Want != service.IntentNone && (differs(l) || slices.ContainsFunc(along, differs))
}

// come has a rolling operation come to a member, which counts as out of service from now
// on: its desired state is recorded first, and then the member acts.
func (s *scheduler) come(o *Operation, i int) {
	l := o.lives[i]
	s.set.Operations.member(o, i, operation.StateRunning, "")
	along := s.alongWith(o, l)
	if !o.unrecorded(l, along) {
		s.take(o, i, along)
		return
	}
	c := o.command
	s.set.queue.accept(&Command{Part: o.ID, Verb: c.Verb, Actor: c.Actor, Lives: []*Life{l}, Want: c.Want, takes: o, at: i})
}

// taken goes on with a member that is recorded, or cannot be. What is recorded is carried
// out, also if the operation has ended meanwhile; a stop that is not is carried out too.
func (s *scheduler) taken(c *Command, recorded bool) {
	o, l := c.takes, c.Lives[0]
	open := !o.closing && o.Members[c.at].Open()
	switch {
	case l.node == order.None && !recorded:
		s.take(o, c.at, nil)
	case !recorded && open && !c.stops():
		s.set.Operations.close(o, operation.StateFailed, "stopped at "+l.Title()+": "+s.set.input.Text)
		s.set.Operations.member(o, c.at, operation.StateFailed, s.set.input.Text)
	case !recorded && !open:
	default:
		if !recorded {
			o.Unrecorded, o.unrecordedWhy = true, s.set.input.Text
		}
		s.set.Operations.intend(o, c.Lives, c.along, recorded)
		s.take(o, c.at, c.along)
	}
}

// take has one member of a rolling operation act.
func (s *scheduler) take(o *Operation, i int, along []*Life) {
	l := o.lives[i]
	for _, other := range along {
		s.set.Operations.supersedeOf(other, o, -1)
	}
	open := o.Members[i].Open() && !o.closing
	if open {
		o.Members[i].Changed = true
		o.roll.Take(i, l.state.LastID)
	}
	act := slices.Clone(along)
	if open || !o.command.renews() || !l.Wanted() { // else it was cancelled, and need not be restarted
		act = append(act, l)
	}
	if l.definition.Fault == "" || o.Verb == VerbStop {
		s.set.queue.give(o, o.command, act)
	}
	s.recheck(o, i)
}

// noteWaiting notes the blockers of the remaining members of a rolling operation.
func (s *scheduler) noteWaiting(o *Operation, v operation.Verdict) {
	waits := ""
	if v.Take < 0 && v.Failed < 0 && v.Out >= 0 {
		l := o.lives[v.Out]
		waits = l.Title() + " is " + l.Condition() + s.limitText(o)
	}
	if waits == o.waits {
		return
	}
	o.waits = waits
	for i := range o.Members {
		if !o.roll.Coming(i) && !o.roll.Taken(i) {
			s.set.Operations.member(o, i, operation.StatePending, waits)
		}
	}
}

func (s *scheduler) limitText(o *Operation) string {
	return ", and no more than " + strconv.Itoa(o.roll.Limit) + " may be out of service at once"
}

// halt ends a rolling operation at a member that does not pass.
func (s *scheduler) halt(o *Operation, v operation.Verdict) {
	text := s.haltText(o, v)
	s.set.Operations.close(o, operation.StateFailed, text)
	if o.roll.Taken(v.Failed) {
		s.failed(o, v.Failed, v.Why)
	}
}

// haltText says at which member a rolling operation has stopped, why, and which members
// have a new process.
func (s *scheduler) haltText(o *Operation, v operation.Verdict) string {
	l := o.lives[v.Failed]
	why := "it is " + l.Condition() + s.limitText(o)
	if v.Why != operation.Nothing {
		why = words(o, l, v.Why, s.set.input.Now)
	}
	var came, left []string
	for i, m := range o.lives {
		if o.roll.Coming(i) || o.roll.Taken(i) {
			came = append(came, m.Title())
		} else {
			left = append(left, m.Title())
		}
	}
	return "stopped at " + l.Title() + ": " + why + "; new: " + listed(came) + "; old: " + listed(left)
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// cannotBegin says why a rolling operation would end before it takes its first member; "":
// it would not. Such an operation is not recorded, so stopped services stay stopped.
func (s *scheduler) cannotBegin(c *Command) string {
	if c.Width == 0 {
		return ""
	}
	o := &Operation{command: c, lives: c.Lives, roll: operation.NewRoll(len(c.Lives), c.Width, c.gate())}
	o.roll.Blind = !c.renews() || c.Part != 0
	seen := make([]operation.Seen, len(c.Lives))
	for i, l := range c.Lives {
		seen[i] = s.observe(l, o)
	}
	if v := o.roll.Next(seen); v.Failed >= 0 {
		return s.haltText(o, v) + "; --state ok takes only those that are well"
	}
	return ""
}
