package core

import (
	"slices"
	"strconv"

	"rlminit/service"
	"rlminit/supervise/operation"
	"rlminit/supervise/order"
)

// kept and membersKept bound what is remembered of operations that are over.
const (
	kept        = 100
	membersKept = 5000
)

// Operation is a command that was begun, and what has become of it. Only the Set that it
// is of changes it; who reads it does so where Step is called.
type Operation struct {
	operation.Operation
	Went       []string // whom it has started, stopped or restarted along
	Unrecorded bool     // a stop that could not be recorded

	command   *Command
	lives     []*Life        // Invariant: of each member; nil: somebody else says what becomes of it
	names     map[string]int // members that have no life
	roll      *operation.Roll
	deadline  deadline
	began     int64
	left      int  // Invariant: how many members are open
	closing   bool // it takes no further member; the remaining ones get their intents back
	restoring [2]bool
	last      [2]string // the state and reason that it ends with; "": by its members
	waits     string    // what the remaining members wait for
	dirty     []int     // members to be looked at
	queued    bool      // it is to be looked at
	told      bool      // its change is yet to be told

	announced, finished bool // that it has begun, and that it is over, was told

	ended uint64 // which one it was to end; 0: none yet, or before this Set
}

// Operations are those that are under way, and the latest that are over.
type Operations struct {
	set *Set

	operations []*Operation // Invariant: by id, ascending
	last       uint64       // the highest id of one that is known
	ends       uint64       // how many have ended
	telling    []*Operation // whose change is told at the end of this Step
}

// membership is a service's place in an operation.
type membership struct {
	of     *Operation
	member int
}

// Changed tells whether anything was done for any of its members.
func (o *Operation) Changed() int {
	return slices.IndexFunc(o.Members, func(m operation.Member) bool { return m.Changed })
}

// root is the operation that it is, or is a part of.
func (o *Operation) root() uint64 {
	if o.command != nil && o.command.Part != 0 {
		return o.command.Part
	}
	return o.ID
}

// Get is one that is remembered; nil: there is none of that id.
func (s *Operations) Get(id uint64) *Operation {
	if i, known := s.searchOperation(id); known {
		return s.operations[i]
	}
	return nil
}

// List is those that are remembered, by id.
func (s *Operations) List() []*Operation {
	i, _ := s.searchOperation(Hidden)
	return s.operations[:i]
}

// Waiting is how many commands wait until others are recorded.
func (s *Operations) Waiting() int { return len(s.set.queue.waiting) }

// Last is the highest id of one that is known.
func (s *Operations) Last() uint64 { return s.last }

func (s *Operations) searchOperation(id uint64) (int, bool) {
	return slices.BinarySearchFunc(s.operations, id, func(o *Operation, id uint64) int {
		switch {
		case o.ID < id:
			return -1
		case o.ID > id:
			return 1
		}
		return 0
	})
}

func (s *Operations) insert(o *Operation) {
	if i, known := s.searchOperation(o.ID); !known {
		s.operations = slices.Insert(s.operations, i, o)
	}
	if o.ID < Hidden {
		s.last = max(s.last, o.ID)
	}
}

