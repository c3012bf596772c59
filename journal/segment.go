package journal

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	segmentSuffix = ".jsonl"
	segmentDigits = 8
	// segmentsKept is how many segments stay, the one that is written included.
	segmentsKept = 5
	// asideKept is how many of those stay that were kept aside.
	asideKept = 5
)

// segmentName is the file of a segment: its number, so that names sort by age.
func segmentName(number uint64) string {
	return fmt.Sprintf("%0*d%s", segmentDigits, number, segmentSuffix)
}

// segmentNumber is the opposite; ok is false for a name that is no segment's.
func segmentNumber(name string) (number uint64, ok bool) {
	digits, found := strings.CutSuffix(name, segmentSuffix)
	if !found || len(digits) < segmentDigits || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil
}

// asideMark is in the name of a segment that is kept aside, after its own.
const asideMark = segmentSuffix + ".aside-"

// segment is a file of the journal's directory, as a look at its first line
// shows it.
type segment struct {
	name   string
	number uint64 // of its name
	size   int64
	head   *head // nil: its first line is no whole snapshot
	fault  error // it is no file of ours
	end    mark  // its last good record, where lookAtEnds has looked
}

// mark is a moment in the journal: a record, by its number, and its time.
type mark struct {
	seq uint64 // 0: not known
	at  time.Time
}

// head is a snapshot's record, less its sections.
type head struct {
	Format   int    `json:"format"`
	Volume   string `json:"volume"`
	Segment  uint64 `json:"segment"`
	Previous uint64 `json:"previous"`
	// PreviousSeq is the number of the last record of that one; 0: it is not said.
	PreviousSeq uint64 `json:"previous_seq"`
	seq         uint64
	boot        string
	at          time.Time
}

// order is the segment's place in time. What a file is called may have been
// changed by hand; its first record is covered by a checksum.
func (s segment) order() uint64 {
	if s.head != nil {
		return s.head.Segment
	}
	return s.number
}

// list finds the segments of a directory, by name.
func list(d disk) ([]segment, error) {
	names, err := d.list()
	if err != nil {
		return nil, err
	}
	var all []segment
	for _, name := range names {
		number, ok := segmentNumber(name)
		if !ok {
			continue
		}
		s := segment{name: name, number: number}
		if err := s.look(d); err != nil {
			return nil, err
		}
		if s.size >= 0 {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b segment) int {
		return cmp.Or(cmp.Compare(a.order(), b.order()), cmp.Compare(headSeq(a), headSeq(b)), cmp.Compare(a.name, b.name))
	})
	return all, nil
}

func headSeq(s segment) uint64 {
	if s.head == nil {
		return 0
	}
	return s.head.seq
}

// look reads the first line. A file that went away meanwhile gets the size -1.
// An error is one of reading, which says nothing about the file.
func (s *segment) look(d disk) error {
	f, err := d.open(s.name, false)
	switch {
	case notThere(err):
		s.size = -1
		return nil
	case isForeign(err):
		s.fault = err
		return nil
	case err != nil:
		return err
	}
	defer f.Close()
	if s.size, err = f.size(); err != nil {
		return err
	}
	r, err := firstRecord(f)
	if err != nil || r == nil {
		return err
	}
	var h head
	if r.Decode(&h) != nil || r.Type != TypeSnapshot {
		return nil
	}
	h.seq, h.boot, h.at = r.Seq, r.Boot, r.At
	s.head = &h
	return nil
}

// lookAtEnds reads the last record of each segment. One that cannot be read now stays
// unknown.
func lookAtEnds(d disk, all []segment) {
	one, buf := 1, make([]byte, block)
	for i := range all {
		last := newest{query: Query{Last: &one}, anything: true, buf: buf}
		if all[i].fault == nil && last.segment(d, all[i].name, -1) == nil && len(last.found) > 0 {
			all[i].end = mark{last.found[0].Seq, last.found[0].At}
		}
	}
}

// newestPrefix begins the name of an empty file. The rest of its name is the number of the
// newest segment. No later segment names that one, so this file shows when it is gone.
const newestPrefix = "newest-"

// newestBegun is the number in that file's name; 0 if there is no such file. It may be
// lower than that of the newest segment: a writer can be killed before it makes the file.
func newestBegun(d disk) (number uint64) {
	names, err := d.list()
	if err != nil {
		return 0
	}
	for _, name := range names {
		if digits, ok := strings.CutPrefix(name, newestPrefix); ok {
			n, _ := strconv.ParseUint(digits, 10, 64)
			number = max(number, n)
		}
	}
	return number
}

var errEnough = errors.New("enough was read")

// firstRecord returns the record in a segment's first line, or nil where that is
// damaged.
func firstRecord(f file) (*Record, error) {
	var first *Record
	_, err := scan(f, 0, -1, func(r Record, at int64) error {
		if at == 0 {
			r.Line = slices.Clone(r.Line)
			first = &r
		}
		return errEnough
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return first, nil
}

// sectionsOf reads the snapshot at a segment's begin.
func sectionsOf(f file) (map[string]json.RawMessage, error) {
	r, err := firstRecord(f)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, io.ErrUnexpectedEOF
	}
	var s snapshot
	if err := r.Decode(&s); err != nil {
		return nil, err
	}
	return s.Sections, nil
}
