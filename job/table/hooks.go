package table

import (
	"encoding/json"
	"fmt"
	"slices"

	"rlminit/job"
)

// The types of records about hooks. What they hold is below, with JSON's keys.
const (
	// TypeHooksSet are the hooks in force, and how far they have come.
	TypeHooksSet = "hooks_set"
	// TypeThreshold is a threshold that was crossed, or taken back.
	TypeThreshold = "threshold"
)

// TypeTransition is the journal's type of a change of a service's state.
const TypeTransition = "transition"

// HooksSet is all that is known of hooks, and takes the place of what was: hooks_set.
type HooksSet struct {
	Hooks   map[string]string `json:"hooks"`   // those in force, by name: a digest of each
	Through uint64            `json:"through"` // the number of the last record that they were told of, or that is not for them
	Crossed []Threshold       `json:"crossed"` // the thresholds that are
}

// Threshold is one that was crossed, or taken back: threshold.
type Threshold struct {
	Hook    string  `json:"hook"`
	Service string  `json:"service,omitempty"` // "": the container
	What    string  `json:"what"`              // memory, cpu, disk
	Percent float64 `json:"percent"`           // that was measured
	Limit   int     `json:"limit"`             // the threshold, per cent
	State   string  `json:"state"`             // crossed, back
	For     string  `json:"for"`               // how long it had to be so
}

// The states of a threshold.
const (
	Crossed = "crossed"
	Back    = "back"
)

// Key tells a threshold from every other.
func (t *Threshold) Key() string {
	key := fmt.Sprintf("%s %s %d%% %s", t.Hook, t.What, t.Limit, t.For)
	if t.Service != "" {
		key += " " + t.Service
	}
	return key
}

// Happened is a record that hooks may be told of.
type Happened struct {
	Seq  uint64          `json:"seq"`
	Line json.RawMessage `json:"line"`
}

// Hooked is what the records say of hooks. Of what happened in this boot it keeps, in
// Waiting, what they were not told of yet: what a hook is told is recorded with the job
// that tells it, before that begins, so that a supervisor that is killed anywhere has a
// successor that tells the rest, and nothing twice.
//
// Invariant: all in Waiting has a number above Through. Told are the hooks that were told
// of the record At; of those before it all were that are to be.
type Hooked struct {
	Boot    string               `json:"boot,omitempty"`
	Set     map[string]string    `json:"set,omitempty"`     // as HooksSet.Hooks; nil: nobody has said
	Crossed map[string]Threshold `json:"crossed,omitempty"` // by Key
	Through uint64               `json:"through,omitempty"`
	At      uint64               `json:"at,omitempty"`
	Told    []string             `json:"told,omitempty"`
	Waiting []Happened           `json:"waiting,omitempty"`
	Missed  int                  `json:"missed,omitempty"` // that were dropped, for too many waited
}

// mostWaiting bounds what is kept for hooks that do not follow.
const mostWaiting = 4096

// apply takes a record that is about hooks, or that they may be told of.
func (h *Hooked) apply(r Record) {
	switch r.Type {
	case TypeHooksSet:
		with(r, func(s *HooksSet) { h.set(r, s) })
	case TypeThreshold:
		with(r, func(t *Threshold) {
			switch key := t.Key(); {
			case h.Boot != r.Boot || t.State != Crossed:
				delete(h.Crossed, key)
			case h.Crossed == nil: // of a snapshot
				h.Crossed = map[string]Threshold{key: *t}
			default:
				h.Crossed[key] = *t
			}
		})
		h.wait(r)
	case TypeTransition:
		h.wait(r)
	case TypeFailed:
		with(r, func(e *Ended) {
			if e.Amiss() {
				h.wait(r)
			}
		})
	}
}

// set replaces what is known. What was recorded by an earlier start of the container is
// over: nothing of it is told any more.
func (h *Hooked) set(r Record, s *HooksSet) {
	if r.Boot != h.Boot || h.Set == nil {
		*h = Hooked{Boot: r.Boot}
	}
	h.Set, h.Crossed = s.Hooks, map[string]Threshold{}
	if h.Set == nil {
		h.Set = map[string]string{}
	}
	for _, t := range s.Crossed {
		h.Crossed[t.Key()] = t
	}
	h.through(s.Through)
}

// through notes that all up to a record is dealt with.
func (h *Hooked) through(seq uint64) {
	h.Through = max(h.Through, seq)
	h.Waiting = slices.DeleteFunc(h.Waiting, func(w Happened) bool { return w.Seq <= h.Through })
}

// wait keeps a record, as long as there are hooks.
func (h *Hooked) wait(r Record) {
	if r.Boot != h.Boot || len(h.Set) == 0 {
		return
	}
	if len(h.Waiting) >= mostWaiting {
		h.Missed++
		h.Waiting = h.Waiting[1:]
	}
	h.Waiting = append(h.Waiting, Happened{r.Seq, slices.Clone(r.Line)})
}

// told notes that a hook is told of a record, by a job: all before that was told.
func (h *Hooked) told(r Record, s *Submitted) {
	if r.Boot != h.Boot || s.Event == 0 || s.Event <= h.Through {
		return
	}
	if s.Event > h.At {
		h.At, h.Told = s.Event, nil
	}
	if s.Event == h.At {
		h.Told = append(h.Told, s.Hook)
	}
	h.through(s.Event - 1)
}

// Next are the records after one that hooks may be told of, the oldest first.
func (h *Hooked) Next(after uint64) []Happened {
	i := slices.IndexFunc(h.Waiting, func(w Happened) bool { return w.Seq > after })
	if i < 0 {
		return nil
	}
	return slices.Clone(h.Waiting[i:])
}

// ToldOf are the hooks that were told of a record; all: whichever are to be, were. A job of
// a predecessor that is taken over may have told of a later one meanwhile.
func (h *Hooked) ToldOf(seq uint64) (names []string, all bool) {
	if seq == h.At {
		names = slices.Clone(h.Told)
	}
	return names, seq <= h.Through
}

// KnownIn tells whether what is known is of a start of the container.
func (h *Hooked) KnownIn(boot string) bool { return h.Set != nil && h.Boot == boot }

// Amiss tells whether a job has ended otherwise than it should, and not because somebody
// wanted that, or a guard. That of a hook tells nobody: it would trigger itself.
func (e *Ended) Amiss() bool {
	return e.Kind != KindHook && (e.State == job.Failed || e.State == job.TimedOut || e.State == job.Interrupted)
}

// KindHook is the kind of a hook's job.
const KindHook = "hook"
