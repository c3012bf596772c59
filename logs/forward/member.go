package forward

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"rlminit/logs"
)

// member is a log that is sent on.
type member struct {
	name  string
	rings atomic.Bool                 // it has grown, and the destination will look
	of    atomic.Pointer[destination] // nil: none has it

	unsent atomic.Uint64 // lines that the receiver does not have, for all that is known

	target Target // where it is to go: the Forwarder's
	moving bool   // it is on its way from one destination to another: the same

	// What follows is the destination's that has it.
	source  logs.Source
	profile string
	lines   *logs.Lines
	files   int       // of lines.Files: the file that was looked at, for it may be empty when it is opened
	next    cursor    // of the line that is read next
	done    cursor    // what is before it the receiver has. Invariant: next, if nothing is on its way
	due     bool      // there are lines to be read, for all that is known
	since   time.Time // it is due
	grown   bool      // it may have more since it was counted
	leaving bool      // its service is gone: it goes when all of it was sent
	ahead   *ahead    // nil: nothing was read ahead
	missing missing
	faulty  bool     // it could not be read the last time
	begun   []cursor // the files with lines that were sent, and may be sent again: see store.begun
}

// ring is told by the collector that the log has grown.
func (m *member) ring() {
	if m.rings.Load() || m.rings.Swap(true) {
		return
	}
	if d := m.of.Load(); d != nil {
		d.bell.ring(m)
	}
}

// back has all sent again that the receiver may not have.
func (m *member) back(feed *logs.Feed) {
	m.lines.Rest()
	m.next = m.done
	m.begin(feed)
}

// begin has lines read from the place of the next one.
func (m *member) begin(feed *logs.Feed) {
	m.lines, m.files = feed.Lines(m.source, m.next.Place), 0
}

// tell has others see how many lines the receiver does not have.
func (m *member) tell() {
	seen := m.next
	if m.ahead != nil && m.ahead.cursor.Seq > seen.Seq {
		seen = m.ahead.cursor
	}
	m.unsent.Store(seen.lines() - m.done.lines())
}

// read is the next line, with its number; false: there is none.
func (m *member) read(e *entry) bool {
	line, err := m.lines.Next()
	if err != nil && !m.faulty {
		slog.Warn("cannot read a log that is sent on", "service", m.name, "err", err)
	}
	if m.faulty = err != nil; line == nil {
		return false
	}
	if gone, files := m.lines.Gone(), m.lines.Files(); gone || files != m.files {
		m.files = files
		m.skip(gone)
		e.entered = m.enter()
	}
	e.Parts = logs.Split(line)
	if e.Time == nil {
		e.Time = time.Now().UTC().AppendFormat(nil, "2006-01-02T15:04:05.000000Z")
	}
	if e.Stream == "rlminit" && bytes.HasPrefix(e.Text, []byte("starting ")) {
		m.next.Run++
	}
	e.run, e.seq = m.next.Run, m.next.Seq
	m.next.Seq++
	return true
}

// skip leaves room in the numbers for the lines that were removed before they were sent,
// where it goes on in another file. gone tells that some may have been. The count
// ahead is dropped when it does not know where this file begins.
func (m *member) skip(gone bool) {
	if m.again() {
		return
	}
	first, known := m.next, false
	if m.ahead != nil {
		first, known = m.ahead.first[fileOf(m.lines)]
	}
	counted := m.ahead
	switch {
	case known && first.Seq == m.next.Seq, !known && !gone:
		return // all of the file before was read
	case known && first.Seq > m.next.Seq:
	case counted != nil && counted.cursor.Seq > m.next.Seq:
		first, known, m.ahead = counted.cursor, false, nil
	default:
		first, known, m.ahead = m.next, false, nil
		first.jump()
	}
	lines := first.lines() - m.next.lines()
	m.missing.lines += lines
	m.missing.exact = known && !counted.missed && (m.missing.exact || !m.missing.some)
	m.missing.some = true
	m.next.Seq, m.next.none = first.Seq, first.none+lines
	if m.ahead != nil {
		m.ahead.gone(lines)
	}
}

// again goes on with the numbers that the lines of this file were sent with before, if they
// were. Which of those before it the receiver has is not known.
func (m *member) again() bool {
	was := m.next.Seq
	if !m.next.again(m.begun, m.lines) {
		return false
	}
	if m.next.Seq != was {
		m.ahead = nil
	}
	if m.next.Seq > was {
		m.missing.some, m.missing.exact = true, false
	}
	return true
}

