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
	when int64
}

// silence is the slots whose marks wait; the collector's.
type silence struct {
	slots []*Slot
	added bool // since the last look
	looks int  // so far; 0: there is no next one
}

// waits tells whether a mark would open the slot's file, and need not do that now.
func (c *Collector) waits(s *Slot) bool {
	return s.file.fd < 0 && c.direct(s) && len(c.bells) == 0
}

// postpone has a mark wait.
func (c *Collector) postpone(s *Slot, text string) {
	if len(s.unsaid) == 0 {
		c.silence.slots = append(c.silence.slots, s)
	}
	s.unsaid = append(s.unsaid, unsaid{text, now()})
	if c.silence.added = true; c.silence.looks == 0 {
		c.silence.looks = 1
		c.lookLater()
	}
}

func (c *Collector) lookLater() {
	time.AfterFunc(sayEvery, func() { c.inbox.Put(c.look) })
}

// look writes the marks that wait, unless others come all the time.
func (c *Collector) look() {
	q := &c.silence
	if q.added && q.looks < mostSayLooks {
		q.added, q.looks = false, q.looks+1
		c.lookLater()
		return
	}
	all := q.slots
	*q = silence{}
	for _, s := range all {
		c.tasks = append(c.tasks, task{slot: s, marked: true})
	}
}

// utter writes the first mark of a slot that waits.
func (c *Collector) utter(s *Slot) {
	m := s.unsaid[0]
	s.unsaid = s.unsaid[1:] // first: this goroutine may end in any call of the disk
	c.write(s, task{source: fromMark, text: m.text}, m.when)
}

// said returns when no mark of the slot waits, or the reader does not any more.
func (s *Slot) said(ctx context.Context) {
	done := make(chan struct{})
	s.c.inbox.Put(func() {
		if s.closing || len(s.unsaid) == 0 {
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
