package core

import (
	"slices"

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
	deadline   deadline
	turn       order.Turn     // Invariant: as order has it, but for one that was announced and is not told yet
	command    *machine.Event // that it is given in its turn; nil: there is none
	stuck      bool
	blocker    blocker
	former     int // the process of the run before this one, which may have notified late

	wants     Wants
	commanded uint64 // the turn of the command that has set wants.Desired; 0: none has since this Set began
	unkept    bool   // a successor does not know of wants yet
	intended  bool   // its copy is to show the desired state, at the end of this Step
	begins    bool   // wants.Before ends with this Step
	claimed   bool   // a command for it is being recorded
	in        []membership
	busy      bool // something else goes on that is to end with it

	known known
}

// known is how far others know of a life.
type known struct {
	rows, kept uint64   // the version that a successor is to know, and the one that it does
	ended      []uint64 // exits that tier 1 may forget, once they are remembered and marked
	unmarked   []uint64 // runs whose end the log does not have yet
	unheard    uint64   // the run whose last words are on their way; 0: none
	said       string   // the last output of the latest run that ended
}

// Node is its number among the services; None: it is gone.
func (l *Life) Node() order.Node { return l.node }

// State is its state. A reader does not change it.
func (l *Life) State() *machine.State { return &l.state }

// Name is the name of its definition, Title its name for people.
func (l *Life) Name() string { return l.name }

// Title is likewise.
func (l *Life) Title() string {
	if l.definition.Title != "" {
		return l.definition.Title
	}
	return l.name
}

// Wants is its desired state.
func (l *Life) Wants() Wants { return l.wants }

// Version is that of its row of the checkpoint.
func (l *Life) Version() uint64 { return l.known.rows }

// Unheard tells whether what its latest run said last is on its way.
func (l *Life) Unheard() bool { return l.known.unheard != 0 }

// Said is what its latest run that ended said last.
func (l *Life) Said() string { return l.known.said }

// Wanted tells whether it is to run, after a stop that has yet to begin too.
func (l *Life) Wanted() bool { return l.state.Want == machine.WantUp && l.turn < order.Stop }

// Condition is its state in words, with the reason of one that is not up.
func (l *Life) Condition() string { return Condition(&l.state, l.definition.Fault) }

// pid is that of its process; 0: there is none.
func (l *Life) pid() int {
	if l.state.Alive() {
		return l.state.PID
	}
	return 0
}

// Turn is a command that it was not given yet.
func (l *Life) Turn() order.Turn { return l.turn }

// Stuck tells whether its blocker will not come up by itself.
func (l *Life) Stuck() bool { return l.stuck }

// Armed is its deadline in the heap; 0: it has none.
func (l *Life) Armed() int64 {
	if l.deadline.place < 0 {
		return 0
	}
	return l.deadline.at
}

// Former is the process of the run before this one; 0: there was none.
func (l *Life) Former() int { return l.former }

// Active tells whether a process of a service in that state may exist, or is about to.
func Active(s *machine.State) bool {
	switch s.Phase {
	case machine.Spawning, machine.Parked, machine.Starting, machine.Running, machine.Stopping, machine.Sweeping:
		return true
	}
	return false
}

// summary is the part of a state that is told to a successor and the status file: not
// the watchdog's last ping, nor a timer that was armed anew.
type summary struct {
	want                           machine.Want
	phase                          machine.Phase
	id                             uint64
	pid, fails, restarts, leftover int
	health                         machine.Health
	reason, text, blocked          string
	again, removed                 bool
	exit                           *machine.Exit
}

func summarize(s *machine.State) summary {
	return summary{
		s.Want, s.Phase, s.ID, s.PID, s.Fails, s.Restarts, s.Leftovers,
		s.Health, s.Reason, s.Text, s.Blocked, s.StartAgain, s.Removed, s.LastExit,
	}
}

// deliver hands an event to the life that it concerns.
func (s *Set) deliver(in Input) {
	l := s.Life(in.Node)
	if in.Spawn != 0 {
		l = s.spawns[in.Spawn]
	}
	switch {
	case l != nil:
		s.happened(l, in.Event)
	case in.Spawn != 0 && in.Event.Kind == machine.ExitedEvent:
		s.outbox.effect(Effect{Kind: Acknowledge, Node: order.None, Action: machine.Action{ID: in.Spawn}})
	}
}

// happened steps a life. One that is adopted is told anew what holds it. Once the container
// ends nobody is told of a new definition, which would start who has failed.
func (s *Set) happened(l *Life, e machine.Event) {
	if e.Kind == machine.Adopt {
		s.adopted = append(s.adopted, l)
	}
	if !s.stopping || e.Kind != machine.Update {
		s.transition(l, e)
	}
}

// notified steps a life by what a process of it has said. What one of an earlier run has
// sent late says nothing of this one, but how that has ended, until another has begun.
func (s *Set) notified(l *Life, pid int, said []machine.Event) {
	late := pid != 0 && pid == l.former && pid != l.state.PID
	for _, e := range said {
		e.ID = l.state.ID
		if e.Kind == machine.Trouble {
			if e.ID = l.state.LastID; late && l.state.ID != 0 && l.state.Phase != machine.Sweeping {
				continue
			}
		} else if late {
			continue
		}
		s.transition(l, e)
	}
}

