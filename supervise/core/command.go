package core

import (
	"slices"

	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
	"rlminit/supervise/order"
	"rlminit/supervise/verdict"
)

// The verbs of commands. Any other names an operation of which somebody else says what
// becomes of its members: nothing is done for them.
const (
	VerbStart   = "start"
	VerbStop    = "stop"
	VerbRestart = "restart"
	VerbReload  = "reload" // a restart of those that have the run of Command.Runs; the others are waited for
	VerbFollow  = "follow" // to be as Recorded says
	VerbAwait   = "await"  // nothing is done: its caller waits until Gate has passed
)

// Hidden begins the ids of operations that only those know of who asked for them: a part
// of another one, and a wait.
const Hidden = uint64(1) << 63

// Command is what somebody wants of services. It is an operation: it is recorded, and
// then carried out, and ends for each member when that is as it wants it, when an attempt
// has failed, when a later command has the member, or when it is cancelled. Commands that
// share a service are recorded one after the other. Who gives it changes nothing of it
// any more.
type Command struct {
	ID    uint64 // new, above all before it
	Part  uint64 // the operation that it is a part of, whose members it takes from nobody; 0: none
	Verb  string
	Actor operation.Actor
	Event machine.Event // that each service is given, but for its kind

	Lives []*Life
	Names []string // of a verb of which somebody else says what becomes of its members: these
	Pids  []int    // likewise, their processes
	Runs  []uint64 // of VerbReload: those that are restarted; 0: it is waited for
	Only  Only
	// Claimed: it is for services that run under a deadline alone, and is refused if one of its
	// members is another service by the time that it is recorded, or carried out.
	Claimed bool

	Along bool           // what must, or should, be started with them is
	Want  service.Intent // their desired state from now on; IntentNone: as before

	Width  int   // how many may be out of service at once; 0: all
	Steady int64 // how long each must be up before the next one is taken, in nanoseconds

	Gate operation.Gate // of VerbAwait

	along []*Life
	takes *Operation // the rolling operation that comes to its member at with this command
	at    int
}

// Records is the desired state in the record of a command, for its services from then on. A
// rolling command records that of each member when it comes to it.
func (c *Command) Records() service.Intent {
	if c.Width > 0 {
		return service.IntentNone
	}
	return c.Want
}

// Only leaves out services that are not meant any more when the command comes to be recorded.
type Only struct {
	State  string // the state or the verdict that they have; "": any
	Ill    bool   // their verdict is ill
	Wanted bool   // they are to run
	Fresh  bool   // they have not run since the boot
}

// Unclaimed is a member of a command for claimed services that is none; nil: there is none.
// Claimed is a service that runs only under a deadline, or whose run has one.
func (c *Command) Unclaimed() *Life {
	for _, l := range c.Lives {
		if c.Claimed && !l.definition.Policy.Deadline && !Leased(&l.state) {
			return l
		}
	}
	return nil
}

// Leased tells whether there is a run that began under a deadline, whatever the definition
// says by now.
func Leased(s *machine.State) bool {
	return s.ID != 0 && s.Lease.At != 0 && s.StartedAt <= s.Lease.At
}

// Members are its services, AlongWith those started with them, when it is to be
// recorded.
func (c *Command) Members() []*Life   { return c.Lives }
func (c *Command) AlongWith() []*Life { return c.along }

// down tells whether its members are to come to be down.
func (c *Command) down() bool { return c.stops() || c.Verb == VerbAwait && c.Gate.Down }

func (c *Command) stops() bool  { return c.Verb == VerbStop }
func (c *Command) renews() bool { return c.Verb == VerbRestart || c.Verb == VerbReload }

// gate is what its members are to come to.
func (c *Command) gate() operation.Gate {
	if c.Verb == VerbAwait {
		return c.Gate
	}
	g := operation.Gate{Down: c.stops(), Fresh: c.renews(), Strict: c.Width > 0 && c.Part == 0 && !c.stops()}
	if g.Strict {
		g.Steady = durationOf(c.Steady)
	}
	return g
}

// turn is how order knows the verb, with the event.
func (c *Command) turn() (order.Turn, machine.EventKind) {
	switch {
	case c.stops():
		return order.Stop, machine.Stop
	case c.renews():
		return order.Restart, machine.Restart
	}
	return order.Start, machine.Start
}

// queue is the commands that are yet to begin.
type queue struct {
	set *Set

	waiting []*Command // to be recorded when those are that share a service with them
}

// accept takes a command, which waits until those that share a service with it are
// recorded.
func (s *queue) accept(c *Command) {
	if c.Verb == VerbAwait || c.Names != nil {
		s.set.Operations.undertake(c, true)
		return
	}
	if c.ID < Hidden { // nobody else is to have it meanwhile
		s.set.Operations.last = max(s.set.Operations.last, c.ID)
	}
	s.waiting = append(s.waiting, c)
	s.advance()
}

// advance has commands recorded that need wait no longer.
func (s *queue) advance() {
	waiting := s.waiting
	s.waiting = nil
	for _, c := range waiting {
		if !s.record(c) {
			s.waiting = append(s.waiting, c)
		}
	}
}