// undertake makes an operation of a command, and ends for each of its services what an
// earlier one still does.
func (s *Operations) undertake(c *Command, recorded bool) {
	o := &Operation{command: c, began: s.set.input.Now, Unrecorded: !recorded, lives: c.Lives, deadline: deadline{place: -1}}
	o.deadline.operation = o
	o.Operation = operation.Operation{ID: c.ID, Verb: c.Verb, Actor: c.Actor, Wall: s.set.input.Wall, State: operation.StateRunning}
	state := operation.StateRunning
	if c.Width > 0 {
		state = operation.StatePending
	}
	for _, l := range c.Lives {
		o.Members = append(o.Members, operation.Member{Name: l.Title(), State: state, OldPID: l.pid()})
	}
	if len(c.Names) > 0 {
		o.names, o.lives = map[string]int{}, make([]*Life, len(c.Names))
		for i, name := range c.Names {
			o.Members = append(o.Members, operation.Member{Name: name, State: state, OldPID: c.Pids[i]})
			o.names[name] = i
		}
	}
	o.left = len(o.Members)
	o.roll = operation.NewRoll(len(o.Members), c.Width, c.gate())
	o.roll.Blind = !c.renews() || c.Part != 0
	s.supersede(o)
	for i, l := range c.Lives {
		l.in = append(l.in, membership{o, i})
	}
	s.insert(o)
	s.forgetOperations()
	s.tell(o)
	want := c.Want
	if !recorded {
		want = service.IntentNone
	}
	s.set.intents.intend(c, want)
	for _, l := range c.Lives {
		if c.Verb != VerbAwait {
			l.wants.Owed = l.definition.Fault != "" && !c.stops() && (l.wants.Owed || want == service.Running)
		}
	}
	s.partOf(o)
	switch {
	case o.closing:
	case len(o.Members) == 0:
		s.close(o, "", "")
	case s.set.stopping && !c.down():
		s.interrupt(o, "the container is stopping")
	case c.Width == 0 && o.names == nil:
		s.set.scheduler.takeAll(o)
		if c.intends() {
			s.set.intents.comeTo(c, slices.Concat(c.Lives, c.along), false)
		}
	}
	s.set.scheduler.recheck(o, -1)
}

// partOf ends a part for whom the operation that it is a part of has ended.
func (s *Operations) partOf(o *Operation) {
	whole := s.Get(o.command.Part)
	if o.command.Part == 0 || whole == nil {
		return
	}
	for i := range o.Members {
		if j, named := whole.names[o.Members[i].Name]; named {
			if m := whole.Members[j]; m.State == operation.StateSuperseded || m.State == operation.StateCancelled {
				s.member(o, i, m.State, m.Reason)
			}
		}
	}
}

// Follow is a member of an operation, or of the later one that has it and has the same
// done with it: what becomes of it there is what becomes of it here.
func (s *Operations) Follow(o *Operation, i int) (*Operation, int) {
	for m := &o.Members[i]; m.State == operation.StateSuperseded; m = &o.Members[i] {
		later := s.Get(m.By)
		if later == nil || later.command.down() != o.command.down() || o.lives[i] == nil {
			break
		}
		at := slices.Index(later.lives, o.lives[i])
		if at < 0 {
			break
		}
		o, i = later, at
	}
	return o, i
}

// Down tells whether its members are to come to be down.
func (o *Operation) Down() bool { return o.command.down() }

// supersede ends what earlier operations still do for the services of a later one.
func (s *Operations) supersede(o *Operation) {
	if o.Verb == VerbAwait {
		return
	}
	names := map[string]bool{}
	for _, l := range slices.Concat(o.lives, o.command.along) {
		if l != nil {
			names[l.Title()] = true
			s.supersedeOf(l, o)
		}
	}
	for name := range o.names {
		if names[name] = true; s.set.Named(name) != nil {
			s.supersedeOf(s.set.Named(name), o)
		}
	}
	for _, other := range s.operations {
		if other.names == nil || other.Over() || other.root() == o.root() {
			continue
		}
		for i := range other.Members {
			if names[other.Members[i].Name] {
				s.superseded(other, i, o)
			}
		}
	}
}

func (s *Operations) supersedeOf(l *Life, later *Operation) {
	for _, m := range slices.Clone(l.in) {
		if c := m.of.command; m.of.root() != later.root() && (c.Verb != VerbAwait || c.Part != 0) {
			s.superseded(m.of, m.member, later)
		}
	}
}

func (s *Operations) superseded(o *Operation, i int, later *Operation) {
	if m := &o.Members[i]; m.Open() {
		m.By = later.ID
		s.member(o, i, operation.StateSuperseded, "by operation "+strconv.FormatUint(later.root(), 10))
	}
}

