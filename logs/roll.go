package logs

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// roll is which slots there are: by name, and by their index in the arena.
type roll struct {
	mu         sync.Mutex // guards what follows, and that a slot is opened before Close or not at all
	byName     map[string]*Slot
	taken      []bool            // indexes in use
	orphans    map[[2]uint64]int // indexes of slots not taken over yet, by their pipes
	generation int32
	closed     bool
}

// enter gives a slot with these pipes its index, that of a predecessor's slot if it
// has adopted it. The caller has the lock.
func (r *roll) enter(s *Slot, inodes [2]uint64) (adopted bool, err error) {
	if r.closed || r.byName[s.name] != nil {
		return false, errors.New("it is open, or all are closed")
	}
	index, adopted := r.orphans[inodes]
	if !adopted {
		if index = slices.Index(r.taken, false); index < 0 {
			if index = len(r.taken); index == maxSlots {
				return false, fmt.Errorf("there are %d logs already", maxSlots)
			} else if most, limit := slotsWithin(); index >= most {
				return false, fmt.Errorf("there is room for %d logs where no file may be larger than %d bytes (RLIMIT_FSIZE); raise docker run --ulimit fsize by %d for each further one", most, limit, areaSize)
			}
			r.taken = append(r.taken, false)
		}
	}
	delete(r.orphans, inodes)
	r.taken[index] = true
	r.byName[s.name] = s
	r.generation++
	s.index, s.generation = index, r.generation
	return adopted, nil
}

// leave takes a slot's name from it.
func (r *roll) leave(s *Slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName[s.name] == s {
		delete(r.byName, s.name)
	}
}

// free lets another slot have an index.
func (r *roll) free(index int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken[index] = false
}

// abandoned are the indexes of slots that nobody has taken over, and nobody will.
func (r *roll) abandoned() (indexes []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pipes, index := range r.orphans {
		delete(r.orphans, pipes)
		indexes = append(indexes, index)
	}
	return indexes
}

// close lets no other slot be opened. It reports whether it is the first call.
func (r *roll) close() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.closed
	r.closed = true
	return !was
}

// slot returns the open slot of a name; nil: there is none.
func (r *roll) slot(name string) *Slot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byName[name]
}

// sources are the open slots.
func (r *roll) sources() []Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Source
	for name, s := range r.byName {
		all = append(all, Source{Name: name, Dir: s.where()})
	}
	return all
}
