package forward

import (
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"rlminit/internal/inbox"
	"rlminit/logs"
	"rlminit/service"
)

// destination sends the lines of its members to one receiver. What it has is its
// goroutine's, but for what says otherwise.
type destination struct {
	inbox.Work
	to     string
	format service.ForwardFormat
	given  *given
	bell   bell

	members map[*member]bool
	due     []*member
	batch   batch
	sending bool // the batch is on its way; nobody changes it, nor closes the link
	flow    flow

	link       link // nil: there is none
	connecting bool
	failed     int           // attempts in a row that came to nothing
	retrying   bool          // a timer connects again
	counting   bool          // a timer counts what cannot be sent
	counted    time.Duration // how long that took the last time
	state      State         // as others see it
	ending     []func()      // called when there is nothing to be sent any more, or nowhere
}

// given is what all destinations share.
type given struct {
	feed   *logs.Feed
	host   string
	stdout int                             // the container's; -1: none
	sent   func(m *member, c cursor)       // m was sent up to there
	left   func(m *member, c cursor)       // m's service is gone, and all of it was sent
	begun  func(m *member, d *destination) // m has lines, its cursor names no file, and d has given it back
	shown  func(d *destination, now State) // what d is like has changed
	// entered notes which numbers the first lines of files have that are about to be sent.
	entered func([]entered)
}

// bell is how members are heard. Its fields are under mu.
type bell struct {
	mu    sync.Mutex
	rung  []*member
	heard func() // has the destination look; called where nobody has rung
}

func (b *bell) ring(m *member) {
	b.mu.Lock()
	b.rung = append(b.rung, m)
	first := len(b.rung) == 1
	b.mu.Unlock()
	if first {
		b.heard()
	}
}

// take are those that have rung since.
func (b *bell) take() []*member {
	b.mu.Lock()
	defer b.mu.Unlock()
	rung := b.rung
	b.rung = nil
	return rung
}

func newDestination(to string, format service.ForwardFormat, given *given) *destination {
	d := &destination{Work: inbox.NewWork(), to: to, format: format, given: given, members: map[*member]bool{}}
	d.state = State{To: to, Format: string(format)}
	d.bell.heard = func() { d.Do(d.hear) }
	go d.Run()
	return d
}

// add takes a log over, at a place.
func (d *destination) add(m *member, t Target, at cursor) {
	m.source, m.profile = logs.Source{Name: m.name, Dir: t.Dir}, t.Profile
	m.next, m.done, m.leaving = at, at, false
	m.begin(d.given.feed)
	d.members[m] = true
	m.of.Store(d)
	m.rings.Store(false) // who rang for nobody is looked at now
	d.mark(m)
	d.proceed()
}

// drop lets go of a log, and returns how far it was sent.
func (d *destination) drop(m *member) cursor {
	m.of.Store(nil)
	delete(d.members, m)
	d.due = without(d.due, m)
	d.flow.forget(m)
	m.atEnd()
	m.lines.Rest()
	return m.done
}

// leave has a log that is nobody's any more go when it was sent, if it can be.
func (d *destination) leave(m *member) {
	m.leaving = true
	d.mayGo(m)
}

// mayGo lets go of one that leaves, if the receiver has all of it, or takes nothing.
func (d *destination) mayGo(m *member) {
	if m.leaving && d.members[m] && (!m.due && m.next == m.done || d.state.Down != "") {
		d.given.left(m, d.drop(m))
	}
}

// hear looks at who has rung.
func (d *destination) hear() {
	for _, m := range d.bell.take() {
		m.rings.Store(false)
		if d.members[m] {
			d.mark(m)
		}
	}
	d.proceed()
}

// mark notes that a log may have lines.
func (d *destination) mark(m *member) {
	m.grown = true
	switch {
	case m.due:
	case m.next.unnamed():
		d.begin(m)
	default:
		d.await(m)
	}
}

// begin gives a log back whose first line is there, so that its cursor is written before
// that is sent.
func (d *destination) begin(m *member) {
	line, _ := m.lines.Next()
	switch {
	case line == nil:
		m.lines.Rest()
	case m.lines.Start().Inode == 0: // in memory, for there is no file: it is not written
		m.lines.Rest()
		m.begin(d.given.feed)
		d.await(m)
	default:
		d.drop(m)
		d.given.begun(m, d)
	}
}