// record tells whether a command waits no longer.
func (s *queue) record(c *Command) bool {
	if c.takes != nil {
		return s.recordTaken(c)
	}
	if s.set.stopping {
		s.set.outbox.effect(Effect{Kind: Refused, Node: order.None, Command: c, Text: "cannot " + c.Verb + " anything: the container is stopping"})
		return true
	}
	if s.refuseUnclaimed(c) {
		return true
	}
	lives, runs := []*Life{}, []uint64(nil)
	for i, l := range c.Lives {
		if !s.set.Meant(c.Only, l) {
			continue
		}
		if lives = append(lives, l); c.Verb == VerbReload {
			runs = append(runs, c.Runs[i])
		}
	}
	along := s.startedAlong(c, lives)
	if slices.ContainsFunc(slices.Concat(lives, along), func(l *Life) bool { return l.claimed }) {
		return false
	}
	c.Lives, c.Runs, c.along = lives, runs, along
	if text := s.set.scheduler.cannotBegin(c); text != "" {
		s.set.outbox.effect(Effect{Kind: Refused, Node: order.None, Command: c, Text: text, Gated: true})
		return true
	}
	s.claim(c, true)
	s.set.outbox.effect(Effect{Kind: Record, Node: order.None, Command: c})
	return true
}

// refuseUnclaimed refuses a command for claimed services if one is none.
func (s *queue) refuseUnclaimed(c *Command) bool {
	l := c.Unclaimed()
	if l == nil {
		return false
	}
	text := "cannot " + c.Verb + " " + l.Title() + ": its definition does not have `deadline: required`, so it belongs to no fleet"
	s.set.outbox.effect(Effect{Kind: Refused, Node: order.None, Command: c, Text: text, Unclaimed: true})
	return true
}

// claim keeps other commands from a command's services, or lets them.
func (s *queue) claim(c *Command, taken bool) {
	for _, l := range slices.Concat(c.Lives, c.along) {
		l.claimed = taken
	}
}

// recordTaken has a member recorded that a rolling operation comes to, unless the operation
// has ended for it meanwhile, and tells whether it waits no longer.
func (s *queue) recordTaken(c *Command) bool {
	o, l := c.takes, c.Lives[0]
	switch {
	case o.closing || !o.Members[c.at].Open():
		return true
	case l.node == order.None:
		s.set.scheduler.take(o, c.at, nil)
		return true
	case l.claimed:
		return false
	}
	c.along = s.set.scheduler.alongWith(o, l)
	s.claim(c, true)
	s.set.outbox.effect(Effect{Kind: Record, Node: order.None, Command: c})
	return true
}

// Meant tells whether l is none of those that are left out.
func (s *Set) Meant(o Only, l *Life) bool {
	is := l.state.Public()
	if l.definition.Fault != "" && !Active(&l.state) {
		is = "failed"
	}
	judged, _ := l.Verdict(s.input.Now)
	switch {
	case o.State != "" && o.State != is && o.State != string(judged) && (o.State != string(machine.Unhealthy) || !Unhealthy(&l.state)):
		return false
	case o.Ill && judged != verdict.Ill, o.Wanted && !l.Wanted() && !l.wants.Owed, o.Fresh && l.state.LastID > 0:
		return false
	}
	return true
}

// startedAlong are those that are started with some of a command's services.
func (s *queue) startedAlong(c *Command, lives []*Life) (along []*Life) {
	if !c.Along || c.Width > 0 { // a rolling operation finds out when it comes to a member
		return nil
	}
	for _, n := range s.set.StartAlong(nodesOf(lives)) {
		if l := s.set.lives[n]; !c.Only.Fresh || l.state.LastID == 0 {
			along = append(along, l)
		}
	}
	return along
}

// recorded goes on with a command that is recorded, or cannot be. A stop is carried out
// all the same, and does not count as wanted.
func (s *queue) recorded(c *Command) {
	s.claim(c, false)
	defer s.advance()
	switch failed := s.set.input.Unrecorded; {
	case c.takes != nil:
		s.set.scheduler.taken(c, !failed)
	case c.Verb == VerbFollow:
		s.follow(c)
	case s.refuseUnclaimed(c): // its definition has changed while it was recorded
	case failed && !c.stops():
		s.set.outbox.effect(Effect{Kind: Refused, Node: order.None, Command: c})
	default:
		s.set.Operations.undertake(c, !failed)
	}
}

// follow has services be as is recorded of them.
func (s *queue) follow(c *Command) {
	for _, want := range []service.Intent{service.Running, service.Stopped} {
		part := &Command{Verb: VerbStart, Event: c.Event, Want: want}
		if want == service.Stopped {
			part.Verb = VerbStop
		}
		for i, l := range c.Lives {
			if i < len(s.set.input.Intents) && s.set.input.Intents[i] == want && want != l.wants.Desired && !l.state.Removed {
				part.Lives = append(part.Lives, l)
			}
		}
		if len(part.Lives) > 0 && !s.set.stopping {
			s.set.intents.intend(part.Lives, want, s.set.intents.next())
			s.give(nil, part, part.Lives)
		}
	}
}

// give has services take the turn of a command, and returns what goes along.
func (s *queue) give(o *Operation, c *Command, lives []*Life) {
	t, kind := c.turn()
	nodes, along := nodesOf(lives), []order.Node(nil)
	if t.Stops() {
		if s.set.stopping {
			return // all of them are stopped, and nothing comes back with another
		}
		along = s.set.StopAlong(t, nodes)
	}
	e := c.Event
	e.Kind = kind
	s.set.command(t, nodes, along, func(*Life) machine.Event { return e })
	if o != nil {
		for _, n := range along {
			o.Went = append(o.Went, s.set.lives[n].Title())
		}
	}
}

func nodesOf(lives []*Life) []order.Node {
	nodes := make([]order.Node, len(lives))
	for i, l := range lives {
		nodes[i] = l.node
	}
	return nodes
}
