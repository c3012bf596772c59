package core

import (
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
)

// Life is one service: its state, and its place among the others. Only the Set that it
// is of changes it; who reads it may keep it, and finds it Gone when it is.
type Life struct {
	node       order.Node // None: it is gone
	name       string
	alias      string
	definition *Definition
	state      machine.State
	place      int            // in the heap of timers; -1: it has no deadline
	turn       order.Turn     // Invariant: as order has it, but for one that was announced and is not told yet
	command    *machine.Event // that it is given in its turn; nil: there is none
	stuck      bool
}

// Node is its number among the services; None: it is gone.
func (l *Life) Node() order.Node { return l.node }

// State is its state. Who reads it does not change it.
func (l *Life) State() *machine.State { return &l.state }

// Turn is a command that it was not given yet.
func (l *Life) Turn() order.Turn { return l.turn }

// Stuck tells whether what it waits for will not come up by itself.
func (l *Life) Stuck() bool { return l.stuck }

// Armed is its deadline in the heap; 0: it has none.
func (l *Life) Armed() int64 {
	if l.place < 0 {
		return 0
	}
	return l.state.Timer.At
}

// Active tells whether a process of a service in that state may exist, or is about to.
func Active(s *machine.State) bool {
	switch s.Phase {
	case machine.Spawning, machine.Parked, machine.Starting, machine.Running, machine.Stopping, machine.Sweeping:
		return true
	}
	return false
}

// digested is what of a state is worth telling a successor and a new status file: not
// the watchdog's last ping, nor a timer that was armed anew.
type digested struct {
	want                           machine.Want
	phase                          machine.Phase
	id                             uint64
	pid, fails, restarts, leftover int
	health                         machine.Health
	reason, text, blocked          string
	again, removed                 bool
	exit                           *machine.Exit
}

func digest(s *machine.State) digested {
	return digested{
		s.Want, s.Phase, s.ID, s.PID, s.Fails, s.Restarts, s.Leftovers,
		s.Health, s.Reason, s.Text, s.Blocked, s.Again, s.Removed, s.LastExit,
	}
}

// happened steps a life. One that is adopted may have a newer state than it was defined
// with, and is told anew what holds it.
func (s *Set) happened(l *Life, e machine.Event, newer *machine.State) {
	if e.Kind == machine.Adopt {
		if newer != nil {
			s.replace(l, *newer)
		}
		s.adopted = append(s.adopted, l)
	}
	s.transition(l, e)
}

// transition feeds one event to a life's machine, and adds the effects of that.
func (s *Set) transition(l *Life, e machine.Event) {
	if s.touched++; l.node == order.None {
		return
	}
	e.Now, e.Wall, e.NextID, e.Rand = s.input.Now, s.input.Wall, s.input.NextID, s.random()
	before := s.copy(&l.state)
	next, actions := machine.Step(*before, l.definition.Policy, e)
	s.replace(l, next)
	after := s.copy(&l.state)
	remembered := digest(before) != digest(after)
	if remembered {
		s.effect(Effect{Kind: Remember, Node: l.node, After: after})
	}
	for _, a := range actions {
		s.do(l, a)
	}
	s.timers.set(l)
	s.effect(Effect{Kind: Changed, Node: l.node, Before: before, After: after, Remembered: remembered})
	if next.Phase == machine.Gone {
		s.forget(l)
		return
	}
	s.observe(l)
	if next.Phase == machine.Waiting && before.Reason != next.Reason {
		s.order.Retell(l.node)
	}
}

// effectOf are the actions that somebody else carries out. The timer slot is in the
// state, which the heap follows.
var effectOf = map[machine.ActionKind]EffectKind{
	machine.Spawn: Spawn, machine.Signal: Signal, machine.Sweep: Sweep, machine.Acknowledge: Acknowledge,
	machine.StartProbe: StartProbe, machine.StopProbe: StopProbe,
}

// do adds what the machine asks for.
func (s *Set) do(l *Life, a machine.Action) {
	if a.Kind == machine.Spawn {
		s.input.NextID = a.ID + 1
	}
	if kind, ok := effectOf[a.Kind]; ok {
		s.effect(Effect{Kind: kind, Node: l.node, Action: a})
	}
}

// replace gives a life another state, and has what is known of all follow.
func (s *Set) replace(l *Life, next machine.State) {
	if was := l.state.ID; was != next.ID {
		delete(s.spawns, was)
		if next.ID != 0 {
			s.spawns[next.ID] = l
		}
	}
	if Active(&l.state) {
		s.active--
	}
	if Active(&next) {
		s.active++
	}
	l.state = next
}

// observe tells order what is seen of a life.
func (s *Set) observe(l *Life) {
	s.order.Observe(l.node, order.FactOf(l.state, l.definition.Policy))
}

func (s *Set) effect(e Effect) { s.effects = append(s.effects, e) }

// copy keeps a state for the effects. That the slice may move does not matter: nobody
// changes what is in it.
func (s *Set) copy(state *machine.State) *machine.State {
	s.states = append(s.states, *state)
	return &s.states[len(s.states)-1]
}
