package history

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
	"rlminit/supervise/operation"
)

// boot is one start of a container on a volume: its journal, and the operations that it
// has found there.
type boot struct {
	*testing.T
	journal *journal.Journal
	history History
	all     []control.Operation
	last    uint64
}

func newBoot(t *testing.T, home *durable.Dir, id string) *boot {
	t.Helper()
	b := &boot{T: t}
	j, err := journal.Open(home, journal.Options{Boot: id, Folds: map[string]journal.Fold{Section: &b.history}, Say: func(line string) { t.Error(line) }})
	if err != nil {
		t.Fatal(err)
	}
	b.journal = j
	all, left, last := b.history.Since(id)
	for _, e := range left {
		j.Note(journal.Entry{Type: TypeEnded, Body: e})
	}
	b.all, b.last = all, last
	return b
}

// stop records a stop of services, and returns the operation.
func (b *boot) stop(names ...string) control.Operation {
	b.Helper()
	b.last++
	c := profiles.Command{Operation: b.last, Verb: "stop", Intent: service.Stopped, Services: names, Actor: &profiles.Actor{UID: 7, PID: 77}}
	if _, err := b.journal.Append(context.Background(), journal.Entry{Type: profiles.TypeOperation, Body: c}); err != nil {
		b.Fatal(err)
	}
	return control.Operation{ID: b.last, Verb: "stop", Actor: control.Actor{UID: 7, PID: 77}, State: operation.StateRunning, Members: members(names...)}
}

func (b *boot) end(o control.Operation) {
	b.journal.Note(journal.Entry{Type: TypeEnded, Body: EndedOf(o)})
}

func (b *boot) find(id uint64) control.Operation {
	b.Helper()
	for _, o := range b.all {
		if o.ID == id {
			return o
		}
	}
	b.Fatalf("there is no operation %d in %+v", id, b.all)
	return control.Operation{}
}

func members(names ...string) (all []control.OperationMember) {
	for _, name := range names {
		all = append(all, control.OperationMember{Name: name})
	}
	return all
}

// found is an operation as the next boot finds it, which the snapshot of the boot
// after that must not change.
func found(t *testing.T, home *durable.Dir, id uint64) (control.Operation, uint64) {
	t.Helper()
	next := newBoot(t, home, fmt.Sprintf("b%016x", id))
	o := next.find(id)
	next.journal.Close()
	after := newBoot(t, home, fmt.Sprintf("c%016x", id))
	defer after.journal.Close()
	if !reflect.DeepEqual(next.all, after.all) {
		t.Errorf("one boot finds %+v, the next %+v", next.all, after.all)
	}
	return o, after.last + 1
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
	stopped, open := first.stop("gateway-a", "web"), first.stop("gateway-b").ID
	stopped.State, stopped.Reason = operation.StateFailed, "it did not end"
	stopped.Members[0].State = operation.StateDone
	stopped.Members[1].State, stopped.Members[1].PID = operation.StateFailed, 9
	first.end(stopped)
	done := stopped.ID
	first.journal.Close()

	o, next := found(t, home, done)
	if o.State != operation.StateFailed || o.Reason != "it did not end" || o.Verb != "stop" || o.Actor != (control.Actor{UID: 7, PID: 77}) || o.At.IsZero() ||
		len(o.Members) != 2 || o.Members[1].State != operation.StateFailed || o.Members[1].PID != 9 {
		t.Errorf("the one that ended: %+v", o)
	}
	if next <= open {
		t.Errorf("id %d is given again", next)
	}
	o, _ = found(t, home, open)
	if o.State != operation.StateInterrupted || o.Reason != "the container ended" || len(o.Members) != 1 || o.Members[0].Name != "b" || o.Members[0].State != operation.StateInterrupted {
		t.Errorf("the one that was under way: %+v", o)
	}
}

// What a successor in the same container finds under way it decides itself.
func TestASuccessorFindsWhatIsUnderWay(t *testing.T) {
	home := volume(t)
	first := newBoot(t, home, "a000000000000000")
	id := first.stop("gateway-a").ID
	first.journal.Close()
	second := newBoot(t, home, "a000000000000000")
	o := second.find(id)
	if o.Over() {
		t.Errorf("it is over before anybody has looked: %+v", o)
	}
	interrupt(&o, "the supervisor was replaced")
	second.end(o)
	second.journal.Close()
	if o, _ := found(t, home, id); o.State != operation.StateInterrupted || o.Reason != "the supervisor was replaced" {
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
		o := control.Operation{ID: id + 1, Verb: "stop", State: operation.StateFailed, Members: members(many...)}
		for i := range o.Members {
			o.Members[i].State = operation.StateDone
		}
		o.Members[777].State = operation.StateFailed
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
		if len(o.Members) != membersListed || o.Omitted != 1000-membersListed || !slices.ContainsFunc(o.Members, func(m control.OperationMember) bool { return m.Name == many[777] && m.State == operation.StateFailed }) {
			t.Fatalf("of %d there are %d members, %d omitted", o.ID, len(o.Members), o.Omitted)
		}
	}
}
