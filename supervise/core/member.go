package core

import (
	"slices"
	"strconv"
	"time"

	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
	"rlminit/supervise/order"
)

func durationOf(nanoseconds int64) time.Duration { return time.Duration(nanoseconds) }

// forever is since when something is up that will not change.
const forever = time.Duration(1 << 62)

// seen is a life as an operation looks at it; nil: as anybody does.
func (s *course) seen(l *Life, o *Operation) operation.Seen {
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
	seen := s.course.seen(l, nil)
	return seen.Is == operation.Up && !seen.Turn && !seen.Unhealthy
}

// Came tells whether a life has come to be as a start would have it.
func (s *Set) Came(l *Life) bool {
	gate := operation.Gate{}
	return gate.Look(s.course.seen(l, nil)).Passed
}

// course is how operations go on by what is seen of their members.
type course struct {
	set *Set

	stirred []*Operation // to be looked at
	ending  []*Operation // of which nobody is to be taken any more
}

// stir has an operation look at a member again; -1: at all of them.
func (s *course) stir(o *Operation, member int) {
	if o.closing {
		return
	}
	if member < 0 || o.command.Width > 0 {
		o.dirty = nil
		for i := range o.lives {
			o.dirty = append(o.dirty, i)
		}
	} else {
		o.dirty = append(o.dirty, member)
	}
	if !o.stirred {
		o.stirred = true
		s.stirred = append(s.stirred, o)
	}
}

// stirAll has all operations look at a life again.
func (s *course) stirAll(l *Life) {
	for _, m := range l.in {
		s.stir(m.of, m.member)
	}
}

// look has an operation go on by what is seen of its members; false: nobody is to look.
func (s *course) look() bool {
	if len(s.ending) > 0 {
		o := s.ending[0]
		s.ending = s.ending[1:]
		if !o.Over() {
			s.set.Operations.leave(o)
		}
		return true
	}
	if len(s.stirred) == 0 {
		return false
	}
	o := s.stirred[0]
	s.stirred = s.stirred[1:]
	o.stirred = false
	dirty := o.dirty
	o.dirty = nil
	switch {
	case o.closing || o.names != nil:
	case o.command.Width > 0:
		s.goOn(o)
	default:
		for _, i := range dirty {
			s.judge(o, i)
		}
	}
	return true
}

// settled tells whether what is true of a life is remembered: nothing is said of it before.
func (l *Life) settled() bool { return l.known.rows == l.known.kept }

// judge looks at one member of an operation that has no width.
func (s *course) judge(o *Operation, i int) {
	l := o.lives[i]
	if s.set.touched++; !o.Members[i].Open() || !l.settled() {
		return
	}
	switch j := o.roll.Look(i, s.seen(l, o)); {
	case j.Why != operation.Nothing:
		s.failed(o, i, j.Why)
	case j.Passed:
		s.set.Operations.member(o, i, operation.StateDone, "")
	case j.Wait > 0:
		s.wake(o, j.Wait)
	}
}

// wake has an operation look again after some time.
func (s *course) wake(o *Operation, after time.Duration) {
	at := s.set.input.Now + int64(after)
	if o.deadline.place >= 0 {
		at = min(at, o.deadline.at)
	}
	s.set.timers.set(&o.deadline, at)
}

func (s *course) failed(o *Operation, i int, why operation.Why) {
	o.Members[i].Why = why
	s.set.Operations.member(o, i, operation.StateFailed, words(o, o.lives[i], why, s.set.input.Now))
}

