package operation

import (
	"testing"
	"time"

	"rlminit/control"
)

func members(names ...string) (all []control.OperationMember) {
	for _, name := range names {
		all = append(all, control.OperationMember{Name: name})
	}
	return all
}

func state(t *testing.T, b *Book, id uint64) control.Operation {
	t.Helper()
	o, _, problem := b.Get(id)
	if problem != nil {
		t.Fatal(problem)
	}
	return o
}

// The later command on a member wins, and the earlier operation says by which.
func TestLaterOperationSupersedes(t *testing.T) {
	var b Book
	first := b.Begin("restart", 0, time.Time{}, members("a", "b"), Running, nil)
	second := b.Begin("stop", 0, time.Time{}, members("b"), Running, nil)
	if m := state(t, &b, first).Members[1]; m.State != Superseded || m.Reason != "by operation 2" {
		t.Errorf("%+v", m)
	}
	b.Member(first, "b", Done, "", 7) // too late
	b.Member(first, "a", Done, "", 8)
	if o := state(t, &b, first); o.State != Done || o.Members[1].State != Superseded || o.Members[0].PID != 8 {
		t.Errorf("%+v", o)
	}
	third := b.Begin("start", 0, time.Time{}, members("b"), Running, nil)
	if o := state(t, &b, second); o.State != Superseded {
		t.Errorf("%+v", o)
	}
	if _, problem := b.Cancel(third); problem != nil {
		t.Error(problem)
	}
	if _, problem := b.Cancel(third); problem == nil || problem.ExitCode != control.ExitExists {
		t.Errorf("cancelled twice: %v", problem)
	}
	if _, problem := b.Cancel(99); problem == nil || problem.ExitCode != control.ExitNoSuchName {
		t.Errorf("one that never was: %v", problem)
	}
}

// What was under way when the supervisor was replaced is interrupted, what was over
// stays so, and no id is given twice.
func TestSuccessorKnowsWhatWas(t *testing.T) {
	var b, after Book
	done := b.Begin("start", 0, time.Time{}, members("a"), Running, nil)
	b.Member(done, "a", Done, "", 1)
	open := b.Begin("restart", 0, time.Time{}, members("a", "b", "c"), Pending, nil)
	b.Member(open, "a", Done, "", 2)
	after.Resume(b.List(), func(verb string, m control.OperationMember) (int, bool) { return 9, verb == "restart" && m.Name == "c" })
	if o := state(t, &after, done); o.State != Done {
		t.Errorf("%+v", o)
	}
	if o := state(t, &after, open); o.State != Interrupted || o.Members[0].State != Done || o.Members[1].State != Interrupted || o.Members[2].State != Done || o.Members[2].PID != 9 {
		t.Errorf("%+v", o)
	}
	if id := after.Begin("stop", 0, time.Time{}, members("a"), Running, nil); id <= open {
		t.Errorf("id %d is given again", id)
	}
}

// What is remembered is bounded, and what is under way is never forgotten.
func TestHistoryIsBounded(t *testing.T) {
	var b Book
	open := b.Begin("start", 0, time.Time{}, members("open"), Running, nil)
	for range 3 * kept {
		id := b.Begin("start", 0, time.Time{}, members("a"), Running, nil)
		b.Member(id, "a", Done, "", 0)
	}
	if n := len(b.List()); n > kept+1 {
		t.Errorf("%d are remembered", n)
	}
	if o := state(t, &b, open); o.Over() {
		t.Errorf("%+v", o)
	}
}
