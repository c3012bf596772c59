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

// takeBack is what Ownership.takeBack does, killed anywhere.
func (m modelTree) takeBack(owners Owners, order []int) iter.Seq[modelTree] {
	uid := m[top]
	if !has(owners, uid) {
		uid = m.cutShort(owners)
	}
	if uid == 0 {
		return func(yield func(modelTree) bool) { yield(m) }
	}
	return m.take(uid, order)
}

// repair is what Ownership.Repair does with it: a hand-over that was cut short is ended
// first, and then what is root's becomes the topmost's owner's. It is also what a boot
// does, and a purge.
func (m modelTree) repair(owners Owners, order []int) iter.Seq[modelTree] {
	return func(yield func(modelTree) bool) {
		if m.cutShort(owners) != 0 {
			for m = range m.takeBack(owners, order) {
				if !yield(m) {
					return
				}
			}
		}
		for m := range m.give(m[top], order) {
			if !yield(m) {
				return
			}
		}
	}
}

func last(states iter.Seq[modelTree]) (m modelTree) {
	for m = range states {
	}
	return m
}

// Whatever root has left in it, and whatever a kill leaves between any two steps of a gift, a creation's or a clone's, and
// of what a deletion, a purge, a restore and a rename begin with, killed again and again:
// whoever meets the directory can read its definition after one walk, a deletion can move
// it, a purge can remove all of it, and a start gives all of it to its user.
func TestCutOffHandOversExplored(t *testing.T) {
	const uid = 7
	owners := owning{uid: uid}
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
				reached("take back", m.takeBack(owners, order))
				reached("repair", m.repair(owners, order))
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
			if finished := last(m.takeBack(owners, order)); !slices.Contains(m[:], roots) && !m.reads() && !finished.reads() { // Ownership.finish
				t.Errorf("%s: not readable after it was met: %v", story, finished)
			}
			if back := last(last(m.takeBack(owners, order)).repair(owners, order)); back != (modelTree{}) {
				t.Errorf("%s: to be deleted, purged or restored, and %v", story, back)
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
