package handover

import (
	"errors"
	"strconv"
	"sync"
)

// Tags is which service or job has which tag, a supplementary group of its own. They are
// rows of what a successor is to know, for a tag decides who may command: that must not be
// learnt from a file that a service can write, as a status is. The zero value gives no
// tags: the container cannot, or is not to. Anybody may call it.
type Tags struct {
	mu        sync.Mutex
	table     *Table
	low, high uint32            // what may be given, both included; 0: nothing
	owner     map[uint32]string // Invariant: each has a row with its name
	left      map[string]uint32 // a predecessor's, by name, until their services claim them
	last      uint32            // that was given
}

// ErrNoTag parks a service until a tag comes free. Run without one, it would be
// taken for somebody who may command.
var ErrNoTag = errors.New("all tags are in use; set tags to a wider range, or remove services")

const tagsUnder = "tag/"

// OpenTags takes over who has the tags low to high.
func OpenTags(low, high uint32, table *Table) *Tags {
	t := &Tags{table: table, low: low, high: high, owner: map[uint32]string{}, left: map[string]uint32{}}
	if low == 0 {
		return t
	}
	for number, name := range table.Under(tagsUnder) {
		if tag, err := strconv.ParseUint(number, 10, 32); err == nil {
			t.left[string(name)] = uint32(tag)
		}
	}
	return t
}

func rowOf(tag uint32) string { return tagsUnder + strconv.FormatUint(uint64(tag), 10) }

// Owner is the name of the service that has a tag; "" if none has.
func (t *Tags) Owner(tag uint32) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owner[tag]
}

// Allot gives a service the tag that it has had so far, or a free one: the next
// after the last that was given, for tier 1 may still know a tag just freed as
// another's. The tag is 0 where there are none to give; ErrNoTag: all are taken.
func (t *Tags) Allot(name string) (tag uint32, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.low == 0 {
		return 0, nil
	}
	if tag, had := t.left[name]; had {
		delete(t.left, name)
		t.owner[tag] = name
		return tag, nil
	}
	taken := map[uint32]bool{}
	for _, tag := range t.left {
		taken[tag] = true
	}
	for range t.high - t.low + 1 {
		if t.last++; t.last < t.low || t.last > t.high {
			t.last = t.low
		}
		if t.owner[t.last] == "" && !taken[t.last] {
			if t.table.Put(rowOf(t.last), []byte(name)) != nil {
				return 0, ErrNoTag
			}
			t.owner[t.last] = name
			return t.last, nil
		}
	}
	return 0, ErrNoTag
}

// Free takes a tag back; 0 is none.
func (t *Tags) Free(tag uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if tag == 0 {
		return
	}
	delete(t.owner, tag)
	_ = t.table.Delete(rowOf(tag)) // or it stays with a service of that name
}

// FreeRest takes back the tags whose services are no more.
func (t *Tags) FreeRest() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tag := range t.left {
		_ = t.table.Delete(rowOf(tag))
	}
	clear(t.left)
}
