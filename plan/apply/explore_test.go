package apply

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

// world is what an exploration knows: the records, the memory of the one who
// carries them out, and for each step whether what it changes is as it was.
type world struct {
	records State    // what a successor is given
	memory  State    // of who is alive
	queue   []Action // decided, and not begun
	busy    []Action // begun, and not ended
	new     []bool   // by step: the change is in force
	damaged []bool   // by step: undoing it failed
	kills   int      // that may still happen
	late    bool     // the deadline of the whole, or a cancel, may still come
	theirs  []bool   // by step: a person has made something else of it
	persons int      // that may still do so
	heard   bool     // that somebody commands what is under way, and it is not known yet
	passing int      // failures that may still happen for a reason that may pass
	resumed int      // how often what had ended unfinished may still go on
}

func (w world) clone() world {
	w.records, w.memory = w.records.clone(), w.memory.clone()
	w.queue, w.busy = slices.Clone(w.queue), slices.Clone(w.busy)
	w.new, w.damaged, w.theirs = slices.Clone(w.new), slices.Clone(w.damaged), slices.Clone(w.theirs)
	return w
}

func (w world) key() string { return fmt.Sprintf("%+v", w) }

func (w world) take(e Event) world {
	w = w.clone()
	var do []Action
	w.memory, do = Next(w.memory, e)
	w.queue = append(w.queue, do...)
	return w
}

// step begins the first action of the queue.
func (w world) step() world {
	w = w.clone()
	a := w.queue[0]
	w.queue = w.queue[1:]
	switch a.Do {
	case RecordStep:
		t := &w.records.Steps[a.Step]
		t.Place, t.Reason, t.Temporary = a.Place, a.Reason, a.Temporary
	case RecordTurn:
		w.records.Turned, w.records.Reason = w.memory.Turned, w.memory.Reason
	case RecordEnd:
		w.records.Outcome = w.memory.Outcome
	case Abandon:
		w.busy = slices.DeleteFunc(w.busy, func(b Action) bool { return b.Do == Gate && b.Step == a.Step })
	default:
		w.busy = append(w.busy, a)
	}
	return w
}

// ends are the ways in which something that is under way can end.
func (w world) ends(i int) (next []world) {
	a := w.busy[i]
	w = w.clone()
	w.busy = slices.Delete(w.busy, i, i+1)
	with := func(e Event, change func(*world)) {
		n := w.clone()
		if change != nil {
			change(&n)
		}
		e.Step = a.Step
		next = append(next, n.take(e))
	}
	switch {
	case a.Do == Act && w.theirs[a.Step]:
		with(Event{Kind: ActDone, Reason: "touched", Untouched: true}, nil)
		return next
	case (a.Do == Undo || a.Do == UndoUnstarted) && w.theirs[a.Step]:
		with(Event{Kind: UndoDone, Reason: "touched"}, nil)
		return next
	}
	switch a.Do {
	case TryAgain:
		with(Event{Kind: Again}, nil)
		return next
	}
	if w.passing > 0 && (a.Do == Act || a.Do == Undo || a.Do == UndoUnstarted) {
		kind := UndoDone
		if a.Do == Act {
			kind = ActDone
		}
		for _, left := range []time.Duration{0, time.Hour} {
			if a.Do == Act && left > 0 && !w.new[a.Step] {
				with(Event{Kind: kind, Reason: "cannot look", Temporary: true, Left: left, Untouched: true}, func(n *world) { n.passing-- })
			}
			for _, is := range []bool{true, false} { // whether the change is in force
				with(Event{Kind: kind, Reason: "no room", Temporary: true, Left: left}, func(n *world) {
					n.passing--
					n.new[a.Step] = is && (n.new[a.Step] || a.Do == Act)
				})
			}
		}
	}
	switch a.Do {
	case Act:
		with(Event{Kind: ActDone, OK: true}, func(n *world) { n.new[a.Step] = true })
		with(Event{Kind: ActDone, Reason: "disk"}, nil)
		with(Event{Kind: ActDone, Reason: "disk"}, func(n *world) { n.new[a.Step] = true })
		if !w.new[a.Step] {
			with(Event{Kind: ActDone, Reason: "exists", Untouched: true}, nil)
		}
	case Gate:
		with(Event{Kind: GateDone, OK: true}, nil)
		with(Event{Kind: GateDone, Reason: "died"}, nil)
		with(Event{Kind: GateDone, Late: true, Reason: "late"}, nil)
	case Undo, UndoUnstarted:
		with(Event{Kind: UndoDone, OK: true}, func(n *world) { n.new[a.Step] = false })
		with(Event{Kind: UndoDone, Reason: "disk"}, func(n *world) { n.damaged[a.Step] = true })
	}
	return next
}

// killed are the worlds after a kill: what was under way had happened, or not.
func (w world) killed() (next []world) {
	w = w.clone()
	w.kills--
	worlds := []world{w}
	for _, a := range w.busy {
		if a.Do == Gate || a.Do == TryAgain {
			continue
		}
		for _, n := range slices.Clone(worlds) {
			n = n.clone()
			n.new[a.Step] = a.Do == Act && !n.theirs[a.Step]
			worlds = append(worlds, n)
		}
	}
	for _, n := range worlds {
		n.queue, n.busy, n.heard, n.memory = nil, nil, false, n.records.Restart(1)
		next = append(next, n.take(Event{Kind: Go}), n.take(Event{Kind: BootAgain}))
	}
	return next
}

