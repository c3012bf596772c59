package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"
)

// Query says which records are wanted. The zero value is all of them.
type Query struct {
	Since, Until time.Time // zero: from the first, to the last
	Types        []string  // none: all but snapshots
	// Names are of services or profiles: records whose "service", "services",
	// "profile" or "profiles" has one of them, or "to" of a profile that was renamed.
	// none: all.
	Names  []string
	Last   *int   // of those that there are, the last so many; nil: all
	After  uint64 // records of higher numbers; with it a reader goes on where it was
	Follow bool   // go on with new records, until the context ends
	// CaughtUp is called whenever all that there is has been handed over; nil: not.
	CaughtUp func()
}

// offlinePause is the pause between two looks of a reader that follows a journal which
// another process writes.
const offlinePause = 300 * time.Millisecond

// Read hands the records that q wants to each, oldest first, also those of
// earlier boots. A record is valid until each returns; an error of each ends the
// reading, and so does the context, without one.
func (j *Journal) Read(ctx context.Context, q Query, each func(Record) error) error {
	r := reader{disk: j.writer.disk, query: q, each: each, until: j.until}
	return r.run(ctx)
}

// until tells up to where a segment is to be read (negative: to its end) and what
// is closed when that changes.
func (j *Journal) until(name string) (end int64, change <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if name == j.tail.name {
		return j.tail.end, j.change
	}
	return -1, j.change
}

// reader is one Read. It goes through the segments in order, and remembers where
// in the newest it is.
type reader struct {
	disk  disk
	query Query
	each  func(Record) error
	until func(name string) (int64, <-chan struct{})

	name string // of the segment that is read
	pos  int64  // up to where
	last uint64 // the number of the newest record seen
}

var errEnded = errors.New("the reader has ended")

func (r *reader) run(ctx context.Context) error {
	pass := r.pass
	if r.query.Last != nil {
		if pass = r.newest; r.query.Follow {
			pass = r.withheld
		}
	}
	for {
		_, change := r.until(r.name) // asked first, so that no change is missed
		err := pass(ctx)
		pass = r.pass
		if err == nil && r.query.CaughtUp != nil {
			r.query.CaughtUp()
		}
		switch {
		case ctx.Err() != nil || errors.Is(err, errEnded):
			return nil
		case err != nil || !r.query.Follow:
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-change:
		}
	}
}

// pass reads what there is: the rest of the segment that was read last, and
// those after it.
func (r *reader) pass(ctx context.Context) error {
	if r.name != "" {
		if err := r.segment(ctx, r.name, r.pos); err != nil {
			return err
		}
		if newer, err := r.newer(); err != nil || !newer {
			return err
		}
	}
	all, err := list(r.disk)
	if err != nil {
		return err
	}
	begin := 0
	for i, s := range all { // a reader that goes on need not read older segments again
		if head := headSeq(s); r.name == "" && head > 0 && head <= r.query.After {
			begin = i
		}
	}
	if i := slices.IndexFunc(all, func(s segment) bool { return s.name == r.name }); i >= 0 {
		begin = i + 1
	} else if r.name != "" && r.last > 0 { // it was retired: go on after the last record seen
		begin = slices.IndexFunc(all, func(s segment) bool { return headSeq(s) > r.last })
		if begin < 0 {
			begin = 0
		}
	}
	for _, s := range all[begin:] {
		if s.fault != nil {
			continue
		}
		if err := r.segment(ctx, s.name, 0); err != nil {
			return err
		}
	}
	return nil
}

// newer tells whether there is a segment after the one that was read last. It
// reads names alone: a reader that follows comes here at each change.
func (r *reader) newer() (bool, error) {
	names, err := r.disk.list()
	if err != nil {
		return false, err
	}
	read, _ := segmentNumber(r.name)
	return slices.ContainsFunc(names, func(name string) bool {
		number, ok := segmentNumber(name)
		return ok && number > read
	}), nil
}

// segment reads a segment from the byte pos on.
func (r *reader) segment(ctx context.Context, name string, pos int64) error {
	end, _ := r.until(name)
	if end >= 0 && pos >= end {
		return nil
	}
	f, err := r.disk.open(name, false)
	if notThere(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	found, err := scan(f, pos, end, func(rec Record, _ int64) error {
		if ctx.Err() != nil {
			return errEnded
		}
		// Records after a snapshot count from there: a writer that had lost the volume
		// may have used the same numbers.
		if rec.Type != TypeSnapshot && rec.Seq <= r.last {
			return nil
		}
		r.last = rec.Seq
		if !r.query.wants(rec) {
			return nil
		}
		return r.each(rec)
	})
	if errors.Is(err, io.EOF) {
		err = nil
	}
	r.name, r.pos = name, found.good
	return err
}

// wants tells whether the query is for a record.
func (q Query) wants(r Record) bool {
	switch {
	case r.Seq <= q.After,
		!q.Since.IsZero() && r.At.Before(q.Since),
		!q.Until.IsZero() && r.At.After(q.Until),
		len(q.Types) == 0 && r.Type == TypeSnapshot,
		len(q.Types) > 0 && !slices.Contains(q.Types, r.Type):
		return false
	}
	return len(q.Names) == 0 || r.names(q.Names)
}

// names tells whether a record is about one of the names.
func (r Record) names(wanted []string) bool {
	// Of thousands of records a few are: the others are not decoded to find that out.
	// No name of a service or profile has a character that JSON writes otherwise.
	if !slices.ContainsFunc(wanted, func(name string) bool { return bytes.Contains(r.Line, []byte(name)) }) {
		return false
	}
	var about struct {
		Service, Profile   string
		To                 string // of a profile: its new name; else another word
		Services, Profiles json.RawMessage
	}
	if r.Decode(&about) != nil {
		return false
	}
	if slices.Contains(wanted, about.Service) || slices.Contains(wanted, about.Profile) || about.Profile != "" && slices.Contains(wanted, about.To) {
		return true
	}
	for _, list := range []json.RawMessage{about.Services, about.Profiles} {
		var names []string
		var keyed map[string]json.RawMessage
		if json.Unmarshal(list, &names) != nil && json.Unmarshal(list, &keyed) == nil {
			for name := range keyed {
				names = append(names, name)
			}
		}
		if slices.ContainsFunc(names, func(name string) bool { return slices.Contains(wanted, name) }) {
			return true
		}
	}
	return false
}