// transition feeds one event to a life's machine, and adds the effects of that.
func (s *Set) transition(l *Life, e machine.Event) {
	if s.touched++; l.node == order.None {
		return
	}
	e.Now, e.Wall, e.NextID, e.Rand = s.input.Now, s.input.Wall, s.input.NextID, s.random()
	before := s.outbox.copy(&l.state)
	next, actions := machine.Step(*before, l.definition.Policy, e)
	s.replace(l, next)
	after := s.outbox.copy(&l.state)
	if before.PID > 0 && after.PID != before.PID {
		l.former = before.PID
	}
	remembered := summarize(before) != summarize(after)
	if remembered {
		s.outbox.remember(l, after)
	}
	if e := next.LastExit; e != nil && (before.LastExit == nil || *before.LastExit != *e) {
		if l.known.said, l.known.unheard = "", before.ID; !e.Lost && before.ID != 0 {
			l.known.unmarked = append(l.known.unmarked, before.ID)
		}
	}
	for _, a := range actions {
		s.do(l, a)
	}
	s.outbox.acknowledge(l)
	s.timers.set(&l.deadline, l.state.Timer.At)
	s.outbox.effect(Effect{Kind: Changed, Node: l.node, Life: l, Before: before, After: after, Remembered: remembered})
	s.scheduler.recheckAll(l)
	if next.Phase == machine.Gone {
		s.naming.forget(l)
		return
	}
	s.observe(l)
	if before.Blocked != next.Blocked {
		s.order.RedecideDependents(l.node)
	}
}

// effectOf are the actions that somebody else carries out. The timer slot is in the
// state, which the heap follows.
var effectOf = map[machine.ActionKind]EffectKind{
	machine.Spawn: Spawn, machine.Signal: Signal, machine.Sweep: Sweep,
	machine.Prolonged: Prolonged, machine.StartProbe: StartProbe, machine.StopProbe: StopProbe,
}

// do adds the machine's actions.
func (s *Set) do(l *Life, a machine.Action) {
	if a.Kind == machine.Spawn {
		s.input.NextID = a.ID + 1
	}
	if a.Kind == machine.Acknowledge {
		l.known.ended = append(l.known.ended, a.ID)
	}
	if kind, ok := effectOf[a.Kind]; ok {
		s.outbox.effect(Effect{Kind: kind, Node: l.node, Action: a})
	}
}

// remember has the checkpoint written with a life's state and desired state.
func (s *outbox) remember(l *Life, state *machine.State) {
	l.known.rows++
	l.unkept = false
	s.effect(Effect{Kind: Remember, Node: l.node, After: state, Life: l, Version: l.known.rows, Wants: l.wants})
}

// remembered notes that a successor would know of a life. What is older than what it is
// to know opens nothing.
func (s *scheduler) remembered() {
	for _, row := range s.set.input.Rows {
		if l := row.Life; row.Version == l.known.rows {
			l.known.kept = l.known.rows
			s.set.outbox.acknowledge(l)
			s.recheckAll(l)
		}
	}
}

// marked notes that the log says how a run ended, heard what that said last.
func (s *scheduler) marked(l *Life) {
	l.known.unmarked = slices.DeleteFunc(l.known.unmarked, func(run uint64) bool { return run == s.set.input.Spawn })
	s.set.outbox.acknowledge(l)
}

func (s *scheduler) heard(l *Life) {
	if l.known.unheard == s.set.input.Spawn {
		l.known.said, l.known.unheard = s.set.input.Text, 0
		s.recheckAll(l)
	}
}

// acknowledge has tier 1 forget the ends of a life's runs of which a successor and the
// log would know: or a successor might learn of one nowhere.
func (s *outbox) acknowledge(l *Life) {
	if len(l.known.ended) == 0 || !l.isRemembered() {
		return
	}
	l.known.ended = slices.DeleteFunc(l.known.ended, func(id uint64) bool {
		if slices.Contains(l.known.unmarked, id) {
			return false
		}
		s.effect(Effect{Kind: Acknowledge, Node: l.node, Action: machine.Action{Kind: machine.Acknowledge, ID: id}})
		return true
	})
}

// outbox is the effects of a Step.
type outbox struct {
	effects []Effect
	states  []machine.State // that effects point to
}

// replace gives a life another state, and has the facts of all follow.
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

// observe tells order the observed state of a life.
func (s *Set) observe(l *Life) {
	s.order.Observe(l.node, order.FactOf(l.state, l.definition.Policy))
}

func (s *outbox) effect(e Effect) { s.effects = append(s.effects, e) }

// copy keeps a state for the effects. That the slice may move does not matter: nobody
// changes what is in it.
func (s *outbox) copy(state *machine.State) *machine.State {
	s.states = append(s.states, *state)
	return &s.states[len(s.states)-1]
}