// commanded are the worlds after a person has commanded a profile: one that changes
// what is recorded of it, or one that only restarts it.
func (w world) commanded() (next []world) {
	for i := range w.theirs {
		n := w.clone()
		n.persons--
		n.heard = n.heard || n.records.Steps[i].Place == Begun
		next = append(next, n)
		n = n.clone()
		n.theirs[i], n.new[i] = true, false
		next = append(next, n)
	}
	return next
}

// Every failure at every step, a person who commands at any time, and every kill between any two actions: in the
// end all is new, or all is old, or what is neither is said.
func TestNeverAHalfOfEach(t *testing.T) {
	kills := 1
	scenarios := [][]int{{1}, {0, 1}, {2, 2}, {1, 4}, {0, 2, 4}, {1, 2, 3}, {2, 4, 4}}
	if os.Getenv("EXPLORE_LONG") != "" {
		kills = 2
		scenarios = append(scenarios, []int{1, 1, 2, 2}, []int{1, 2, 3, 4})
	}
	for _, waves := range scenarios {
		persons := 1
		if len(waves) > 2 && os.Getenv("EXPLORE_LONG") == "" {
			persons = 0
		}
		passing := 1
		if len(waves) == 1 {
			passing = len(Pauses) + 2
		}
		begin := world{
			records: New(waves, 1), memory: New(waves, 1), new: make([]bool, len(waves)), damaged: make([]bool, len(waves)), theirs: make([]bool, len(waves)),
			kills: kills, persons: persons, late: true, passing: passing, resumed: 1,
		}
		seen, ends := map[string]bool{}, map[Outcome]int{}
		todo := []world{begin.take(Event{Kind: Go})}
		for len(todo) > 0 {
			w := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if key := w.key(); seen[key] {
				continue
			} else {
				seen[key] = true
			}
			if w.records.Over() && len(w.queue) == 0 {
				ends[w.records.Outcome]++
				w.check(t, waves)
				if slices.ContainsFunc(w.busy, func(a Action) bool { return a.Do != TryAgain }) {
					t.Fatalf("%v: over, and busy with %v", waves, w.busy)
				}
				if w.records.Unfinished() && w.resumed > 0 {
					ends["unfinished"]++
					todo = append(todo, w.goOn()...)
				}
				continue
			}
			w.wellOrdered(t)
			if w.kills > 0 {
				todo = append(todo, w.killed()...)
			}
			if w.persons > 0 {
				todo = append(todo, w.commanded()...)
			}
			if w.heard {
				n := w.take(Event{Kind: Halt, Cause: GateLost, Reason: "commanded"})
				n.heard = false
				todo = append(todo, n)
			}
			if len(w.queue) > 0 {
				todo = append(todo, w.step())
				continue
			}
			if len(w.busy) == 0 {
				t.Fatalf("%v: nothing is under way, and it is not over: %+v", waves, w)
			}
			for i := range w.busy {
				todo = append(todo, w.ends(i)...)
			}
			if w.late {
				for _, cause := range []Cause{TimedOut, Called} {
					n := w.take(Event{Kind: Halt, Cause: cause, Reason: "the whole"})
					n.late = false
					todo = append(todo, n)
				}
			}
		}
		t.Logf("figure: waves %v: %d states, ends %v", waves, len(seen), ends)
		for _, o := range []Outcome{Applied, RolledBack, Partly, "unfinished"} {
			if ends[o] == 0 {
				t.Errorf("%v: %s never happened", waves, o)
			}
		}
	}
}

// goOn are the worlds in which what has ended unfinished is tried again, while services
// run or before any is started.
func (w world) goOn() []world {
	w = w.clone()
	w.resumed--
	w.queue, w.busy, w.records = nil, nil, w.records.Resume()
	w.memory = w.records.Restart(1)
	return []world{w.take(Event{Kind: Go}), w.take(Event{Kind: BootAgain})}
}

