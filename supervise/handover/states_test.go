package handover

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// handed is a file of states from one supervisor to the next.
type handed struct {
	*testing.T
	fd      int
	garbage bool // what stands in it is not what was written
}

func (h *handed) open() *States {
	h.Helper()
	held := Held{}
	if h.fd > 0 {
		held[statesKey] = []int{h.fd}
	}
	s, err := OpenStates(held, func(_ string, fd int) { h.fd = fd })
	if err != nil {
		h.Fatal(err)
	}
	return s
}

func (h *handed) left() map[string]string {
	h.Helper()
	left := map[string]string{}
	for _, state := range h.open().Left() {
		if _, twice := left[state.Name]; twice && !h.garbage {
			h.Errorf("%s is there twice", state.Name)
		}
		left[state.Name] = string(state.Text)
	}
	return left
}

func newHanded(t *testing.T) *handed {
	h := &handed{T: t}
	t.Cleanup(func() { unix.Close(h.fd) })
	return h
}

// What was saved before a kill is there for the next, what was being saved is
// there whole or not at all: at every byte of every write.
func TestStatesOutliveAKillAtEveryByte(t *testing.T) {
	type step struct {
		name string
		text string // "": forgotten
	}
	steps := []step{
		{"a", "one"}, {"b", "1"}, {"a", "two"}, {"a", "three"}, {"b", ""}, {"c", "x"}, {"a", ""}, {"b", "2"}, {"a", "four"}, {"c", "y"},
	}
	for killed := range steps {
		whole := copyHeader + 1 + len(steps[killed].name) + len(steps[killed].text)
		for written := 0; written <= whole; written++ {
			h := newHanded(t)
			s := h.open()
			want := map[string]string{}
			apply := func(st step) error {
				if st.text == "" {
					return s.Forget(st.name)
				}
				return s.Save(st.name, []byte(st.text))
			}
			note := func(st step) {
				if delete(want, st.name); st.text != "" {
					want[st.name] = st.text
				}
			}
			for i, st := range steps[:killed] {
				if err := apply(st); err != nil {
					t.Fatal(err)
				}
				note(st)
				if i%3 == 2 { // a successor in between goes on from there
					s = h.open()
				}
			}
			s.Through(func(b []byte, at int64) (int, error) {
				n, err := unix.Pwrite(h.fd, b[:written], at)
				if err != nil {
					t.Fatal(err)
				}
				return n, unix.EINTR
			})
			if err := apply(steps[killed]); !errors.Is(err, unix.EINTR) {
				t.Fatalf("step %d: %v", killed, err)
			}
			before := maps.Clone(want)
			note(steps[killed])
			got := h.left()
			if !maps.Equal(got, want) && (written == whole || !maps.Equal(got, before)) {
				t.Fatalf("killed at byte %d of step %d: %v, want %v", written, killed, got, want)
			}
		}
	}
}

// The file has room for as many names as are there at a time, however often they
// come and go, and whatever stands in it reads without a fault.
func TestStatesAtRandom(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	h := newHanded(t)
	s := h.open()
	want := map[string]string{}
	const names = 20
	for range 5000 {
		name := fmt.Sprint(r.IntN(names))
		switch luck := r.IntN(100); {
		case luck < 60:
			text := strings.Repeat("x", 1+r.IntN(StateMax-len(name)))
			if err := s.Save(name, []byte(text)); err != nil {
				t.Fatal(err)
			}
			want[name] = text
		case luck < 90:
			if err := s.Forget(name); err != nil {
				t.Fatal(err)
			}
			delete(want, name)
		case luck < 95: // a write that fails changes nothing
			s.Through(func([]byte, int64) (int, error) { return 0, unix.ENOMEM })
			if s.Save(name, []byte("lost")) == nil {
				t.Fatal("a write that failed is no fault")
			}
			s.Through(func(b []byte, at int64) (int, error) { return unix.Pwrite(h.fd, b, at) })
		default:
			if got := h.left(); !maps.Equal(got, want) {
				t.Fatalf("seed %d: %v, want %v", seed, got, want)
			}
			s = h.open()
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(h.fd, &st); err != nil || st.Size > (1+names)*placeBytes {
		t.Errorf("%d names at most take %d bytes, %v", names, st.Size, err)
	}
	h.garbage = true
	for range 1000 {
		garbage := make([]byte, 1+r.IntN(100))
		for i := range garbage {
			garbage[i] = byte(r.Uint32())
		}
		if _, err := unix.Pwrite(h.fd, garbage, r.Int64N(names*placeBytes)); err != nil {
			t.Fatal(err)
		}
		h.left()
	}
}

func TestStatesAreBounded(t *testing.T) {
	h := newHanded(t)
	s := h.open()
	if err := s.Save("a", bytes.Repeat([]byte("x"), StateMax)); !errors.Is(err, ErrStateTooLong) {
		t.Error(err)
	}
	s.Through(func(b []byte, _ int64) (int, error) { return len(b), nil })
	for i := range mostPlaces {
		if err := s.Save(fmt.Sprint(i), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Save("one more", []byte("x")); !errors.Is(err, ErrTooManyStates) {
		t.Error(err)
	}
	if err := s.Forget("7"); err != nil {
		t.Fatal(err)
	}
	if err := s.Save("one more", []byte("x")); err != nil {
		t.Error(err)
	}
}