// await has a log wait for its turn.
func (d *destination) await(m *member) {
	m.due, m.since = true, time.Now()
	d.due = append(d.due, m)
}

// proceed does what is next: it connects, or sends.
func (d *destination) proceed() {
	switch {
	case d.sending || d.connecting || len(d.due) == 0 && len(d.ending) == 0:
	case len(d.due) == 0:
		d.end()
		return
	case d.link == nil:
		d.connect()
	case d.flow.full():
	default:
		d.fill()
		if len(d.batch.text) > 0 {
			d.send()
		} else {
			d.proceed() // for there was nothing to be read, and nobody is due
		}
		return
	}
	d.countLater()
}

// end tells who waits for it.
func (d *destination) end() {
	for _, done := range d.ending {
		done()
	}
	d.ending = nil
}

// Lines that cannot be sent yet are counted soon, for a rotation may remove them: where there
// is no link, or a batch is on its way for so long, or a log has had some for longer than
// late; at most every countEvery, and for half of the time.
const (
	late       = 50 * time.Millisecond
	countEvery = 20 * time.Millisecond
)

// countLater has those counted that wait.
func (d *destination) countLater() {
	if d.counting || len(d.due) == 0 {
		return
	}
	d.counting = true
	time.AfterFunc(max(d.counted, countEvery), func() {
		d.Do(func() {
			d.counting = false
			d.count()
		})
	})
}

// count counts what has come since it was counted last.
func (d *destination) count() {
	began, again := time.Now(), false
	stuck := d.link == nil || d.sending && time.Since(d.flow.last) >= countEvery
	for _, m := range d.due {
		switch {
		case !m.grown:
		case !stuck && time.Since(m.since) < late:
			again = true
		default:
			m.count(d.given.feed)
		}
	}
	if d.counted = time.Since(began); again {
		d.countLater()
	}
}

// batchSize is how much is read before it is sent, unless one line is longer, in bytes.
const batchSize = 64 << 10

// manyMembers is from how many logs on none is held open.
const manyMembers = 16

// batch is what is sent at once.
type batch struct {
	text  []byte
	ends  []int // of the messages in it
	marks []mark
	files []entered // their first lines are in it
}

// fill reads lines of those that are due, one log after the other.
func (d *destination) fill() {
	b := &d.batch
	b.text, b.ends, b.marks, b.files = b.text[:0], b.ends[:0], b.marks[:0], nil
	if cap(b.text) > 4*batchSize {
		b.text = nil // after a line that was very long
	}
	for len(d.due) > 0 && len(b.text) < batchSize {
		m := d.due[0]
		d.due = d.due[1:]
		before := len(b.text)
		e, more := entry{service: m.name, profile: m.profile, host: d.given.host}, true
		for more && len(b.text) < batchSize {
			if more = m.read(&e); more {
				d.append(&e)
			}
			if e.entered {
				b.files, e.entered = append(b.files, entered{m.name, m.begun[len(m.begun)-1]}), false
			}
		}
		if more {
			d.due = append(d.due, m)
		} else {
			m.atEnd()
		}
		if len(b.text) > before { // else next stays what done may be
			m.next.Place = m.lines.Position()
			b.marks = append(b.marks, mark{member: m, cursor: m.next, end: uint64(len(b.text))})
		}
		if len(d.members) > manyMembers {
			m.lines.Rest()
		}
		m.tell()
		m.say(d.to)
		d.mayGo(m)
	}
}

// mostDatagram is how much of a line's text a datagram has: what a socket takes by default,
// with room for what JSON makes of it.
const mostDatagram = 32 << 10

