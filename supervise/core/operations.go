package core

import (
	"slices"
	"strconv"

	"rlminit/service"
	"rlminit/supervise/operation"
	"rlminit/supervise/order"
)

// Limits bound the memory of operations that are over, and whose caller, and
// readers, have gone. The others are remembered, however many there are.
type Limits struct {
	Operations int
	Members    int // of all of them
}

// DefaultLimits are those of a supervisor.
func DefaultLimits() Limits { return Limits{Operations: 100, Members: 5000} }

// Operation is a command that was begun, with its outcome. Only its own Set
// changes it; a reader reads it where Step is called.
type Operation struct {
	operation.Operation
	Went       []string // the services it has started, stopped or restarted along
	Unrecorded bool     // a stop that could not be recorded, of a member at least

	unrecordedWhy string // of a rolling one

	command  *Command
	lives    []*Life        // Invariant: of each member; nil: somebody else says what becomes of it
	names    map[string]int // members that have no life
	roll     *operation.Roll
	deadline deadline
	began    int64
	left     int       // Invariant: how many members are open
	closing  bool      // it takes no further member
	turn     uint64    // as in Life.commanded
	last     [2]string // the state and reason that it ends with; "": by its members
	waits    string    // the blockers of the remaining members
	dirty    []int     // members to be looked at
	queued   bool      // it is to be looked at
	told     bool      // its change is yet to be told

	announced, finished bool // that it has begun, and that it is over, was told

	heirs   []heir // of members that were superseded; nil: none was
	called  bool   // the caller is yet to read the outcome
	readers int    // others that are
	settled bool   // nobody reads it any more
	dropped bool   // it was hidden, and its caller has gone
}

// heir is where a member is in the operation that has superseded it.
type heir struct {
	of      *Operation // nil: it is no member there, or something else is done with it
	member  int
	opposed bool // the opposite is
}

// Operations are those that are under way, and the latest that are over.
type Operations struct {
	set *Set

	operations []*Operation // Invariant: by id, ascending
	noted      []*Operation // Invariant: those with names that are not over
	last       uint64       // the highest id of one that is known
	settled    []*Operation // Invariant: that are over and that nobody reads, in the order of that
	members    int          // Invariant: of settled
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
	o := &Operation{command: c, called: true, began: s.set.input.Now, Unrecorded: !recorded, lives: c.Lives, deadline: deadline{place: -1}}
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
		s.noted = append(s.noted, o)
	}
	o.left = len(o.Members)
	o.roll = operation.NewRoll(len(o.Members), c.Width, c.gate())
	o.roll.Blind = !c.renews() || c.Part != 0
	s.supersede(o)
	for i, l := range c.Lives {
		l.in = append(l.in, membership{o, i})
	}
	s.insert(o)
	s.tell(o)
	if o.turn = s.set.intents.next(); c.Width == 0 {
		s.intend(o, c.Lives, c.along, recorded)
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
	}
	s.set.scheduler.recheck(o, -1)
}

// intend has members of an operation, and what goes along, be wanted as it wants them, if
// that is recorded.
func (s *Operations) intend(o *Operation, members, along []*Life, recorded bool) {
	want := o.command.Want
	if !recorded {
		want = service.IntentNone
	}
	s.set.intents.intend(slices.Concat(members, along), want, o.turn)
	for _, l := range members {
		if o.Verb != VerbAwait {
			l.wants.Owed = l.definition.Fault != "" && !o.command.stops() && (l.wants.Owed || want == service.Running)
		}
	}
}

// partOf ends a part whose whole operation has ended.
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
// done with it: the outcome there is the outcome here.
func (o *Operation) Follow(i int) (*Operation, int) {
	for o.Members[i].State == operation.StateSuperseded {
		if o.heirs == nil {
			break
		}
		h := o.heirs[i]
		if h.of == nil || h.of.dropped && h.of.Members[h.member].Open() {
			break
		}
		o, i = h.of, h.member
	}
	return o, i
}

// Opposed tells whether a member was superseded by an operation that wants the opposite.
func (o *Operation) Opposed(i int) bool { return o.heirs != nil && o.heirs[i].opposed }

// Down tells whether its members are to come to be down.
func (o *Operation) Down() bool { return o.command.down() }

// supersede ends what earlier operations still do for the services of a later one.
func (s *Operations) supersede(o *Operation) {
	if o.Verb == VerbAwait {
		return
	}
	for i, l := range o.lives {
		if l != nil {
			s.supersedeOf(l, o, i)
		}
	}
	for _, l := range o.command.along {
		s.supersedeOf(l, o, -1)
	}
	for name := range o.names {
		s.supersedeNamed(name, o)
		if l := s.set.Named(name); l != nil {
			s.supersedeOf(l, o, -1)
		}
	}
}

// supersedeOf ends what earlier operations still do for a life, which is the member at of a
// later one, or none.
func (s *Operations) supersedeOf(l *Life, later *Operation, at int) {
	for _, m := range slices.Clone(l.in) {
		if c := m.of.command; m.of.root() != later.root() && (c.Verb != VerbAwait || c.Part != 0) {
			s.superseded(m.of, m.member, later, at)
		}
	}
	s.supersedeNamed(l.Title(), later)
}

