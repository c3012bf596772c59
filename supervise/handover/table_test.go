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

// handed is a table from one supervisor to the next.
type handed struct {
	*testing.T
	fd    int
	spare int64
}

func newHanded(t *testing.T, spare int64) *handed {
	h := &handed{T: t, spare: spare}
	t.Cleanup(h.close)
	return h
}

func (h *handed) close() {
	if h.fd > 0 {
		unix.Close(h.fd)
	}
	h.fd = 0
}

func (h *handed) open() *Table {
	h.Helper()
	held := Held{}
	if h.fd > 0 {
		held[TableKey] = []int{h.fd}
	}
	table, err := OpenTable(held, func(_ string, fd int) { h.fd = fd })
	if err != nil {
		h.Fatal(err)
	}
	table.spare = h.spare
	return table
}

func (h *handed) left() map[string]string {
	h.Helper()
	return of(h.open())
}

func of(t *Table) map[string]string {
	left := map[string]string{}
	for key, value := range t.Under("") {
		left[key] = string(value)
	}
	return left
}

// What was kept before a kill is there for the next, what was being kept is there whole or
// not at all: at every byte of every write, of a row, of a region that is made anew for
// want of room, and of its head.
func TestTableOutlivesAKillAtEveryByte(t *testing.T) {
	type step struct {
		key   string
		value string // "": it is let go
	}
	steps := []step{
		{"a", "one"}, {"b", "1"}, {"a", "two"}, {"a", "three"}, {"b", ""}, {"c", "x"}, {"a", ""}, {"b", "2"}, {"a", strings.Repeat("long", 20)}, {"c", "y"}, {"a", "four"}, {"b", "3"},
	}
	renewed := 0
	for killed := range steps {
		for dies, over := 0, false; !over; dies++ { // how many bytes can be written then
			h := newHanded(t, 10)
			table := h.open()
			want := map[string]string{}
			apply := func(st step) error {
				if st.value == "" {
					return table.Delete(st.key)
				}
				return table.Put(st.key, []byte(st.value))
			}
			note := func(st step) {
				if delete(want, st.key); st.value != "" {
					want[st.key] = st.value
				}
			}
			for i, st := range steps[:killed] {
				if err := apply(st); err != nil {
					t.Fatal(err)
				}
				note(st)
				if i%4 == 3 { // a successor in between goes on from there
					table = h.open()
				}
			}
			if got := h.left(); !maps.Equal(got, want) {
				t.Fatalf("before step %d: %v, want %v", killed, got, want)
			}
			left, begin := dies, table.begin
			table.Through(func(f File) File {
				return failing{f, func(b []byte, at int64) (int, error) {
					n := min(left, len(b))
					left -= n
					if _, err := f.WriteAt(b[:n], at); err != nil {
						t.Fatal(err)
					}
					if n < len(b) {
						panic(unix.EINTR) // nobody is there to clear up
					}
					return n, nil
				}}
			})
			over = !interrupted(func() {
				if err := apply(steps[killed]); err != nil {
					t.Fatal(err)
				}
			})
			if over && table.begin != begin {
				renewed++
			}
			before := maps.Clone(want)
			note(steps[killed])
			got := h.left()
			if !maps.Equal(got, want) && (over || !maps.Equal(got, before)) {
				t.Fatalf("killed at byte %d of step %d: %v, want %v", dies, killed, got, want)
			}
			successor := h.open()
			if err := successor.Put("z", []byte("later")); err != nil {
				t.Fatal(err)
			}
			if got["z"] = "later"; !maps.Equal(h.left(), got) {
				t.Fatalf("killed at byte %d of step %d, a successor keeps one thing more, and %v are left of %v", dies, killed, h.left(), got)
			}
			h.close()
		}
	}
	if renewed == 0 {
		t.Error("no region was made anew")
	}
}

// failing is a file that is written by another function.
type failing struct {
	File
	write func(b []byte, at int64) (int, error)
}

func (f failing) WriteAt(b []byte, at int64) (int, error) { return f.write(b, at) }

func interrupted(f func()) (is bool) {
	defer func() { is = recover() != nil }()
	f()
	return false
}

