package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"rlminit/control"
	"rlminit/internal/durable"
	"rlminit/journal"
	"rlminit/profiles"
	"rlminit/service"
)

// boot is one start of a container on a volume: its journal, and its operations.
type boot struct {
	*testing.T
	journal *journal.Journal
	history History
	book    Book
	id      string
}

func newBoot(t *testing.T, home *durable.Dir, id string) *boot {
	t.Helper()
	b := &boot{T: t, id: id}
	j, err := journal.Open(home, journal.Options{Boot: id, Folds: map[string]journal.Fold{Section: &b.history}, Say: func(line string) { t.Error(line) }})
	if err != nil {
		t.Fatal(err)
	}
	b.journal = j
	b.book.Ended = func(o control.Operation) { j.Note(journal.Entry{Type: TypeEnded, Body: EndedOf(o)}) }
	all, left, last := b.history.Since(id)
	for _, e := range left {
		j.Note(journal.Entry{Type: TypeEnded, Body: e})
	}
	b.book.Recall(all, last)
	return b
}

// stop records and begins a stop of services.
func (b *boot) stop(names ...string) uint64 {
	b.Helper()
	id := b.book.NewID()
	c := profiles.Command{Operation: id, Verb: "stop", Intent: service.Stopped, Services: names, Actor: &profiles.Actor{UID: 7, PID: 77}}
	if _, err := b.journal.Append(context.Background(), journal.Entry{Type: profiles.TypeOperation, Body: c}); err != nil {
		b.Fatal(err)
	}
	b.book.Begin(id, "stop", control.Actor{UID: 7, PID: 77}, c0, members(names...), Running, nil)
	return id
}

var c0 = control.Operation{}.At

// found is an operation as the next boot finds it, which the snapshot of the boot
// after that must not change.
func found(t *testing.T, home *durable.Dir, id uint64) (control.Operation, uint64) {
	t.Helper()
	next := newBoot(t, home, fmt.Sprintf("b%016x", id))
	o := state(t, &next.book, id)
	list := next.book.List()
	next.journal.Close()
	after := newBoot(t, home, fmt.Sprintf("c%016x", id))
	defer after.journal.Close()
	if again := after.book.List(); !reflect.DeepEqual(list, again) {
		t.Errorf("one boot finds %+v, the next %+v", list, again)
	}
	return o, after.book.NewID()
}

func volume(t *testing.T) *durable.Dir {
	t.Helper()
	home, err := durable.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { home.Close() })
	return home
}

// An operation that ended is found as it ended, one that did not as interrupted,
// each with who gave it, and no id is given twice.
func TestOperationsOfEarlierBoots(t *testing.T) {
	home := volume(t)
	first := newBoot(t, home, "a000000000000000")
	done, open := first.stop("gateway-a", "web"), first.stop("gateway-b")
	first.book.Member(done, "gateway-a", Done, "", 0)
	first.book.Member(done, "web", Failed, "it did not end", 9)
	first.journal.Close()

	o, next := found(t, home, done)
	if o.State != Failed || o.Reason != "it did not end" || o.Verb != "stop" || o.Actor != (control.Actor{UID: 7, PID: 77}) || o.At.IsZero() ||
		len(o.Members) != 2 || o.Members[1].State != Failed || o.Members[1].PID != 9 {
		t.Errorf("the one that ended: %+v", o)
	}
	if next <= open {
		t.Errorf("id %d is given again", next)
	}
	o, _ = found(t, home, open)
	if o.State != Interrupted || o.Reason != "the container ended" || len(o.Members) != 1 || o.Members[0].Name != "b" || o.Members[0].State != Interrupted {
		t.Errorf("the one that was under way: %+v", o)
	}
}

// What a successor in the same container finds under way it decides itself.
func TestASuccessorFindsWhatIsUnderWay(t *testing.T) {
	home := volume(t)
	first := newBoot(t, home, "a000000000000000")
	id := first.stop("gateway-a")
	first.journal.Close()
	second := newBoot(t, home, "a000000000000000")
	if o := state(t, &second.book, id); o.Over() {
		t.Errorf("it is over before anybody has looked: %+v", o)
	}
	second.book.Resume(func(string, control.OperationMember) (int, bool) { return 0, false })
	second.journal.Close()
	if o, _ := found(t, home, id); o.State != Interrupted || o.Reason != "the supervisor was replaced" {
		t.Errorf("%+v", o)
	}
}

// What the journal keeps is bounded, in operations and in members of each; what
// went wrong stays.
func TestTheJournalsHistoryIsBounded(t *testing.T) {
	var h History
	seq := uint64(0)
	apply := func(kind string, body any) {
		seq++
		line, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		h.Apply(journal.Record{Seq: seq, Boot: "b1", Type: kind, Line: line})
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf("gateway-p%d", i)
	}
	for id := range uint64(3 * kept) {
		apply(profiles.TypeOperation, profiles.Command{Operation: id + 1, Verb: "stop", Services: many})
		o := control.Operation{ID: id + 1, Verb: "stop", State: Failed, Members: members(many...)}
		for i := range o.Members {
			o.Members[i].State = Done
		}
		o.Members[777].State = Failed
		apply(TypeEnded, EndedOf(o))
	}
	section, err := json.Marshal(h.Snapshot())
	if err != nil || len(section) > 1<<20 || len(h.all) != kept {
		t.Errorf("%d operations in %d bytes, %v", len(h.all), len(section), err)
	}
	all, left, last := h.Since("b2")
	if len(left) > 0 || last != 3*kept || all[0].ID != 2*kept+1 {
		t.Errorf("%d are left, the last is %d, the first %d", len(left), last, all[0].ID)
	}
	for _, o := range all {
		if len(o.Members) != membersListed || o.Omitted != 1000-membersListed || !slices.ContainsFunc(o.Members, func(m control.OperationMember) bool { return m.Name == many[777] && m.State == Failed }) {
			t.Fatalf("of %d there are %d members, %d omitted", o.ID, len(o.Members), o.Omitted)
		}
	}
}