// A step that fails for a reason that may pass is tried again after each of the pauses,
// if its time allows that, forth and back; one that fails for another reason is not.
func TestTriedAgain(t *testing.T) {
	s, do := Next(New([]int{1}, 1), Event{Kind: Go})
	failed := func(kind Kind, left time.Duration) {
		s, do = Next(s, Event{Kind: kind, Reason: "no room", Temporary: true, Left: left})
	}
	for _, pause := range Pauses {
		failed(ActDone, 2*time.Minute)
		if len(do) != 1 || do[0].Do != TryAgain || do[0].Pause != pause {
			t.Fatalf("after a failure: %+v", do)
		}
		if s, do = Next(s, Event{Kind: Again}); len(do) != 1 || do[0].Do != Act {
			t.Fatalf("after the pause: %+v", do)
		}
	}
	if failed(ActDone, 2*time.Minute); s.Turned != NotDone || do[len(do)-1].Do != Undo {
		t.Fatalf("after the last: %+v, %+v", s, do)
	}
	if failed(UndoDone, Pauses[0]); s.Outcome != Partly || !s.Unfinished() || !s.Steps[0].Temporary {
		t.Fatalf("its undoing has no time: %+v, %+v", s, do)
	}
	if s, do = Next(s.Resume().Restart(1), Event{Kind: Go}); len(do) != 1 || do[0].Do != Undo {
		t.Fatalf("resumed: %+v", do)
	}
	if s, do = Next(s, Event{Kind: UndoDone, OK: true}); s.Outcome != RolledBack || s.Unfinished() {
		t.Fatalf("in the end: %+v, %+v", s, do)
	}
	s, _ = Next(New([]int{1}, 1), Event{Kind: Go})
	if s, _ = Next(s, Event{Kind: ActDone, Reason: "no such user", Left: time.Hour}); s.Turned != NotDone {
		t.Fatalf("a reason that does not pass: %+v", s)
	}
}

// check holds an end against what is in force.
func (w world) check(t *testing.T, waves []int) {
	t.Helper()
	for i, is := range w.new {
		place := w.records.Steps[i].Place
		switch w.records.Outcome {
		case Applied:
			if !is && !w.theirs[i] || place != Passed {
				t.Fatalf("%v: applied, but step %d is %q, new: %v: %+v", waves, i, place, is, w)
			}
		case RolledBack:
			if is {
				t.Fatalf("%v: rolled back, but step %d is in force: %+v", waves, i, w)
			}
		case Partly:
			if is && place != Stuck {
				t.Fatalf("%v: step %d is in force, and nobody says so: %+v", waves, i, w)
			}
		}
	}
}

// wellOrdered holds what is under way against the waves.
func (w world) wellOrdered(t *testing.T) {
	t.Helper()
	if len(w.memory.Steps) == 0 || w.memory.cold {
		return
	}
	replaced := 0
	for _, a := range w.busy {
		s := w.memory.Steps[a.Step]
		if a.Do == TryAgain {
			continue
		}
		if a.Do == Act && w.records.Steps[a.Step].Place != Begun {
			t.Fatalf("step %d is acted, and no record says so: %+v", a.Step, w)
		}
		if s.Wave == rollingWave {
			replaced++
		}
		for j, other := range w.memory.Steps {
			if a.Do == Act && other.Wave < s.Wave && w.records.Steps[j].Place != Passed {
				t.Fatalf("step %d of wave %d is acted before step %d of wave %d has passed", a.Step, s.Wave, j, other.Wave)
			}
		}
	}
	if replaced > 1 {
		t.Fatalf("%d are replaced at once: %+v", replaced, w)
	}
}

// The records make the state that was recorded.
func TestFold(t *testing.T) {
	var f Fold
	f.Begin(RecordedBegun{Revision: 1, Steps: []Planned{{Name: "a", Action: "create", Wave: 1}, {Name: "b", Action: "update", Wave: 2}}}, "t0", "b0")
	f.Begin(RecordedBegun{Revision: 1, Steps: []Planned{{Name: "x", Action: "delete", Wave: 4}}}, "t0", "b0") // twice: the first counts
	f.Move(RecordedStep{Revision: 1, Steps: []int{0}, Place: Passed}, "b0")
	f.Move(RecordedStep{Revision: 1, Steps: []int{1, 7}, Place: Begun}, "b1")
	open := f.Open()
	if open == nil || open.State.Steps[0].Place != Passed || open.State.Steps[1].Place != Begun || open.Boot != "b1" || f.LastApplied() != 0 {
		t.Fatalf("%+v", open)
	}
	f.Turn(RecordedTurn{Revision: 1, Cause: GateLost, Reason: "died"}, "b1")
	f.Turn(RecordedTurn{Revision: 1, Cause: TimedOut, Reason: "late"}, "b1") // it has turned already
	f.End(RecordedEnd{Revision: 1, Outcome: RolledBack}, "t1", "b1")
	if k := f.Find(1); f.Open() != nil || k.State.Turned != GateLost || k.State.Outcome != RolledBack || f.LastApplied() != 0 {
		t.Fatalf("%+v", k)
	}
	f.Begin(RecordedBegun{Revision: 2}, "t2", "b1")
	f.End(RecordedEnd{Revision: 2, Outcome: Applied}, "t2", "b1")
	f.Move(RecordedStep{Revision: 9, Steps: []int{0}, Place: Passed}, "b1") // unknown: left out
	if f.Last() != 2 || f.LastApplied() != 2 {
		t.Fatalf("%+v", f)
	}
	for i := 3; i < 3*maxKnown; i++ {
		f.Begin(RecordedBegun{Revision: i}, "t", "b")
		f.End(RecordedEnd{Revision: i, Outcome: Applied}, "t", "b")
	}
	if len(f.Revisions) != maxKnown || f.Last() != 3*maxKnown-1 {
		t.Errorf("%d revisions, the last is %d", len(f.Revisions), f.Last())
	}
}
