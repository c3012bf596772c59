package core

import (
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
)

// Set is all services of one supervisor. The zero value has none. Only Step changes it;
// what its other methods return is read only.
type Set struct {
	order   order.Set
	nodes   map[string]order.Node // of services, and of names that definitions refer to
	names   []string              // Invariant: nodes[names[n]] is n, of a node in use
	aliases map[string]*Life      // by their other names
	lives   []*Life               // by node; nil: no service has that name
	spawns  map[uint64]*Life      // Invariant: has each State.ID that is not 0
	timers  timers

	holds    int     // while not 0 nothing is decided
	adopted  []*Life // to be told anew what holds them: what a predecessor said may be true no more
	active   int     // services of which a process may exist
	booted   bool
	stopping bool

	input   Input // of this Step
	chance  uint64
	effects []Effect
	states  []machine.State // that effects point to
	touched int             // how many lives this Step has looked at
}

// most bounds what is kept of the effects of one Step for the next.
const most = 64

// Step takes an input, and returns what is to be done, in order. The effects are valid
// until the next Step. It is called by one goroutine.
func (s *Set) Step(in Input) []Effect {
	s.begin(in)
	switch in.Kind {
	case Happened:
		if l := s.Life(in.Node); l != nil {
			s.happened(l, in.Event, in.State)
		}
	case Define:
		s.define()
	case Redefine:
		if l := s.Life(in.Node); l != nil {
			l.definition = in.Definition
			s.link(l)
			s.observe(l) // its policy may be another
		}
	case Announce:
		s.announce()
	case Unannounce:
		s.unannounce()
	case Command:
		s.command(in.Turn, in.Nodes, in.Along, func(*Life) machine.Event { return in.Event })
	case Revoke:
		for _, n := range in.Nodes {
			if l := s.Life(n); l != nil {
				s.order.Withdraw(n)
				l.turn, l.command = order.NoTurn, nil
			}
		}
	case Hold:
		s.holds++
	case Release:
		s.holds--
	case Booted:
		s.booted = true
	case Due:
		s.fire()
	case Lost:
		for _, l := range s.timers.running() {
			s.transition(l, machine.Event{Kind: machine.Stalled, Within: in.Event.Within})
		}
	case Stopping:
		s.stopping = true
	case End:
		s.end()
	}
	s.decide()
	return s.effects
}

func (s *Set) begin(in Input) {
	if s.nodes == nil {
		s.nodes, s.aliases, s.spawns = map[string]order.Node{}, map[string]*Life{}, map[uint64]*Life{}
	}
	if cap(s.effects) > most || cap(s.states) > most {
		s.effects, s.states = nil, nil
	}
	s.effects, s.states = s.effects[:0], s.states[:0]
	s.input, s.chance, s.touched = in, in.Rand, 0
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
	if n, ok := s.nodes[name]; ok {
		return s.lives[n]
	}
	return nil
}

// OfSpawn is the service whose run a spawn id is; nil: it is nobody's.
func (s *Set) OfSpawn(id uint64) *Life { return s.spawns[id] }

// Booted tells whether all that the boot found is known.
func (s *Set) Booted() bool { return s.booted }

// Stopping tells whether the container ends.
func (s *Set) Stopping() bool { return s.stopping }

// Active is how many services there are of which a process may exist.
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
	if before := s.order.Told(n).Before; before != order.None {
		return s.names[before]
	}
	return ""
}

// Fact is what is known of n where others are decided about.
func (s *Set) Fact(n order.Node) order.Fact { return s.order.Fact(n) }
