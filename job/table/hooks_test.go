package table

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

// hooked is a table with the hooks a and b, in the boot "now".
func hooked(t *testing.T) (h *Table, apply func(kind, line string) uint64) {
	t.Helper()
	h, seq := New(), uint64(0)
	apply = func(kind, line string) uint64 {
		t.Helper()
		seq++
		h.Apply(Record{Seq: seq, Type: kind, Boot: "now", Line: []byte(line)})
		snapshot, err := json.Marshal(h)
		if err == nil {
			err = h.Restore(snapshot)
		}
		if err != nil {
			t.Fatal(err)
		}
		return seq
	}
	apply(TypeHooksSet, `{"hooks":{"a":"1","b":"2"}}`)
	return h, apply
}

// What hooks may be told of waits until it is known to be dealt with, over snapshots too.
func TestWhatHooksAreToldWaits(t *testing.T) {
	h, apply := hooked(t)
	waits := func(want ...uint64) {
		t.Helper()
		var got []uint64
		for _, w := range h.Hooks.Next(0) {
			got = append(got, w.Seq)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v wait, and should %v", got, want)
		}
	}
	first := apply(TypeTransition, `{"to":"failed"}`)
	second := apply(TypeTransition, `{"to":"running"}`)
	apply(TypeStarted, `{"job":"1"}`)
	waits(first, second)
	apply(TypeSubmitted, fmt.Sprintf(`{"job":"1","kind":"hook","hook":"a","event":%d}`, first))
	waits(first, second)
	toldOf := func(seq uint64, all bool, want ...string) {
		t.Helper()
		if told, is := h.Hooks.ToldOf(seq); !slices.Equal(told, want) || is != all {
			t.Errorf("of %d were told %v, all %t", seq, told, is)
		}
	}
	toldOf(first, false, "a")
	toldOf(second, false)
	apply(TypeSubmitted, fmt.Sprintf(`{"job":"2","kind":"hook","hook":"b","event":%d}`, second))
	waits(second)
	toldOf(first, true)
	toldOf(second, false, "b")
	apply(TypeSubmitted, `{"job":"3","kind":"hook","hook":"b"}`) // a sample
	waits(second)
	apply(TypeHooksSet, fmt.Sprintf(`{"hooks":{"a":"1","b":"2"},"through":%d}`, second))
	waits()

	third := apply(TypeTransition, `{"to":"failed"}`)
	waits(third)
	h.Apply(Record{Seq: 100, Type: TypeTransition, Boot: "next", Line: []byte(`{"to":"failed"}`)}) // before anybody has said which hooks there are
	waits(third)
	h.Apply(Record{Seq: 101, Type: TypeHooksSet, Boot: "next", Line: []byte(`{"hooks":{"a":"1"}}`)})
	waits()
	if !h.Hooks.KnownIn("next") || h.Hooks.KnownIn("now") {
		t.Errorf("they are known in %q", h.Hooks.Boot)
	}
	h.Apply(Record{Seq: 102, Type: TypeHooksSet, Boot: "next", Line: []byte(`{"hooks":{}}`)})
	h.Apply(Record{Seq: 103, Type: TypeTransition, Boot: "next", Line: []byte(`{"to":"failed"}`)})
	waits()
}

// Nothing grows without an end where hooks do not follow.
func TestHooksThatDoNotFollow(t *testing.T) {
	h := New()
	h.Apply(Record{Seq: 1, Type: TypeHooksSet, Line: []byte(`{"hooks":{"a":"1"}}`)})
	for i := range mostWaiting + 3 {
		h.Apply(Record{Seq: uint64(i + 2), Type: TypeTransition, Line: []byte(`{}`)})
	}
	if n := len(h.Hooks.Waiting); n != mostWaiting || h.Hooks.Missed != 3 || h.Hooks.Waiting[0].Seq != 5 {
		t.Errorf("%d wait, %d were missed", n, h.Hooks.Missed)
	}
}

// Which jobs have ended otherwise than they should.
func TestAmiss(t *testing.T) {
	h, apply := hooked(t)
	want := 0
	for _, c := range []struct {
		kind, state string
		amiss       bool
	}{
		{"run", "failed", true},
		{"schedule", "timed_out", true},
		{"write", "interrupted", true},
		{"run", "cancelled", false},
		{"run", "refused", false},
		{"hook", "failed", false},
	} {
		if apply(TypeFailed, fmt.Sprintf(`{"job":"1","kind":%q,"state":%q}`, c.kind, c.state)); c.amiss {
			want++
		}
		if got := len(h.Hooks.Waiting); got != want {
			t.Errorf("a %s that is %s: %d wait, and should %d", c.kind, c.state, got, want)
			want = got
		}
	}
}

// A threshold is crossed from the record that says so to the one that it is back.
func TestCrossed(t *testing.T) {
	h, apply := hooked(t)
	const of = `{"hook":"a","service":"web","what":"memory","limit":80,"for":"5m0s","percent":81.5,"state":%q}`
	apply(TypeThreshold, fmt.Sprintf(of, Crossed))
	if len(h.Hooks.Crossed) != 1 || h.Hooks.Crossed["a memory 80% 5m0s web"].Percent != 81.5 {
		t.Errorf("crossed: %+v", h.Hooks.Crossed)
	}
	apply(TypeThreshold, fmt.Sprintf(of, Back))
	if len(h.Hooks.Crossed) != 0 || len(h.Hooks.Waiting) != 2 {
		t.Errorf("crossed: %+v, waiting: %d", h.Hooks.Crossed, len(h.Hooks.Waiting))
	}
}