// needs tells whether anything is to be done for a member.
func (s *course) needs(o *Operation, i int) bool {
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

// takeAll has all members of an operation that has no width do what it wants, and those
// who are started along.
func (s *course) takeAll(o *Operation) {
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

// goOn judges what there is to see of the members of a rolling operation, and takes the
// next one if it may be taken. Whom it takes after that it finds when what follows from
// this is decided.
func (s *course) goOn(o *Operation) {
	if slices.ContainsFunc(o.lives, func(l *Life) bool { return !l.settled() }) {
		return // when all that is true of them is remembered
	}
	seen := s.seeAll(o)
	if o.closing {
		return
	}
	verdict := o.roll.Next(seen)
	for i := range o.Members {
		if o.roll.Done[i] {
			s.set.Operations.member(o, i, operation.StateDone, "")
		}
	}
	s.sayWaiting(o, verdict)
	switch {
	case o.closing:
	case verdict.Failed >= 0:
		s.halt(o, verdict)
	case verdict.Take >= 0:
		s.take(o, verdict.Take)
	case verdict.Wait > 0:
		s.wake(o, verdict.Wait)
	}
}

// seeAll is what is seen of all members of a rolling operation, after those are left out
// who need nothing of it, or are no services of the set any more.
func (s *course) seeAll(o *Operation) []operation.Seen {
	seen := make([]operation.Seen, len(o.lives))
	for i, l := range o.lives {
		s.set.touched++
		seen[i] = s.seen(l, o)
		if removed := l.state.Removed || l.turn == order.Remove; removed && o.Verb != VerbStop {
			s.failed(o, i, operation.Removed)
			seen[i] = operation.Seen{Is: operation.Gone}
		}
		if o.Verb == VerbStop && o.roll.Taken(i) && !o.roll.Done[i] && l.Wanted() { // along with another
			s.failed(o, i, operation.Started)
		}
		if !o.Members[i].Open() || o.roll.Taken(i) || s.needs(o, i) {
			continue
		}
		switch {
		case o.command.renews(): // it has a new process, or is on its way with one
			o.roll.Begun(i)
			s.set.Operations.member(o, i, operation.StateRunning, "")
		case o.Verb != VerbStart || len(s.wantedAlong(l)) == 0:
			o.roll.Skip(i)
			s.set.intents.comeTo(o.command, o.lives[i:i+1], true)
		}
	}
	return seen
}

// wantedAlong are those that are started with l: not who was stopped since that was
// recorded, or of whom another intent is being recorded.
func (s *course) wantedAlong(l *Life) (along []*Life) {
	for _, n := range s.set.StartAlong([]order.Node{l.node}) {
		if other := s.set.lives[n]; other.wants.Desired == service.Running && !other.claimed {
			along = append(along, other)
		}
	}
	return along
}

// take has one member of a rolling operation do what it wants.
func (s *course) take(o *Operation, i int) {
	l := o.lives[i]
	s.set.Operations.member(o, i, operation.StateRunning, "")
	o.Members[i].Changed = true
	act := []*Life{l}
	if o.Verb != VerbStop {
		act = append(s.wantedAlong(l), l)
	}
	if l.definition.Fault == "" || o.Verb == VerbStop {
		s.set.queue.give(o, o.command, act)
	}
	s.set.intents.comeTo(o.command, act, true)
	s.stir(o, i)
}

// sayWaiting notes what those wait for that a rolling operation has not come to.
func (s *course) sayWaiting(o *Operation, v operation.Verdict) {
	waits := ""
	if v.Take < 0 && v.Failed < 0 && v.Out >= 0 {
		l := o.lives[v.Out]
		waits = l.Title() + " is " + l.Plight() + s.noMore(o)
	}
	if waits == o.waits {
		return
	}
	o.waits = waits
	for i := range o.Members {
		if !o.roll.Taken(i) {
			s.set.Operations.member(o, i, operation.StatePending, waits)
		}
	}
}

func (s *course) noMore(o *Operation) string {
	return ", and no more than " + strconv.Itoa(o.roll.Limit) + " may be out of service at once"
}

// halt ends a rolling operation at a member that does not pass.
func (s *course) halt(o *Operation, v operation.Verdict) {
	text := s.halted(o, v)
	s.set.Operations.close(o, operation.StateFailed, text)
	if o.roll.Taken(v.Failed) {
		s.failed(o, v.Failed, v.Why)
	}
}

// halted says where a rolling operation has ended, and why, and which members have a new
// process.
func (s *course) halted(o *Operation, v operation.Verdict) string {
	l := o.lives[v.Failed]
	why := "it is " + l.Plight() + s.noMore(o)
	if v.Why != operation.Nothing {
		why = words(o, l, v.Why, s.set.input.Now)
	}
	lists := [2]string{}
	for i, m := range o.lives {
		which := 1
		if o.roll.Taken(i) {
			which = 0
		}
		if lists[which] != "" {
			lists[which] += ", "
		}
		lists[which] += m.Title()
	}
	for i := range lists {
		if lists[i] == "" {
			lists[i] = "none"
		}
	}
	return "stopped at " + l.Title() + ": " + why + "; new: " + lists[0] + "; old: " + lists[1]
}

// hopeless says why a rolling operation would end before it has taken anybody; "": it
// would not. Nothing of it is recorded then: what was stopped stays so.
func (s *course) hopeless(c *Command) string {
	if c.Width == 0 || c.leaves != nil {
		return ""
	}
	o := &Operation{command: c, lives: c.Lives, roll: operation.NewRoll(len(c.Lives), c.Width, c.gate())}
	o.roll.Blind = !c.renews() || c.Part != 0
	seen := make([]operation.Seen, len(c.Lives))
	for i, l := range c.Lives {
		seen[i] = s.seen(l, o)
	}
	if v := o.roll.Next(seen); v.Failed >= 0 {
		return s.halted(o, v)
	}
	return ""
}