// again goes on at the number of the first line of a file of those that were begun.
func (c *cursor) again(begun []cursor, lines *logs.Lines) bool {
	for _, b := range slices.Backward(begun) {
		if lines.In(b.Place) {
			c.none += b.Seq - c.Seq
			c.Seq, c.Run = b.Seq, b.Run
			return true
		}
	}
	return false
}

// enter notes the number of a file's first line, which was read.
func (m *member) enter() bool {
	c := m.next
	c.Place = m.lines.Start()
	if c.unnamed() || slices.ContainsFunc(m.begun, func(b cursor) bool { return b.Seq == c.Seq && b.Place.Inode == c.Place.Inode }) {
		return false
	}
	m.begun = remember(m.begun, c, m.done.Seq)
	return true
}

// jump goes on with numbers that no line has had: it is not known which the last one had.
func (c *cursor) jump() {
	to := max(c.Seq, uint64(time.Now().UnixMicro()))
	c.none += to - c.Seq
	c.Seq = to
}

// unnamed tells whether it is a cursor of a log with files, and names none of them.
func (c *cursor) unnamed() bool { return c.Dir != "" && c.Place.Inode == 0 }

// begin has it name the file of the first line, if there is one.
func (c *cursor) begin(lines *logs.Lines) bool {
	defer lines.Rest()
	if line, _ := lines.Next(); line == nil {
		return false
	}
	c.Place = lines.Start()
	return !c.unnamed()
}

// lines is how many lines there have been for the numbers up to here, less those that are
// known to be removed. Differences between cursors of one process have a meaning.
func (c *cursor) lines() uint64 { return c.Seq - c.none }

// missing is what was removed before it was sent, and not said yet.
type missing struct {
	lines uint64
	exact bool // no more than those
	some  bool
	said  time.Time
}

// sayEvery is how often it is said of one log at most, unless all else of it was sent.
const sayEvery = 10 * time.Second

// say says what is missing.
func (m *member) say(to string) {
	if !m.missing.some || m.due && time.Since(m.missing.said) < sayEvery {
		return
	}
	count := fmt.Sprintf("%d lines", m.missing.lines)
	switch {
	case !m.missing.exact && m.missing.lines == 0:
		count = "lines, and it is not known how many,"
	case !m.missing.exact:
		count = "at least " + count
	}
	slog.Warn(count+" were rotated away before "+to+" took them", "service", m.name)
	m.missing = missing{said: time.Now()}
}

// ahead counts lines that cannot be sent yet, so that it is known how many they were if
// they are removed.
type ahead struct {
	lines  *logs.Lines
	files  int // as a member's
	cursor cursor
	first  map[file]cursor // a file's first line has its number
	missed bool            // some were removed before they were counted
}

// file tells a file from others: an inode is used again.
type file struct{ inode, head uint64 }

// fileOf is the one of which the first line was read.
func fileOf(l *logs.Lines) file {
	at := l.Position()
	return file{at.Inode, at.Head}
}

// gone notes that so many of the lines that were counted are not there any more.
func (a *ahead) gone(lines uint64) {
	a.cursor.none += lines
	for f, c := range a.first {
		c.none += lines
		a.first[f] = c
	}
}

// mostFiles is of how many files the numbers are kept.
const mostFiles = 10_000

// count reads ahead as far as there are lines.
func (m *member) count(feed *logs.Feed) {
	if m.grown = false; m.source.Dir == "" {
		return
	}
	a := m.ahead
	if a == nil {
		a = &ahead{lines: feed.Lines(m.source, m.next.Place), cursor: m.next, first: map[file]cursor{}}
		m.ahead = a
	}
	for {
		line, err := a.lines.Next()
		if err != nil || line == nil {
			break
		}
		gone, now := a.lines.Gone(), a.lines.Files()
		a.missed = a.missed || gone
		if (gone || now != a.files) && !a.cursor.again(m.begun, a.lines) && gone {
			a.cursor.jump()
		}
		if now != a.files && len(a.first) < mostFiles {
			a.first[fileOf(a.lines)] = a.cursor
		}
		a.files = now
		a.cursor.Seq++
	}
	a.lines.Rest()
	m.tell()
}

// atEnd notes that all was read.
func (m *member) atEnd() { m.due, m.ahead = false, nil }
