package explorelife

import (
	"fmt"
	"reflect"
	"syscall"
	"time"

	"rlminit/supervise/machine"
)

// Pair is a phase and an event that met in it.
type Pair struct {
	Phase machine.Phase
	Event machine.EventKind
}

// Result is what a search found.
type Result struct {
	States int
	Steps  int
	Visits map[Pair]int
	Edges  map[Pair]map[machine.Phase]bool // where the event led to; true events only
	Acts   map[Pair]bool                   // it can change something, or do something
}

// maxStates is far above what any of Policies needs.
const maxStates = 200_000

// Search visits every state that the machine can reach under p, and checks each
// step. It fails at the first broken invariant, with the state and the event.
func Search(p machine.Policy) (Result, error) {
	s := search{policy: p, seen: map[key]bool{}}
	s.result = Result{Visits: map[Pair]int{}, Edges: map[Pair]map[machine.Phase]bool{}, Acts: map[Pair]bool{}}
	s.push(World{Now: int64(time.Hour)})
	for len(s.todo) > 0 {
		if len(s.seen) > maxStates {
			return s.result, fmt.Errorf("more than %d states: something in the State grows without bound", maxStates)
		}
		w := s.todo[len(s.todo)-1]
		s.todo = s.todo[:len(s.todo)-1]
		if err := s.expand(w); err != nil {
			return s.result, err
		}
	}
	s.result.States = len(s.seen)
	return s.result, nil
}

type search struct {
	policy machine.Policy
	seen   map[key]bool
	todo   []World
	result Result
}

func (s *search) push(w World) {
	k := keyOf(w, s.policy)
	if !s.seen[k] {
		s.seen[k] = true
		s.todo = append(s.todo, w)
	}
}

// expand takes every event in one state: those that can happen lead on; those
// that cannot (answers to what was never asked, spawns of long ago, old timers)
// are tried for their invariants only.
func (s *search) expand(w World) error {
	for _, e := range s.events(w) {
		if err := s.step(w, e); err != nil {
			return fmt.Errorf("in %+v\nchild %+v, on %+v: %w", w.State, w.Child, e, err)
		}
	}
	if err := Stops(w, s.policy); err != nil {
		return fmt.Errorf("in %+v\nchild %+v: %w", w.State, w.Child, err)
	}
	return nil
}

func (s *search) step(w World, e machine.Event) error {
	e.NextID = w.Child.ID + 1
	next := w
	e.Now = max(w.Now, e.Now)
	next.Now = e.Now
	e.Wall = e.Now
	happens := outside(e.Kind) || next.Happen(e)
	if e.Kind == machine.TimerFired {
		happens = w.State.Timer.At != 0 && e.Generation == w.State.Timer.Generation
	}
	if isReport(e.Kind) {
		happens = e.ID == w.State.ID && e.ID != 0
	}
	pair := Pair{w.State.Phase, e.Kind}
	s.result.Steps++
	s.result.Visits[pair]++

	after, actions := machine.Step(w.State, s.policy, e)
	if err := Check(w.State, s.policy, e, after, actions); err != nil {
		return err
	}
	if !happens {
		return s.ignored(w, e, after, actions)
	}
	if !s.result.Acts[pair] && (len(actions) > 0 || !reflect.DeepEqual(after, w.State)) {
		s.result.Acts[pair] = true
	}
	if s.result.Edges[pair] == nil {
		s.result.Edges[pair] = map[machine.Phase]bool{}
	}
	s.result.Edges[pair][after.Phase] = true

	// The supervisor may be killed before any of the actions, or after some.
	for n := 0; n < len(actions); n++ {
		died := next
		died.State = after
		if err := died.Apply(actions[:n]); err != nil {
			return err
		}
		if err := s.adopt(died); err != nil {
			return fmt.Errorf("killed after %d of %v: %w", n, actions, err)
		}
	}
	next.State = after
	if err := next.Apply(actions); err != nil {
		return err
	}
	if err := Consistent(next); err != nil {
		return err
	}
	s.push(next)

	// Or it may be killed before the new State was stored.
	stale := next
	stale.State = w.State
	if err := s.adopt(stale); err != nil {
		return fmt.Errorf("adopted with the State before %s: %w", e.Kind, err)
	}
	return nil
}