// member notes what has become of a member that is open.
func (s *Operations) member(o *Operation, i int, state operation.State, reason string) {
	m := &o.Members[i]
	if !m.Open() || m.State == state && m.Reason == reason {
		return
	}
	m.State, m.Reason = state, reason
	if l := o.lives[i]; l != nil && l.pid() > 0 {
		m.PID = l.pid()
	}
	s.tell(o)
	if m.Open() {
		return
	}
	if o.roll.Skip(i); o.command.Width == 0 && o.lives[i] != nil {
		o.lives[i].part(o)
	}
	if o.left--; o.left == 0 && !o.closing {
		s.close(o, "", "")
	} else if o.command.Width > 0 {
		s.set.scheduler.recheck(o, -1) // another may be taken
	}
}

// part takes an operation out of those that a life is a member of.
func (l *Life) part(o *Operation) {
	l.in = slices.DeleteFunc(l.in, func(m membership) bool { return m.of == o })
}

// close ends an operation: first those are left that it has not come to, which are
// wanted as before, and that is recorded. A successor would start or stop them else. That
// is when all that follows from the present command is told: it may have them now. A state
// of "" is that which its members have come to.
func (s *Operations) close(o *Operation, state operation.State, reason string) {
	o.last = [2]string{state, reason}
	if o.closing {
		return
	}
	o.closing = true
	s.set.scheduler.ending = append(s.set.scheduler.ending, o)
}

// restoreIntents gives members that an operation has not come to the intent of before, and
// ends the operation when that is recorded, or cannot be.
func (s *Operations) restoreIntents(o *Operation) {
	for i, want := range []service.Intent{service.Stopped, service.Running} {
		if o.command.Width == 0 || s.set.stopping || o.restoring[i] {
			continue
		}
		o.restoring[i] = true
		lives := s.toRestore(o, want)
		if len(lives) == 0 {
			continue
		}
		verb := [...]string{VerbStop, VerbStart}[i]
		s.set.queue.accept(&Command{Part: o.ID, Verb: verb, Actor: o.Actor, Lives: lives, Want: want, restores: o})
		return
	}
	s.finish(o)
}

// toRestore are the lives whose intent was want before a rolling operation, less those that
// another operation will still take, or start along.
func (s *Operations) toRestore(o *Operation, want service.Intent) (left []*Life) {
	for _, l := range s.set.intents.promised {
		if l.wants.Before == want && l.wants.Desired != want && !l.begins && l.node != order.None && !slices.Contains(left, l) {
			left = append(left, l)
		}
	}
	if len(left) == 0 {
		return nil
	}
	taken := s.awaited(o)
	return slices.DeleteFunc(left, func(l *Life) bool { return slices.Contains(taken, l.node) })
}

// awaited are the services that operations other than but will still take, or start along.
func (s *Operations) awaited(but *Operation) []order.Node {
	var taken []order.Node
	for _, o := range s.operations {
		if o == but || o.Over() || o.closing {
			continue
		}
		for i := range o.Members {
			if l := o.lives[i]; l != nil && o.Members[i].State == operation.StatePending && l.node != order.None {
				taken = append(taken, l.node)
			}
		}
	}
	return append(taken, s.set.StartAlong(taken)...)
}

// finish is the end of an operation.
func (s *Operations) finish(o *Operation) {
	if o.State, o.Reason = o.last[0], o.last[1]; o.State == "" {
		o.State, o.Reason = o.Outcome()
	}
	s.ends++
	o.ended, o.closing = s.ends, true
	for _, l := range o.lives {
		if l != nil {
			l.part(o)
		}
	}
	s.set.timers.remove(&o.deadline)
	s.tell(o)
}

// interrupt ends an operation where it is.
func (s *Operations) interrupt(o *Operation, why string) {
	o.Interrupt(why)
	o.left, o.last = 0, [2]string{o.State, o.Reason}
	s.finish(o)
}

// interruptAll ends all that is under way.
func (s *Operations) interruptAll(why string) {
	for _, o := range slices.Clone(s.operations) {
		if !o.Over() {
			s.interrupt(o, why)
		}
	}
}