// Whatever is kept, let go and cannot be written, in any order and by however many
// supervisors one after the other: what is there is what was kept last, and the file has
// room for that and not much more.
func TestTableAtRandom(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	h := newHanded(t, spareBytes)
	table := h.open()
	want := map[string]string{}
	const keys, longest = 20, 3000
	for range 20_000 {
		key := fmt.Sprint(r.IntN(keys))
		switch luck := r.IntN(1000); {
		case luck < 600:
			value := strings.Repeat(key, 1+r.IntN(longest))
			if err := table.Put(key, []byte(value)); err != nil {
				t.Fatal(err)
			}
			want[key] = value
		case luck < 900:
			if err := table.Delete(key); err != nil {
				t.Fatal(err)
			}
			delete(want, key)
		case luck < 990: // of a write that fails a part may be there, and it changes nothing
			part := r.IntN(100)
			file := table.file
			table.Through(func(f File) File {
				return failing{f, func(b []byte, at int64) (int, error) {
					if part < len(b) {
						b = b[:part]
					}
					part -= len(b)
					n, _ := f.WriteAt(b, at)
					return n, unix.ENOMEM
				}}
			})
			if table.Put(key, []byte(strings.Repeat("lost", 100))) == nil {
				t.Fatal("a write that failed is no fault")
			}
			table.Through(func(File) File { return file })
		default:
			table = h.open()
		}
		if got, is := string(table.Get(key)), want[key]; got != is {
			t.Fatalf("seed %d: %.20q is kept of %s, want %.20q", seed, got, key, is)
		}
	}
	if got := h.left(); !maps.Equal(got, want) {
		t.Fatalf("seed %d: %v, want %v", seed, got, want)
	}
	var st unix.Stat_t
	if err := unix.Fstat(h.fd, &st); err != nil || st.Blocks*512 > 3*keys*longest*2+2*spareBytes {
		t.Errorf("%d keys at most take %d bytes, %v", keys, st.Blocks*512, err)
	}
}

// Whatever stands in the file reads without a fault.
func TestTableOfGarbage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		h := newHanded(t, spareBytes)
		table := h.open()
		for i := range 10 {
			if err := table.Put(fmt.Sprint(i), bytes.Repeat([]byte{byte(i)}, 1+r.IntN(200))); err != nil {
				t.Fatal(err)
			}
		}
		garbage := make([]byte, 1+r.IntN(40))
		for i := range garbage {
			garbage[i] = byte(r.Uint32())
		}
		if _, err := unix.Pwrite(h.fd, garbage, table.begin+r.Int64N(2000)); err != nil {
			t.Fatal(err)
		}
		if err := h.open().Put("a", []byte("b")); err != nil {
			t.Fatal(err)
		}
		if left := h.left(); left["a"] != "b" {
			t.Fatalf("%v", left)
		}
		h.close()
	}
}

func TestTableIsBounded(t *testing.T) {
	table := newHanded(t, spareBytes).open()
	for key, value := range map[string][]byte{"": []byte("x"), strings.Repeat("k", keyMax+1): []byte("x"), "k": make([]byte, valueMax+1)} {
		if table.Put(key, value) == nil {
			t.Errorf("%d bytes are kept under a key of %d", len(value), len(key))
		}
	}
	if len(of(table)) != 0 {
		t.Errorf("%v", of(table))
	}
}

// Tags are given once each, stay with their names over a successor, and are let go.
func TestTagsOutliveTheirSupervisor(t *testing.T) {
	h := newHanded(t, spareBytes)
	tags := OpenTags(100, 102, h.open())
	given := map[string]uint32{}
	for _, name := range []string{"a", "b", "c"} {
		tag, err := tags.Allot(name)
		if err != nil || tag == 0 {
			t.Fatal(tag, err)
		}
		given[name] = tag
	}
	if _, err := tags.Allot("d"); !errors.Is(err, ErrNoTag) {
		t.Error(err)
	}
	tags.Free(given["b"])
	tags = OpenTags(100, 102, h.open())
	if tag, err := tags.Allot("d"); err != nil || tag != given["b"] {
		t.Errorf("the one that is free is %d, given is %d, %v", given["b"], tag, err)
	}
	if tag, err := tags.Allot("a"); err != nil || tag != given["a"] || tags.Owner(tag) != "a" {
		t.Errorf("a had %d and has %d, %v", given["a"], tag, err)
	}
	tags.FreeRest()
	tags = OpenTags(100, 102, h.open())
	for _, name := range []string{"a", "d", "e"} {
		if _, err := tags.Allot(name); err != nil {
			t.Error(name, err)
		}
	}
}

// What of the boot is done a successor does not do again.
func TestDutiesAreDoneOnce(t *testing.T) {
	h := newHanded(t, spareBytes)
	table := h.open()
	if table.Done(Cleaned) {
		t.Error("nothing was done yet")
	}
	table.Finish(Cleaned)
	first, id := table.LogFrom(func() int64 { return 7 }), table.BootID()
	table = h.open()
	if again, other := table.BootID(), newHanded(t, spareBytes).open().BootID(); len(id) != 32 || again != id || other == id {
		t.Errorf("the boot is %q, for a successor %q, and another is %q", id, again, other)
	}
	if second := table.LogFrom(func() int64 { return 99 }); first != 7 || second != 7 || !table.Done(Cleaned) || table.Done(Fulfilled) {
		t.Errorf("%d, %d, %v, %v", first, second, table.Done(Cleaned), table.Done(Fulfilled))
	}
}
