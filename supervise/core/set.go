package core

import (
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
)

// Set is all services of one supervisor. The zero value has none. Only Step changes it;
// what its other methods return is read only.
type Set struct {
	order  order.Set
	lives  []*Life          // by node; nil: no service has that name
	spawns map[uint64]*Life // Invariant: has each State.ID that is not 0, which no two lives share
	lastID uint64           // the highest spawn id in a State that a predecessor left: tier 1 may never have heard of it
	timers timers

	// NoRoom are the reasons of a failed start of a service for which there is no room,
	// but by the end of something else. Whoever makes the Set gives them.
	NoRoom []string

	// Limits bound the memory of operations. The Set's maker gives them.
	Limits Limits

	naming     naming
	outbox     outbox
	queue      queue
	intents    intents
	Operations Operations
	scheduler  scheduler

	holds    int     // while not 0 nothing is decided
	adopted  []*Life // to be told their blockers anew: a predecessor's may be gone
	active   int     // services that may have a process
	booted   bool
	stopping bool

	input   Input // of this Step
	chance  uint64
	touched int // how many lives this Step has looked at
}

// most bounds the room for effects that one Step keeps for the next.
const most = 64

// Step takes an input, and returns its effects, in order. They are valid
// until the next Step. It is called by one goroutine.
func (s *Set) Step(in Input) []Effect {
	s.begin(in)
	switch in.Kind {
	case Happened:
		s.deliver(in)
	case Notified:
		if l := s.Life(in.Node); l != nil {
			s.notified(l, in.PID, in.Events)
		}
	case Define:
		s.naming.define()
	case Redefine:
		s.redefine(in.Node, in.Definition)
	case Announce:
		s.naming.announce()
	case Unannounce:
		s.naming.unannounce()
	case Give:
		s.command(in.Turn, in.Nodes, in.Along, func(*Life) machine.Event { return in.Event })
	case Revoke:
		for _, n := range in.Nodes {
			s.revoke(n)
		}
	case Hold:
		s.holds++
	case Release:
		s.holds--
	case Booted:
		s.booted = true
	case Due:
		s.fire()
	case Want:
		if l := s.Life(in.Node); l != nil {
			l.wants = in.Wants
			s.outbox.remember(l, s.outbox.copy(&l.state))
		}
	case Freed:
		in.Life.busy = in.Busy
		s.scheduler.recheckAll(in.Life)
	case Remembered:
		s.scheduler.remembered()
	case Marked:
		s.scheduler.marked(in.Life)
	case Heard:
		s.scheduler.heard(in.Life)
	case Lost:
		s.lost(in.Event.Within)
	case Stopping:
		s.stopping = true
	case End:
		s.end()
	default:
		s.operate()
	}
	s.decide()
	s.intents.keepIntents()
	s.Operations.tellAll()
	return s.outbox.effects
}

// redefine gives a service another definition.
func (s *Set) redefine(n order.Node, d *Definition) {
	if l := s.Life(n); l != nil {
		l.definition = d
		s.naming.link(l)
		s.observe(l) // its policy may be another
		s.scheduler.recheckAll(l)
	}
}

// lost tells all whose time runs that so many nanoseconds of it did not count.
func (s *Set) lost(within int64) {
	for _, l := range s.timers.running() {
		s.transition(l, machine.Event{Kind: machine.Stalled, Within: within})
	}
}

// operate takes an input about commands and operations.
func (s *Set) operate() {
	switch in := &s.input; in.Kind {
	case Commanded:
		s.queue.accept(in.Command)
	case Recorded:
		s.queue.recorded(in.Command)
	case Cancel:
		s.Operations.cancel(in.ID)
	case Drop:
		s.Operations.drop(in.ID)
	case Join:
		s.Operations.read(in.ID, 1)
	case Leave:
		s.Operations.read(in.ID, -1)
	case Became:
		s.Operations.became()
	case Recall:
		s.Operations.recall()
	case Resume:
		s.Operations.resume()
	case Interrupt:
		s.Operations.interruptAll(in.Text)
	}
}

// revoke takes back a turn that has not come.
func (s *Set) revoke(n order.Node) {
	if l := s.Life(n); l != nil {
		s.order.Withdraw(n)
		l.turn, l.command = order.NoTurn, nil
		s.scheduler.recheckAll(l)
	}
}

func (s *Set) begin(in Input) {
	if s.naming.nodes == nil {
		s.naming.set, s.queue.set, s.intents.set, s.Operations.set, s.scheduler.set = s, s, s, s, s
		s.naming.nodes, s.naming.aliases, s.spawns = map[string]order.Node{}, map[string]*Life{}, map[uint64]*Life{}
	}
	if cap(s.outbox.effects) > most || cap(s.outbox.states) > most {
		s.outbox.effects, s.outbox.states = nil, nil
	}
	s.outbox.effects, s.outbox.states = s.outbox.effects[:0], s.outbox.states[:0]
	s.input, s.chance, s.touched = in, in.Rand, 0
	s.input.NextID = max(in.NextID, s.lastID+1)
}

// random is the next number that follows from the input's: splitmix64.
func (s *Set) random() uint64 {
	z := s.chance
	s.chance += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Life is the service of a node; nil: there is none.
func (s *Set) Life(n order.Node) *Life {
	if n < 0 || int(n) >= len(s.lives) {
		return nil
	}
	return s.lives[n]
}

// Find is the service that has a name; nil: there is none.
func (s *Set) Find(name string) *Life {
	if n, ok := s.naming.nodes[name]; ok {
		return s.lives[n]
	}
	return nil
}

// Booted tells whether all that the boot found is known.
func (s *Set) Booted() bool { return s.booted }

// Stopping tells whether the container ends.
func (s *Set) Stopping() bool { return s.stopping }

// Active is the number of services that may have a process.
func (s *Set) Active() int { return s.active }

// Next is the earliest deadline; false: there is none.
func (s *Set) Next() (at int64, ok bool) { return s.timers.next() }

// StartAlong are the services that must, or should, be started with others and are not
// wanted yet.
func (s *Set) StartAlong(nodes []order.Node) []order.Node {
	return s.order.StartAlong(s.present(nodes))
}

// StopAlong are those that a stop or restart of others takes along.
func (s *Set) StopAlong(t order.Turn, nodes []order.Node) []order.Node {
	return s.order.StopAlong(t, s.present(nodes))
}

// Before is the name of a service that is to be gone before the turn of n comes; "":
// there is none.
func (s *Set) Before(n order.Node) string {
	if before := s.order.Decided(n).Before; before != order.None {
		return s.naming.names[before]
	}
	return ""
}

// Fact is the known state of n for decisions about others.
func (s *Set) Fact(n order.Node) order.Fact { return s.order.Fact(n) }
