package operation

import (
	"encoding/json"
	"fmt"
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

func begin(b *Book, verb string, as State, all []control.OperationMember) uint64 {
	id := b.NewID()
	b.Begin(id, verb, control.Actor{}, time.Time{}, all, as, nil)
	return id
}

func state(t *testing.T, b *Book, id uint64) control.Operation {
	t.Helper()
	h, problem := b.Get(id)
	if problem != nil {
		t.Fatal(problem)
	}
	o, _ := h.Now()
	return o
}

// The later command on a member wins, and the earlier operation says by which.
func TestLaterOperationSupersedes(t *testing.T) {
	var b Book
	first := begin(&b, "restart", Running, members("a", "b"))
	second := begin(&b, "stop", Running, members("b"))
	if m := state(t, &b, first).Members[1]; m.State != Superseded || m.Reason != "by operation 2" {
		t.Errorf("%+v", m)
	}
	b.Member(first, "b", Done, "", 7) // too late
	b.Member(first, "a", Done, "", 8)
	if o := state(t, &b, first); o.State != Done || o.Members[1].State != Superseded || o.Members[0].PID != 8 {
		t.Errorf("%+v", o)
	}
	third := begin(&b, "start", Running, members("b"))
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
	done := begin(&b, "start", Running, members("a"))
	b.Member(done, "a", Done, "", 1)
	open := begin(&b, "restart", Pending, members("a", "b", "c"))
	b.Member(open, "a", Done, "", 2)
	after.Recall(b.List(), 0)
	after.Resume(func(verb string, m control.OperationMember) (int, bool) { return 9, verb == "restart" && m.Name == "c" })
	if o := state(t, &after, done); o.State != Done {
		t.Errorf("%+v", o)
	}
	if o := state(t, &after, open); o.State != Interrupted || o.Members[0].State != Done || o.Members[1].State != Interrupted || o.Members[2].State != Done || o.Members[2].PID != 9 {
		t.Errorf("%+v", o)
	}
	if id := begin(&after, "stop", Running, members("a")); id <= open {
		t.Errorf("id %d is given again", id)
	}
}

// What is remembered is bounded, and what is under way is never forgotten.
func TestHistoryIsBounded(t *testing.T) {
	var b Book
	open := begin(&b, "start", Running, members("open"))
	for range 3 * kept {
		id := begin(&b, "start", Running, members("a"))
		b.Member(id, "a", Done, "", 0)
	}
	if n := len(b.List()); n > kept+1 {
		t.Errorf("%d are remembered", n)
	}
	if o := state(t, &b, open); o.Over() {
		t.Errorf("%+v", o)
	}
}

// What a successor reads is what there is, also of an operation that changes when it
// is over: a member that had begun when the gate closed comes to its end later.
func TestEncode(t *testing.T) {
	var b Book
	holds := func(what string) {
		t.Helper()
		list := b.List()
		for i := range list {
			if list[i].Over() {
				list[i] = Shortened(list[i])
			}
		}
		want, err := json.Marshal(list)
		if got := b.AppendTo(nil); err != nil || string(got) != string(want) {
			t.Errorf("%s:\n%s\n%s", what, got, want)
		}
	}
	holds("nothing")
	var many []control.OperationMember
	for i := range membersListed + 5 {
		many = append(many, control.OperationMember{Name: fmt.Sprint("m", i)})
	}
	first := begin(&b, "restart", Running, many)
	holds("begun")
	second := begin(&b, "stop", Running, members("a"))
	b.Member(second, "a", Done, "", 0)
	holds("one is over")
	b.Stop(first, Failed, "the gate")
	holds("stopped at the gate")
	b.Member(first, "m1", Done, "", 7)
	holds("a member ends later")
	var next Book
	var before []control.Operation
	if err := json.Unmarshal(b.AppendTo(nil), &before); err != nil {
		t.Fatal(err)
	}
	next.Recall(before, 0)
	if len(next.List()) != 2 {
		t.Errorf("recalled %v", next.List())
	}
}

// Who has begun an operation, or waits for it, is told of it however many end
// meanwhile; and one is not forgotten for its id, which may be lower than those of
// many that ended before it.
func TestWhatIsWaitedForIsTold(t *testing.T) {
	var b Book
	id := b.NewID()
	begun := b.Begin(id, "stop", control.Actor{}, time.Time{}, members("a"), Running, nil)
	others := func() {
		for range kept + 1 {
			b.Member(begin(&b, "start", Running, members("b")), "b", Done, "", 0)
		}
	}
	others()
	b.Member(id, "a", Done, "", 0)
	begin(&b, "start", Running, members("b"))
	if o := state(t, &b, id); o.State != Done || !b.Over(id) || b.Over(b.last) {
		t.Errorf("the one that ended last is %s", o.State)
	}
	others()
	if _, problem := b.Get(id); problem == nil || len(b.List()) > kept+1 {
		t.Errorf("%d are kept", len(b.List()))
	}
	if o, _ := begun.Now(); o.State != Done || begun.ID() != id {
		t.Errorf("who began it is told %+v", o)
	}
}
