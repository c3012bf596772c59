package journal

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
)

// block is how much of a segment is read at a time from its end.
const block = 64 << 10

// newest collects the last records that a query is for. It reads each segment from its
// end, and none that it needs not: of 50 MB of records the last ten are as near as of
// ten.
type newest struct {
	query Query
	names [][]byte // without one of these a record is not wanted; none: whatever is in it
	found []Record // the newest first

	anything bool // snapshots are wanted too
	buf      []byte
}

// newest hands over the last records that the query is for.
func (r *reader) newest(ctx context.Context) error {
	all, err := list(r.disk)
	if err != nil {
		return err
	}
	n := newest{query: r.query, buf: make([]byte, block)}
	for _, name := range r.query.Names { // that of a gateway has its profile's in it
		if !slices.ContainsFunc(r.query.Names, func(other string) bool { return other != name && strings.Contains(name, other) }) {
			n.names = append(n.names, []byte(name))
		}
	}
	for _, s := range slices.Backward(all) {
		if s.fault == nil && n.wantsMore() && ctx.Err() == nil {
			end, _ := r.until(s.name)
			if err := n.segment(r.disk, s.name, end); err != nil {
				return err
			}
		}
	}
	for _, rec := range slices.Backward(n.found) {
		if err := r.each(rec); err != nil {
			return err
		}
	}
	return nil
}

func (n *newest) wantsMore() bool { return len(n.found) < *n.query.Last }

// segment adds the wanted part of a segment, which is to be read up to end (negative: to
// its own).
func (n *newest) segment(d disk, name string, end int64) error {
	f, err := d.open(name, false)
	if notThere(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if end < 0 {
		if end, err = f.size(); err != nil {
			return err
		}
	}
	before := uint64(1<<64 - 1) // a number that comes again is a repetition
	for end > 0 && n.wantsMore() {
		var text []byte
		if text, end, err = n.linesBefore(f, end); err != nil {
			return err
		}
		for _, line := range slices.Backward(n.likely(text)) {
			rec, bad := parseRecord(line)
			if bad == nil && rec.Seq < before && n.wantsMore() && (n.anything || n.query.wants(rec)) {
				before, rec.Line = rec.Seq, bytes.Clone(line)
				n.found = append(n.found, rec)
			}
		}
	}
	return nil
}

// linesBefore reads some whole lines that end at a byte of f, and tells where they
// begin.
func (n *newest) linesBefore(f io.ReaderAt, end int64) (text []byte, begin int64, err error) {
	for {
		text = n.buf[:min(end, int64(len(n.buf)))]
		if got, err := f.ReadAt(text, end-int64(len(text))); got < len(text) {
			return nil, 0, err
		}
		if int64(len(text)) == end {
			return text, 0, nil
		}
		if first := bytes.IndexByte(text[:len(text)-1], '\n'); first >= 0 { // the text before may have begun earlier
			text = text[first+1:]
			return text, end - int64(len(text)), nil
		}
		if len(n.buf) > maxSnapshot {
			return nil, 0, nil // it is damaged: no record is that long
		}
		n.buf = make([]byte, 2*len(n.buf))
	}
}

// likely are the lines of a text that may be wanted.
func (n *newest) likely(text []byte) (lines [][]byte) {
	if !n.may(text) {
		return nil
	}
	for line := range bytes.Lines(text) {
		if n.may(line) {
			lines = append(lines, bytes.TrimSuffix(line, []byte{'\n'}))
		}
	}
	return lines
}

// may tells whether a name that is wanted stands in a text.
func (n *newest) may(text []byte) bool {
	return len(n.names) == 0 || slices.ContainsFunc(n.names, func(name []byte) bool { return bytes.Contains(text, name) })
}

// withheld is the first pass of a reader that follows: it goes through everything, to
// know where that ends, and hands over the last of it.
func (r *reader) withheld(ctx context.Context) error {
	var last []Record
	each := r.each
	r.each = func(rec Record) error {
		rec.Line = bytes.Clone(rec.Line)
		last = append(last, rec)
		last = last[max(0, len(last)-*r.query.Last):]
		return nil
	}
	err := r.pass(ctx)
	r.each = each
	for _, rec := range last {
		if err == nil {
			err = each(rec)
		}
	}
	return err
}
