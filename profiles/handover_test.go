package profiles

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
)

// modelTree has the owner of each object of a profile's directory; 0 is the services' user.
type modelTree [5]uint32

// roots is the owner of what root has left in it.
const roots = 99

// The objects, each directory before what is in it.
const (
	top = iota
	definition
	state
	other // a directory
	deep  // in it
)

// down are the orders in which a walk from the top down may come to what lies in a
// directory, and the reverse of each is one from the bottom up.
var down = [][]int{{definition, state, other, deep}, {other, deep, state, definition}, {state, other, definition, deep}}

// The owner of a model's directory, as the code sees it.
func (m modelTree) cutShort(owners Owners) uint32 {
	return cutShort(m[top], owners, func(yield func(uint32) bool) {
		_ = yield(m[definition]) && yield(m[state]) && yield(m[other])
	})
}

// reads tells whether its definition can be read: as the topmost's owner.
func (m modelTree) reads() bool { return m[definition] == m[top] && m[state] == m[top] }

func (m modelTree) whole() bool {
	for _, uid := range m {
		if uid != m[top] {
			return false
		}
	}
	return true
}

// give is each state that a walk leaves behind that is killed, and last the one at its end.
func (m modelTree) give(uid uint32, order []int) iter.Seq[modelTree] {
	return func(yield func(modelTree) bool) {
		for _, i := range append(append([]int{}, order...), top) {
			if !yield(m) {
				return
			}
			if m[i] == 0 || m[i] == roots {
				m[i] = uid
			}
		}
		yield(m)
	}
}

// take is the same of the walk back.
func (m modelTree) take(uid uint32, order []int) iter.Seq[modelTree] {
	return func(yield func(modelTree) bool) {
		if m[top] == uid {
			for _, i := range []int{definition, state, other} {
				if !yield(m) {
					return
				}
				if m[i] == roots {
					m[i] = uid
				}
			}
		}
		back := []int{top}
		for i := range order {
			back = append(back, order[len(order)-1-i])
		}
		for _, i := range back {
			if !yield(m) {
				return
			}
			if m[i] == uid || m[i] == roots {
				m[i] = 0
			}
		}
		yield(m)
	}
}

// complete is what Ownership.complete does, killed anywhere.
func (m modelTree) complete(owners owning, order []int) iter.Seq[modelTree] {
	switch uid := m.cutShort(owners); {
	case uid == 0:
		return func(yield func(modelTree) bool) { yield(m) }
	case owners.Auto():
		return m.give(uid, order)
	default:
		return m.take(uid, order)
	}
}

// repair is what Ownership.Repair does with it: a hand-over that was cut short is ended
// first, and then what is root's becomes the topmost's owner's. It is also what a boot
// does.
func (m modelTree) repair(owners owning, order []int) iter.Seq[modelTree] {
	return func(yield func(modelTree) bool) {
		for m = range m.complete(owners, order) {
			if !yield(m) {
				return
			}
		}
		for m := range m.give(m[top], order) {
			if !yield(m) {
				return
			}
		}
	}
}

// remove is what Ownership.removeAll does before it tries again.
func (m modelTree) remove(owners owning, order []int) iter.Seq[modelTree] {
	uid := m[top]
	if !has(owners, uid) {
		uid = m.cutShort(owners)
	}
	return m.give(uid, order)
}

func last(states iter.Seq[modelTree]) (m modelTree) {
	for m = range states {
	}
	return m
}

// Whatever root has left in it, and whatever a kill leaves between any two steps of a gift,
// with "user: auto" or since that was taken away, and of what a deletion, a purge, a restore
// and a rename begin with, killed again and again: every reader of the directory can read its
// definition after one walk, a purge can remove all of it, a start gives all of it to its
// user, and what was the user's never is the services' while profiles have users.
func TestCutOffHandOversExplored(t *testing.T) {
	const uid = 7
	owners, without := owning{uid: uid}, owning{uid: uid, none: true}
	seen := map[modelTree]string{{}: "created"}
	for which := range 1 << deep { // what root has left
		m, of := modelTree{}, uint32(0)
		for _, of = range []uint32{0, uid} {
			for i := range m {
				if m[i] = of; i > top && which>>(i-1)&1 == 1 {
					m[i] = roots
				}
			}
			seen[m] = "root wrote " + fmt.Sprint(m)
		}
	}
	next := maps.Clone(seen)
	for len(next) > 0 {
		now := next
		next = map[modelTree]string{}
		for m, story := range now {
			for _, order := range down {
				reached := func(what string, states iter.Seq[modelTree]) {
					for s := range states {
						if _, known := seen[s]; !known {
							seen[s] = story + "; " + what + fmt.Sprint(s)
							next[s] = seen[s]
						}
					}
				}
				reached("give", m.give(uid, order))
				if m[top] == uid {
					reached("take back", m.take(uid, order)) // a start without "user: auto"
				}
				for _, o := range []owning{owners, without} {
					reached(fmt.Sprint("complete, users ", o.Auto()), m.complete(o, order))
					reached(fmt.Sprint("repair, users ", o.Auto()), m.repair(o, order))
				}
				reached("remove", m.remove(owners, order))
			}
		}
	}
	if len(seen) < 12 {
		t.Fatalf("only %d states", len(seen))
	}
	for m, story := range seen {
		for _, order := range down {
			met := m
			if !m.reads() || slices.Contains(m[:], roots) {
				met = last(m.repair(owners, order))
			}
			if !met.reads() {
				t.Errorf("%s: not readable after it was repaired: %v", story, met)
			}
			if mended := last(m.repair(owners, order)); !mended.whole() {
				t.Errorf("%s: repaired, and %v", story, mended)
			}
			for _, o := range []owning{owners, without} {
				if done := last(m.complete(o, order)); !slices.Contains(m[:], roots) && !m.reads() && !done.reads() { // Ownership.finish
					t.Errorf("%s: not readable after it was met: %v", story, done)
				}
			}
			for s := range m.complete(owners, order) {
				for i := range s {
					if m[i] == uid && s[i] != uid {
						t.Errorf("%s: to be deleted or restored, and others can read it: %v", story, s)
					}
				}
			}
			if gone := last(m.remove(owners, order)); !gone.whole() {
				t.Errorf("%s: to be removed, and %v", story, gone)
			}
			is := itsOwn
			if met[top] == 0 {
				is = services
			}
			switch did := (standing{auto: true, is: is, recorded: true}).decide(); did {
			case give:
				met = last(met.give(uid, order))
			case leave:
			default:
				t.Errorf("%s: %d at a start", story, did)
			}
			if !met.whole() || met[top] != uid {
				t.Errorf("%s: started, and %v", story, met)
			}
		}
	}
}
