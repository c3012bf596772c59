package journal

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
)

// Format is the number of the format that this program writes, and the highest
// that it reads.
const Format = 1

// ErrNewer is a journal, or a volume, of a later program.
var ErrNewer = errors.New("it was written by a newer rlminit")

// plan is the outcome of a look at the segments. It is made
// by a pure function, planFor.
type plan struct {
	// base is the segment whose snapshot counts, and after it the ones without a
	// snapshot of their own that follow; -1: there is no whole snapshot.
	base  int
	after []int
	aside map[int]string // files kept aside, and why
	said  []string
	next  uint64 // a number that no segment has had

	missing []gap
	end     time.Time // of the last record in the segments so far that count; zero: none is known
}

// gap is the missing part of a segment: all of it, or its end.
type gap struct {
	name string // the segment's
	what string
}

// period is the time between two moments, for people.
func period(from, to time.Time) string {
	const form = "2006-01-02 15:04:05Z"
	switch {
	case from.IsZero() && to.IsZero():
		return "it is not known from when"
	case from.IsZero():
		return "until " + to.UTC().Format(form)
	case to.IsZero():
		return "since " + from.UTC().Format(form)
	}
	return "from " + from.UTC().Format(form) + " to " + to.UTC().Format(form)
}

// missed finds the gap before a segment, behind the one that counted last.
func (p *plan) missed(before, s segment) {
	h := s.head
	switch {
	case h.Previous > before.order():
		p.missing = append(p.missing, gap{segmentName(h.Previous), fmt.Sprintf("it is missing: of what happened %s not all is known", period(p.end, h.at))})
	case h.Previous == before.order() && before.end.seq > 0 && h.PreviousSeq > before.end.seq:
		p.missing = append(p.missing, gap{before.name, fmt.Sprintf("records %d to %d are missing at its end: of what happened %s not all is known", before.end.seq+1, h.PreviousSeq, period(p.end, h.at))})
	}
}

// missedNewest finds out that the newest segment is not there any more: begun is the
// number of the newest that was.
func (p *plan) missedNewest(begun uint64) {
	if begun < p.next {
		return
	}
	p.next = begun + 1
	p.missing = append(p.missing, gap{segmentName(begun), fmt.Sprintf("it is missing, and was the newest: of what happened %s nothing is known", period(p.end, time.Time{}))})
}

// planFor decides. The segments are sorted by list; volume is the id that the
// format file has, "" where there is none.
func planFor(all []segment, volume string) (plan, error) {
	p := plan{base: -1, aside: map[int]string{}, next: 1}
	if volume == "" {
		volume = newestVolume(all)
	}
	last := -1 // the segment before, of those that count
	for i, s := range all {
		p.next = max(p.next, s.number+1, s.order()+1)
		switch {
		case s.fault != nil:
			p.aside[i] = durable.Cause(s.fault)
			continue
		case s.head != nil && s.head.Format > Format:
			return p, fmt.Errorf("%s: %w: its format is %d, and this one knows %d", s.name, ErrNewer, s.head.Format, Format)
		case s.head != nil && s.head.Volume != volume:
			p.aside[i] = "it belongs to another volume"
			continue
		case last >= 0 && doubles(all[last], s):
			if all[last].size >= s.size {
				p.aside[i] = "it is a copy of " + all[last].name
				continue
			}
			p.aside[last] = "it is an older copy of " + s.name
			if p.base == last {
				p.base = -1 // s is the base then
			}
		}
		if s.head != nil && s.head.Segment != s.number {
			p.said = append(p.said, fmt.Sprintf("%s is segment %d by what it holds, and counts as that", s.name, s.head.Segment))
		}
		if last >= 0 && s.head != nil {
			p.missed(all[last], s)
		}
		if s.size == 0 {
			p.missing = append(p.missing, gap{s.name, fmt.Sprintf("it is empty, which no crash can do: of what happened %s not all is known", period(p.end, time.Time{}))})
		}
		if !s.end.at.IsZero() {
			p.end = s.end.at
		}
		last = i
		if s.head != nil {
			p.base, p.after = i, nil
		} else {
			p.after = append(p.after, i)
		}
	}
	return p, nil
}

// doubles tells whether two segments are one, copied.
func doubles(a, b segment) bool {
	return a.head != nil && b.head != nil && *a.head == *b.head
}

// newestVolume is the volume of the newest segment that says so.
func newestVolume(all []segment) string {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].head != nil {
			return all[i].head.Volume
		}
	}
	return ""
}

// isForeign tells whether err is about what somebody has put in a file's place,
// and not about the disk.
func isForeign(err error) bool {
	return errors.Is(err, durable.ErrNotRegular) || errors.Is(err, errAnothers) || errors.Is(err, unix.ELOOP) ||
		errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EISDIR)
}

// read are the segments that the state follows from, in order.
func (p plan) read() []int {
	if p.base < 0 {
		return p.after
	}
	return append([]int{p.base}, p.after...)
}
