// Package live has what pages show as it changes: one stream of events from the
// supervisor, whatever the number of tabs that are open, and none while there is no tab.
//
// One goroutine, Hub.Run, owns the tabs, the copy of all services and what was measured of
// them. What has to be asked of the supervisor is asked by others, which put the answer
// into the owner's mailbox. What a view shows is rendered once for all tabs that show
// it.
//
// It never waits for a browser: a tab that does not read is let go, and comes back by
// itself with the number of the last event that it has seen. It never changes anything.
package live

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"rlminit/control"
)

// View is one page as far as it changes. Its methods are called by several goroutines,
// and may ask the supervisor.
type View interface {
	// Key tells one view from another: tabs with the same key are sent the same.
	Key() string
	// Full is everything on the page that changes, as fragments of HTML.
	Full(ctx context.Context, now *State) ([]byte, error)
	// Changed is what a batch changes of it; nil: nothing.
	Changed(ctx context.Context, now *State, b Batch) ([]byte, error)
}

// Batch is what has happened within some milliseconds.
type Batch struct {
	Events []control.Event
	// Touched are the names of the services that may be another now, or be gone.
	Touched map[string]bool
	// Tick: this batch comes with time alone, some seconds after the one before.
	Tick bool
	// Measured: there are new figures of memory and CPU.
	Measured bool
}

// Any tells whether a record of one of these types is among the events. One that ends
// with * stands for all that begin so.
func (b Batch) Any(types ...string) bool {
	for _, e := range b.Events {
		for _, t := range types {
			if n := len(t) - 1; e.Type == t || t[n] == '*' && len(e.Type) >= n && e.Type[:n] == t[:n] {
				return true
			}
		}
	}
	return false
}

func (b *Batch) add(other Batch) {
	b.Events = append(b.Events, other.Events...)
	for name := range other.Touched {
		if b.Touched == nil {
			b.Touched = map[string]bool{}
		}
		b.Touched[name] = true
	}
	b.Tick = b.Tick || other.Tick
	b.Measured = b.Measured || other.Measured
}

func (b Batch) empty() bool {
	return len(b.Events) == 0 && len(b.Touched) == 0 && !b.Tick && !b.Measured
}

// Position is the last event that somebody has seen: its number, and in which start of
// the container, for without a volume numbers begin anew.
type Position struct {
	Boot string
	Seq  uint64
}

// String is a position as the id of a server-sent event.
func (p Position) String() string { return p.Boot + "." + strconv.FormatUint(p.Seq, 10) }

// ParsePosition reads one; false: it is none.
func ParsePosition(s string) (Position, bool) {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '.' {
			seq, err := strconv.ParseUint(s[i+1:], 10, 64)
			return Position{Boot: s[:i], Seq: seq}, err == nil && len(s) < 100
		}
	}
	return Position{}, false
}

// State is how everything was at a moment. It is not changed: the next moment has
// another one.
type State struct {
	At       Position
	Services []control.Service // in the order of their names
	byName   map[string]int
	samples  map[string][]Sample
}

// Service is one of them by its name.
func (s *State) Service(name string) (control.Service, bool) {
	i, ok := s.byName[name]
	if !ok {
		return control.Service{}, false
	}
	return s.Services[i], true
}

// Samples are what was measured of a service, the oldest first.
func (s *State) Samples(name string) []Sample { return s.samples[name] }

// Sample is what a service used at a moment.
type Sample struct {
	At     time.Time
	Memory int64   // bytes that are resident
	CPU    float64 // per cent of one processor, since the sample before; negative: not known
}

// Message is one server-sent event.
type Message struct {
	Event string // swap, usage, link
	ID    string // "": it has none
	Data  []byte
}

// The events that a tab is sent.
const (
	Swap  = "swap"  // fragments of HTML
	Usage = "usage" // JSON: {"name": [memory in bytes, CPU in per cent]}
	Link  = "link"  // JSON: "" while the supervisor answers, and otherwise why not
)

func linkMessage(why string) Message {
	text, _ := json.Marshal(why) // of a string it cannot fail
	return Message{Event: Link, Data: text}
}
