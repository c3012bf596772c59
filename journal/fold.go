package journal

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Fold is the state of one domain, as it follows from the records. It is pure:
// no clock, no I/O, no randomness; the same records in the same order give the
// same state, and Restore(Snapshot()) changes nothing. Its memory must not grow
// with history: the domain sets a bound, and drops older entries.
//
// All three are called with the journal's lock held, and so must return at once
// and never call the journal. Everybody else looks at a fold inside View.
type Fold interface {
	// Apply takes one record of any type; most are none of a fold's business. One
	// that a fold cannot use is left out by it.
	Apply(Record)
	// Snapshot returns all that must not be forgotten, to be marshalled.
	Snapshot() any
	// Restore takes what Snapshot returned in an earlier life. It replaces all
	// that the fold has. An error is said to the person, and the section stays in
	// every later snapshot, as NAME.unusable.
	Restore(section json.RawMessage) error
}

// folds are the domains by the name of their section.
type folds struct {
	by map[string]Fold
	// unknown are the sections that nobody here takes, of domains that this program
	// does not have. They are handed on as they are.
	unknown map[string]json.RawMessage
}

func (f *folds) apply(r Record) {
	for _, fold := range f.by {
		fold.Apply(r)
	}
}

// restore hands a snapshot's sections out.
func (f *folds) restore(sections map[string]json.RawMessage, say func(string)) {
	f.unknown = map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		fold := f.by[name]
		if fold == nil {
			f.unknown[name] = sections[name]
			continue
		}
		if err := fold.Restore(sections[name]); err != nil {
			say(fmt.Sprintf("the journal's section %q cannot be used, and is kept as %[1]s.unusable: %v", name, err))
			f.unknown[name+".unusable"] = sections[name]
		}
	}
}

// sections is the content of a snapshot.
func (f *folds) sections() (map[string]json.RawMessage, error) {
	all := maps.Clone(f.unknown)
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	for name, fold := range f.by {
		b, err := json.Marshal(fold.Snapshot())
		if err != nil {
			return nil, fmt.Errorf("cannot make the journal's section %q: %w", name, err)
		}
		all[name] = b
	}
	return all, nil
}

// The types that are the journal's own.
const (
	// TypeSnapshot is the first record of each segment.
	TypeSnapshot = "snapshot"
	// TypeTransition is a Note of a change of a service's state.
	TypeTransition = "transition"
)

// snapshot is the body of a segment's first record.
type snapshot struct {
	Format   int    `json:"format"`
	Volume   string `json:"volume"`
	Segment  uint64 `json:"segment"`
	Previous uint64 `json:"previous,omitempty"` // the segment before; 0: none

	PreviousSeq uint64                     `json:"previous_seq,omitempty"` // the last record there; 0: none
	Sections    map[string]json.RawMessage `json:"sections"`
}