// adopt is a new supervisor's first step.
func (s *search) adopt(w World) error {
	e := w.Adoption()
	e.Now, e.Wall, e.NextID = w.Now, w.Now, w.Child.ID+1
	s.result.Steps++
	s.result.Visits[Pair{w.State.Phase, machine.Adopt}]++
	after, actions := machine.Step(w.State, s.policy, e)
	if err := Check(w.State, s.policy, e, after, actions); err != nil {
		return err
	}
	w.State = after
	if err := w.Apply(actions); err != nil {
		return err
	}
	if err := Consistent(w); err != nil {
		return err
	}
	s.push(w)
	return nil
}

// ignored checks an event that cannot happen: of another spawn or timer, it must
// not change anything; the machine may only send away what it does not know.
func (s *search) ignored(w World, e machine.Event, after machine.State, actions []machine.Action) error {
	if e.Kind != machine.TimerFired && e.ID == w.State.ID {
		return nil
	}
	before := w.State
	before.LastID, after.LastID = 0, 0
	w1, w2 := World{State: before, Now: w.Now}, World{State: after, Now: w.Now}
	if keyOf(w1, s.policy) != keyOf(w2, s.policy) {
		return fmt.Errorf("%s of another run changed the state to %+v", e.Kind, after)
	}
	for _, a := range actions {
		switch {
		case a.Kind == machine.Acknowledge && a.ID == e.ID:
		case a.Kind == machine.Signal && a.ID == e.ID && a.Signal == syscall.SIGKILL:
		default:
			return fmt.Errorf("%s of another run made %+v", e.Kind, a)
		}
	}
	return nil
}

// outside are the events that can happen at any time.
func outside(k machine.EventKind) bool {
	switch k {
	case machine.Start, machine.Stop, machine.Restart, machine.Remove, machine.Update,
		machine.DependenciesMet, machine.DependenciesUnmet, machine.Adopt, machine.Stalled, machine.Prolong:
		return true
	}
	return false
}

func isReport(k machine.EventKind) bool {
	switch k {
	case machine.Spawned, machine.SpawnFailed, machine.SpawnStuck, machine.ExitedEvent,
		machine.Swept, machine.TimerFired:
		return false
	}
	return !outside(k)
}

// events are all that are tried in one state.
func (s *search) events(w World) []machine.Event {
	id, other := w.State.ID, w.Child.ID+7
	list := []machine.Event{
		{Kind: machine.Start},
		{Kind: machine.Stop},
		{Kind: machine.Restart},
		{Kind: machine.Remove},
		{Kind: machine.Update},
		{Kind: machine.Update, NeedsRestart: true},
		{Kind: machine.DependenciesMet},
		{Kind: machine.DependenciesUnmet, Reason: "db is not up"},
		{Kind: machine.TimerFired, Generation: w.State.Timer.Generation, Now: w.State.Timer.At},
		{Kind: machine.TimerFired, Generation: w.State.Timer.Generation + 1},
		{Kind: machine.TimerFired, Generation: w.State.Timer.Generation - 1, Now: w.State.Timer.At},
		{Kind: machine.Stalled, Within: int64(time.Second), Now: w.Now + int64(time.Second)},
		{Kind: machine.Prolong, Lease: machine.Lease{Fence: "1", At: w.Now + far}},
		w.Adoption(),
	}
	if s.policy.Deadline {
		list = append(list, s.leases(w)...)
	}
	if s.policy.RetryFailed > 0 { // two policies are enough to try these with
		list = append(list,
			machine.Event{Kind: machine.Stop, Hurry: true},
			machine.Event{Kind: machine.Stop, Within: int64(5 * time.Millisecond)})
	}
	for _, i := range []uint64{w.Child.ID, other} {
		list = append(list,
			machine.Event{Kind: machine.Spawned, ID: i, PID: 100, StartTime: 1},
			machine.Event{Kind: machine.SpawnFailed, ID: i, Reason: "fork: no more pids", Temporary: true},
			machine.Event{Kind: machine.SpawnFailed, ID: i, Reason: "not found"},
			machine.Event{Kind: machine.SpawnStuck, ID: i},
			machine.Event{Kind: machine.Swept, ID: i},
			machine.Event{Kind: machine.Swept, ID: i, Remaining: 1},
		)
		for _, x := range exits {
			if i == other && x.code != 0 {
				continue
			}
			late := w.Now + int64(s.policy.ResetAfter)
			list = append(list,
				machine.Event{Kind: machine.ExitedEvent, ID: i, Code: x.code, Signal: x.signal},
				machine.Event{Kind: machine.ExitedEvent, ID: i, Code: x.code, Signal: x.signal, Now: late},
				machine.Event{Kind: machine.ExitedEvent, ID: i, Code: x.code, Signal: x.signal, Leftovers: 1})
		}
	}
	if w.State.Phase == machine.Running {
		list = append(list,
			machine.Event{Kind: machine.HealthFailed, ID: id, Now: w.Now + int64(s.policy.HealthStartPeriod)},
			machine.Event{Kind: machine.HealthPassed, ID: id, Now: w.Now + int64(s.policy.ResetAfter)})
	}
	for _, i := range []uint64{id, other} {
		for _, k := range machine.EventKinds {
			if !isReport(k) || k == machine.WatchdogSet && s.policy.Watchdog == 0 {
				continue
			}
			list = append(list, machine.Event{Kind: k, ID: i, PID: 101, Reason: "text", Within: int64(20 * time.Millisecond), Errno: 5})
		}
	}
	return list
}