// cancel has an operation, and its parts, go no further. What has begun goes on to its
// end; who waits for its turn to be restarted stays as it is.
func (s *Operations) cancel(id uint64) {
	for _, o := range slices.Clone(s.operations) {
		if o.Over() || o.ID != id && (o.command == nil || o.command.Part != id) {
			continue
		}
		for i := range o.Members {
			m, l := &o.Members[i], o.lives[i]
			if !m.Open() {
				continue
			}
			if l != nil && o.command.renews() && l.turn == order.Restart && l.Wanted() {
				s.set.revoke(l.node)
			}
			reason := "it had not begun"
			if m.State == operation.StateRunning {
				reason = "what had begun goes on"
			}
			m.State, m.Reason = operation.StateCancelled, reason
			o.roll.Skip(i)
		}
		o.left = 0
		s.tell(o)
		s.close(o, operation.StateCancelled, "it was cancelled")
	}
}

// drop forgets an operation that only those knew of who asked for it.
func (s *Operations) dropOperation(id uint64) {
	if i, known := s.searchOperation(id); known {
		o := s.operations[i]
		for _, l := range o.lives {
			l.part(o)
		}
		s.set.timers.remove(&o.deadline)
		o.closing, o.told = true, true
		s.operations = slices.Delete(s.operations, i, i+1)
	}
}

// forgetOperations lets go of those that were the first to end, above the bounds. One
// with a low id may have been long in coming, so its id does not count.
func (s *Operations) forgetOperations() {
	listed := s.List()
	count, members := len(listed), 0
	for _, o := range listed {
		members += len(o.Members)
	}
	for count > kept || members > membersKept {
		first := -1
		for i, o := range s.List() {
			if o.Over() && (first < 0 || o.ended < s.operations[first].ended) {
				first = i
			}
		}
		if first < 0 {
			return
		}
		count, members = count-1, members-len(s.operations[first].Members)
		s.set.outbox.effect(Effect{Kind: Forgot, Node: order.None, Operation: s.operations[first]})
		s.operations = slices.Delete(s.operations, first, first+1)
	}
}

// recall adds operations of before: of one that is known already what is known counts.
func (s *Operations) recall() {
	for i := range s.set.input.Operations {
		o := &Operation{Operation: s.set.input.Operations[i], command: &Command{}, deadline: deadline{place: -1}}
		o.lives, o.roll = make([]*Life, len(o.Members)), operation.NewRoll(len(o.Members), 0, operation.Gate{})
		s.insert(o)
	}
	s.last = max(s.last, s.set.input.ID)
	s.forgetOperations()
}

// resume ends, as interrupted, the operations of a predecessor that are under way. A
// member that has come to what was asked is done, by what is true of it now.
func (s *Operations) resume() {
	for _, o := range s.operations {
		if o.Over() {
			continue
		}
		for i := range o.Members {
			m, l := &o.Members[i], s.set.Named(o.Members[i].Name)
			if !m.Open() || l == nil {
				continue
			}
			seen := s.set.scheduler.observe(l, nil)
			done := seen.Is == operation.Up && (o.Verb == VerbStart || l.pid() != m.OldPID)
			if o.Verb == VerbStop {
				done = !seen.Active && !seen.Wanted
			}
			if done {
				m.State, m.Reason, m.PID = operation.StateDone, "", l.pid()
			}
		}
		s.interrupt(o, "the supervisor was replaced")
	}
}

// became notes what somebody else says of a member.
func (s *Operations) became() {
	o, in := s.Get(s.set.input.ID), &s.set.input.Member
	if o == nil || o.Over() {
		return
	}
	if i, ok := o.names[in.Name]; ok && o.Members[i].Open() {
		if in.PID > 0 {
			o.Members[i].PID = in.PID
		}
		s.member(o, i, in.State, in.Reason)
	}
}

// tell has those told of a change of an operation who want to know.
func (s *Operations) tell(o *Operation) {
	if !o.told {
		o.told = true
		s.telling = append(s.telling, o)
	}
}

// tellAll adds the effects of tell, at the end of a Step: what a successor must know is
// remembered by then.
func (s *Operations) tellAll() {
	for _, o := range s.telling {
		o.told = false
		s.set.outbox.effect(Effect{Kind: Told, Node: order.None, Operation: o, Begun: !o.announced, Over: o.Over() && !o.finished})
		o.announced, o.finished = true, o.Over()
	}
	clear(s.telling)
	s.telling = s.telling[:0]
}
