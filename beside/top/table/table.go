// Package table is the list of services as a person looks at it: what they are like by
// the last snapshot, what they used before, which are shown and in which order, which are
// marked and which one the cursor is on.
//
// It is pure: time comes with a snapshot. It asks nobody and draws nothing.
package table

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"rlminit/beside/top/text"
	"rlminit/control"
	"rlminit/internal/natural"
)

// Snapshot is how all services are at a time.
type Snapshot struct {
	At       time.Time
	Box      string // its name; "": not known
	Services []control.Service
	Tiers    []control.Service // rlminit's own processes, as far as they can be seen
	Used     int64             // bytes that the container's cgroup is charged with; 0: not known
	Limit    int64             // bytes that it may have; 0: not known, or no limit
}

// Order is what rows are sorted by.
type Order int

// The orders, as the key s goes through them.
const (
	ByState Order = iota // what is ill first
	ByName
	ByCPU
	ByMemory
	ByRestarts
	BySince
	orders
)

// String is the word for an order, and which end of it comes first.
func (o Order) String() string {
	return [...]string{"state, ill first", "name", "CPU, most first", "memory, most first", "restarts, most first", "since, latest first"}[o]
}

// Table is the list. The zero Table is empty, and ready for use.
type Table struct {
	At    time.Time // of the last snapshot
	Tiers []Row     // rlminit's own processes

	rows   map[string]*Row // by the service's name
	tiers  map[string]*Row
	shown  []*Row // that the filter lets through, in order
	filter []string
	order  Order
	turned bool // the order is the other way round
	marked map[string]bool
	held   bool   // a person has moved the cursor: until then it is on the first row
	cursor string // the name of the service that it is on; "": none
	index  int    // of the cursor in shown
	widest int    // the columns that the longest name takes
}

// Set has the table be what a snapshot says. Marks of services that are gone are gone; a
// cursor whose service is gone, or is not shown, stays in its place.
func (t *Table) Set(s Snapshot) {
	t.At = s.At
	t.rows = updated(t.rows, s.Services, s.At)
	t.tiers = updated(t.tiers, s.Tiers, s.At)
	t.Tiers = t.Tiers[:0]
	for _, tier := range s.Tiers {
		t.Tiers = append(t.Tiers, *t.tiers[tier.Name])
	}
	for name := range t.marked {
		if t.rows[name] == nil {
			delete(t.marked, name)
		}
	}
	t.widest = 0
	for _, r := range t.rows {
		t.widest = max(t.widest, text.Width(r.Name))
	}
	t.arrange()
}

func updated(rows map[string]*Row, services []control.Service, at time.Time) map[string]*Row {
	now := make(map[string]*Row, len(services))
	for _, s := range services {
		r := rows[s.Name]
		if r == nil {
			r = &Row{}
		}
		r.update(s, at)
		now[s.Name] = r
	}
	return now
}

// arrange makes shown anew.
func (t *Table) arrange() {
	t.shown = t.shown[:0]
	for _, r := range t.rows {
		if r.matches(t.filter) {
			t.shown = append(t.shown, r)
		}
	}
	slices.SortFunc(t.shown, func(a, b *Row) int {
		c := t.order.compare(a, b)
		if t.turned {
			c = -c
		}
		return cmp.Or(c, natural.Compare(a.Name, b.Name), strings.Compare(a.Service.Name, b.Service.Name))
	})
	at := slices.IndexFunc(t.shown, func(r *Row) bool { return r.Service.Name == t.cursor })
	switch {
	case !t.held:
		t.index = 0
	case at >= 0:
		t.index = at
	}
	t.put(t.index)
}

// compare is below 0 if a comes before b.
func (o Order) compare(a, b *Row) int {
	switch o {
	case ByState:
		return cmp.Or(cmp.Compare(a.Service.Attention(), b.Service.Attention()), strings.Compare(a.State, b.State))
	case ByName:
		return natural.Compare(a.Name, b.Name)
	case ByCPU:
		return cmp.Compare(b.CPU, a.CPU)
	case ByMemory:
		return cmp.Compare(b.Memory, a.Memory)
	case ByRestarts:
		return cmp.Compare(b.Service.Restarts, a.Service.Restarts)
	}
	return when(b).Compare(when(a))
}

func when(r *Row) time.Time {
	if r.Service.Since == nil {
		return time.Time{}
	}
	return *r.Service.Since
}

// matches tells whether each word is in the name, the state, the kind, or the word
// outdated of one that is.
func (r *Row) matches(words []string) bool {
	for _, word := range words {
		kind := ""
		if r.Service.Kind != nil {
			kind = *r.Service.Kind
		}
		in := r.Name + " " + r.Service.Name + " " + r.State + " " + kind
		if r.Service.Outdated {
			in += " " + control.Outdated
		}
		if !strings.Contains(strings.ToLower(in), word) {
			return false
		}
	}
	return true
}

// Filter has only those be shown that have each of the words. Case does not count. A cursor
// whose service is not among them goes to the first.
func (t *Table) Filter(words string) {
	t.filter = strings.Fields(strings.ToLower(words))
	t.index = 0
	t.arrange()
}

// Sort goes on to the next order.
func (t *Table) Sort() {
	t.order, t.turned = (t.order+1)%orders, false
	t.arrange()
}

// Turn has the order be the other way round.
func (t *Table) Turn() {
	t.turned = !t.turned
	t.arrange()
}

// Order is what is sorted by, in words.
func (t *Table) Order() string {
	if t.turned {
		return t.order.String() + ", turned round"
	}
	return t.order.String()
}

// Sorted is what is sorted by, and whether that is turned round.
func (t *Table) Sorted() (Order, bool) { return t.order, t.turned }

// Shown are the rows that are shown, in their order: valid until the next change.
func (t *Table) Shown() []*Row { return t.shown }

// Widest is how many columns the longest name takes, shown or not.
func (t *Table) Widest() int { return t.widest }

// Len is how many services there are, shown or not.
func (t *Table) Len() int { return len(t.rows) }

// Row is that of a service; nil: it is gone.
func (t *Table) Row(service string) *Row { return t.rows[service] }

// Cursor is the row that the cursor is on, and its place among those shown; nil: none is
// shown.
func (t *Table) Cursor() (*Row, int) {
	if len(t.shown) == 0 {
		return nil, 0
	}
	return t.shown[t.index], t.index
}

// Move moves the cursor by so many rows, no further than to an end. From then on it stays
// on its service, wherever that goes.
func (t *Table) Move(by int) {
	t.held = true
	t.put(t.index + by)
}

func (t *Table) put(index int) {
	if t.index = max(0, min(index, len(t.shown)-1)); len(t.shown) > 0 {
		t.cursor = t.shown[t.index].Service.Name
	}
}
