package logs

import (
	"context"
	"time"
)

// A mark does not make a file. Where the slot's file is not open yet, the mark waits in
// memory for the first output, the end of the run, a reader, or until nothing else was
// marked for a while: a thousand services that start at once are started first, and
// then their files are made. A mark that waits is lost with this process.

// sayEvery is how often the marks that wait are looked at. They are written when none
// was added since the look before, at the latest at the one with the number mostSayLooks.
const (
	sayEvery     = 500 * time.Millisecond
	mostSayLooks = 10
)

// unsaid is a mark that waits.
type unsaid struct {
	text string
	when int64 // µs
}

// silence is the marks that wait, by their slots; the collector's.
type silence struct {
	c     *Collector
	of    map[*Slot][]unsaid
	added bool // since the last look
	looks int  // so far; 0: there is no next one
}

// covers tells whether a mark would open the slot's file, and need not do that now.
func (q *silence) covers(s *Slot) bool {
	return s.file.fd < 0 && q.c.direct(s) && len(q.c.bells) == 0
}

// has tells whether a mark of the slot waits.
func (q *silence) has(s *Slot) bool { return len(q.of[s]) > 0 }

// add has a mark wait.
func (q *silence) add(s *Slot, m unsaid) {
	q.of[s] = append(q.of[s], m)
	if q.added = true; q.looks == 0 {
		q.looks = 1
		q.lookLater()
	}
}

func (q *silence) lookLater() {
	time.AfterFunc(sayEvery, func() { q.c.inbox.Put(q.look) })
}

// look has the marks that wait written, unless others come all the time.
func (q *silence) look() {
	if q.added && q.looks < mostSayLooks {
		q.added, q.looks = false, q.looks+1
		q.lookLater()
		return
	}
	q.added, q.looks = false, 0
	for s := range q.of {
		q.c.tasks = append(q.c.tasks, task{slot: s, marked: true})
	}
}

// end writes the first mark of a slot that waits.
func (q *silence) end(s *Slot) {
	m := q.of[s][0]
	if q.of[s] = q.of[s][1:]; len(q.of[s]) == 0 { // first: this goroutine may end in any call of the disk
		delete(q.of, s)
	}
	q.c.mark(&task{slot: s, source: fromMark, text: m.text, when: m.when})
}

// said returns when no mark of the slot waits, or the reader does not any more.
func (s *Slot) said(ctx context.Context) {
	done := make(chan struct{})
	s.c.inbox.Put(func() {
		if s.closing || !s.c.silence.has(s) {
			close(done)
			return
		}
		s.c.tasks = append(s.c.tasks, task{slot: s, marked: true, done: func() { close(done) }})
	})
	select {
	case <-done:
	case <-ctx.Done():
	case <-s.c.inbox.done:
	}
}