func (s *Operations) supersedeNamed(name string, later *Operation) {
	for _, other := range slices.Clone(s.noted) {
		if i, has := other.names[name]; has && other.root() != later.root() {
			s.superseded(other, i, later, -1)
		}
	}
}

func (s *Operations) superseded(o *Operation, i int, later *Operation, at int) {
	if !o.Members[i].Open() {
		return
	}
	if o.heirs == nil {
		o.heirs = make([]heir, len(o.Members))
	}
	h := heir{opposed: o.command.down() != later.command.down()}
	if !h.opposed && at >= 0 && o.lives[i] != nil {
		h.of, h.member = later, at
	}
	o.heirs[i] = h
	s.member(o, i, operation.StateSuperseded, "by operation "+strconv.FormatUint(later.root(), 10))
}

// member notes the outcome of a member that is open.
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

// close ends an operation, when all that follows from the present input is decided.
// Members that it has not come to stay as they are, and as is recorded of them. A state of
// "" is that which its members have come to.
func (s *Operations) close(o *Operation, state operation.State, reason string) {
	o.last = [2]string{state, reason}
	if o.closing {
		return
	}
	o.closing = true
	s.set.scheduler.ending = append(s.set.scheduler.ending, o)
}

// finish is the end of an operation.
func (s *Operations) finish(o *Operation) {
	if o.State, o.Reason = o.last[0], o.last[1]; o.State == "" {
		o.State, o.Reason = o.Outcome()
	}
	if o.State == operation.StateDone && o.unrecordedWhy != "" {
		o.State, o.Reason = operation.StateFailed, "stopped, as with --runtime: "+o.unrecordedWhy+"; they may run again when the container is started"
	}
	o.closing = true
	if o.names != nil {
		s.noted = slices.DeleteFunc(s.noted, func(other *Operation) bool { return other == o })
	}
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

// cancel has an operation, and its parts, go no further. Members that have begun go on to
// their end; one that waits for its turn to be restarted stays as it is.
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

// drop notes that the caller of an operation is gone. One that only the caller knew of ends with
// that.
func (s *Operations) drop(id uint64) {
	o := s.Get(id)
	if o == nil {
		return
	}
	if o.called = false; id < Hidden {
		s.settle(o)
		return
	}
	for _, l := range o.lives {
		l.part(o)
	}
	s.set.timers.remove(&o.deadline)
	o.closing, o.told, o.dropped = true, true, true
	s.remove(o)
}

// settle lets go of an operation that is over and that nobody reads any more, as soon as so
// many others have come to that as the limits say.
func (s *Operations) settle(o *Operation) {
	if o.called || o.readers > 0 || !o.finished || o.settled || o.ID >= Hidden {
		return
	}
	o.settled = true
	s.settled, s.members = append(s.settled, o), s.members+len(o.Members)
	for len(s.settled) > s.set.Limits.Operations || s.members > s.set.Limits.Members {
		first := s.settled[0]
		s.unsettle(first)
		s.remove(first)
	}
}

// unsettle is for one that somebody reads again, or that is let go of.
func (s *Operations) unsettle(o *Operation) {
	if i := slices.Index(s.settled, o); i >= 0 {
		s.settled, s.members, o.settled = slices.Delete(s.settled, i, i+1), s.members-len(o.Members), false
	}
}

// remove forgets an operation.
func (s *Operations) remove(o *Operation) {
	if i, known := s.searchOperation(o.ID); known {
		s.operations = slices.Delete(s.operations, i, i+1)
		s.set.outbox.effect(Effect{Kind: Forgot, Node: order.None, Operation: o})
	}
}

// read counts another reader of an operation, or one fewer.
func (s *Operations) read(id uint64, more int) {
	if o := s.Get(id); o != nil {
		o.readers += more
		s.unsettle(o)
		s.settle(o)
	}
}

// recall adds operations of before: one that is known already stays as it is.
func (s *Operations) recall() {
	for i := range s.set.input.Operations {
		o := &Operation{Operation: s.set.input.Operations[i], command: &Command{}, deadline: deadline{place: -1}}
		o.lives, o.roll = make([]*Life, len(o.Members)), operation.NewRoll(len(o.Members), 0, operation.Gate{})
		if s.Get(o.ID) == nil {
			s.insert(o)
			o.finished = o.Over() // which was told
			s.settle(o)
		}
	}
	s.last = max(s.last, s.set.input.ID)
}

// resume ends, as interrupted, the operations of a predecessor that are under way. A
// member that has come to its target is done, by its state of now.
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

// tell has the readers told of a change of an operation.
func (s *Operations) tell(o *Operation) {
	if !o.told {
		o.told = true
		s.telling = append(s.telling, o)
	}
}

// tellAll adds the effects of tell, at the end of a Step: the row for a successor is
// remembered by then.
func (s *Operations) tellAll() {
	for _, o := range s.telling {
		o.told = false
		s.set.outbox.effect(Effect{Kind: Told, Node: order.None, Operation: o, Begun: !o.announced, Over: o.Over() && !o.finished})
		o.announced, o.finished = true, o.Over()
		s.settle(o)
	}
	clear(s.telling)
	s.telling = s.telling[:0]
}