// Deadlines of leases: one that passes before all else, and one that passes after it.
const (
	near = int64(1)
	far  = int64(time.Hour)
)

// reach is 0 for a deadline that has passed, 1 for one that is near, 2 for one that is far.
func (w *World) reach(at int64) int {
	switch left := at - w.Now; {
	case left <= 0:
		return 0
	case left <= near:
		return 1
	}
	return 2
}

// leases are the events that give a fence and a deadline, or move one on: under one fence
// and another, to a time that has passed, that is near, and that is far; and one that only
// lets the present deadline pass.
func (s *search) leases(w World) (list []machine.Event) {
	for _, fence := range []string{"1", "2"} {
		for _, kind := range []machine.EventKind{machine.Start, machine.Prolong} {
			for _, within := range []int64{0, near, far} {
				list = append(list, machine.Event{Kind: kind, Lease: machine.Lease{Fence: fence, At: w.Now + within}})
			}
		}
	}
	return append(list, machine.Event{Kind: machine.Prolong, Now: w.State.Lease.At})
}

var exits = []struct {
	code   int
	signal syscall.Signal
}{{0, 0}, {75, 0}, {78, 0}, {0, syscall.SIGKILL}}

// Stops drives a service from w by stop, with a kernel that answers and a
// process that dies of nothing but SIGKILL, and reports if it does not end.
func Stops(w World, p machine.Policy) error {
	e := machine.Event{Kind: machine.Stop}
	for range 200 {
		e.Now, e.Wall, e.NextID = w.Now, w.Now, w.Child.ID+1
		after, actions := machine.Step(w.State, p, e)
		w.State = after
		if err := w.Apply(actions); err != nil {
			return err
		}
		killed := false
		for _, a := range actions {
			killed = killed || a.Signal == syscall.SIGKILL
		}
		switch c := w.Child; {
		case c.State == machine.ChildPending:
			e = machine.Event{Kind: machine.Spawned, ID: c.ID}
		case c.State == machine.ChildAlive && killed:
			e = machine.Event{Kind: machine.ExitedEvent, ID: c.ID, Signal: syscall.SIGKILL, Leftovers: 1}
		case c.State == machine.ChildExited && killed:
			e = machine.Event{Kind: machine.Swept, ID: c.ID}
		case w.State.Timer.At != 0:
			w.Now = max(w.Now, w.State.Timer.At)
			e = machine.Event{Kind: machine.TimerFired, Generation: w.State.Timer.Generation}
		case w.State.Public() == "stopped":
			return nil
		default:
			return fmt.Errorf("stop came to rest in phase %q", w.State.Phase)
		}
		if e.Kind != machine.TimerFired {
			w.Happen(e)
		}
	}
	return fmt.Errorf("stop does not end; phase %q", w.State.Phase)
}