// append appends a line as it is sent.
func (d *destination) append(e *entry) {
	b := &d.batch
	if s, is := d.link.(*socket); is && s.datagrams && len(e.Text) > mostDatagram {
		e.Text, e.Cut = e.Text[:mostDatagram], true
	}
	switch s, is := d.link.(*socket); {
	case d.format == service.ForwardJSON:
		b.text = e.appendJSON(b.text)
		if is && s.datagrams {
			b.text = b.text[:len(b.text)-1]
		}
	case is && s.datagrams:
		b.text = e.appendSyslog(b.text)
	case is: // RFC 6587, with the length before it
		at := len(b.text)
		b.text = e.appendSyslog(b.text)
		length := strconv.AppendInt(nil, int64(len(b.text)-at), 10)
		b.text = append(b.text, append(length, ' ')...)
		copy(b.text[at+len(length)+1:], b.text[at:])
		copy(b.text[at:], append(length, ' '))
	default:
		b.text = append(e.appendSyslog(b.text), '\n')
	}
	b.ends = append(b.ends, len(b.text))
}

// send sends the batch beside the goroutine.
func (d *destination) send() {
	d.flow.add(&d.batch)
	d.sending = true
	l, begun := d.link, d.flow.last
	stuck := time.AfterFunc(takesWithin, func() {
		d.Do(func() {
			if d.sending && d.flow.last.Equal(begun) {
				d.down(errors.New("the receiver has not read what it was sent for a minute"))
			}
		})
	})
	files := d.batch.files
	go func() {
		if len(files) > 0 {
			d.given.entered(files)
		}
		err := l.send(&d.batch)
		stuck.Stop()
		d.Do(func() {
			d.sending = false
			if err != nil {
				d.lost(err)
				return
			}
			d.failed = min(d.failed, connects)
			d.confirmLater()
			d.proceed()
		})
	}()
}

// connects is how many failed attempts are counted on at most after the receiver's kernel
// has taken lines. So the next attempt begins within a second, however many failed before.
const connects = 1

// takesWithin is how long a batch may be on its way before people are told. Less in a test.
var takesWithin = time.Minute

// down has people know why the destination takes nothing, once, and lets those go who
// waited for it.
func (d *destination) down(err error) {
	if d.state.Down == "" {
		slog.Warn("logs cannot be sent on; they are kept as long as they are not rotated away, and tried again", "to", d.to, "err", err)
		d.show(err.Error())
	}
	d.end()
	for m := range d.members {
		d.mayGo(m)
	}
}

// works notes that the receiver has lines. That a socket's buffer took them is not enough: a
// receiver that resets each connection would be tried again at once, for ever.
func (d *destination) works() {
	d.failed = 0
	if d.state.Down != "" {
		slog.Info("logs are sent on again", "to", d.to)
		d.show("")
	}
}

// show has others see why the destination is down; "": it is not.
func (d *destination) show(down string) {
	d.state.Down, d.state.Since = down, time.Now()
	d.given.shown(d, d.state)
}

// connect begins to.
func (d *destination) connect() {
	if d.retrying {
		return
	}
	d.connecting = true
	go func() {
		l, err := dial(d.to, d.given.stdout)
		open := d.Put(func() {
			d.connecting = false
			if err != nil {
				d.fail(err)
				return
			}
			d.link = l
			d.proceed()
		})
		if !open && err == nil {
			l.close()
		}
	}()
}

// lost notes that the link is no more: what the receiver may not have is sent again.
func (d *destination) lost(err error) {
	d.link.close()
	d.link = nil
	for _, m := range d.flow.reset() {
		if d.members[m] {
			m.back(d.given.feed)
			d.mark(m)
		}
	}
	if d.failed++; d.failed == 1 {
		d.proceed() // at once: a receiver that was started anew is there, or that is said
		return
	}
	d.fail(err)
}

// Times between two attempts.
const (
	shortestRetry = 250 * time.Millisecond
	longestRetry  = 30 * time.Second
)

// fail tries again later, and says so once.
func (d *destination) fail(err error) {
	d.failed++
	d.down(err)
	d.retrying = true
	time.AfterFunc(min(longestRetry, shortestRetry<<min(d.failed-1, 10)), func() {
		d.Do(func() {
			d.retrying = false
			d.proceed()
		})
	})
	d.countLater()
}

// close ends it; what it has is given back by drop before.
func (d *destination) close() {
	if d.link != nil {
		d.link.close() // which ends a send, too
	}
	d.Close()
}
