package logs

import (
	"context"
	"time"
)

// A mark opens no file. Where the slot's file is not open yet, the mark waits in memory
// for the first output, the end of the run or a reader, or until no other mark has come for
// marksPause: when a thousand services start at once, all are started first, and then
// their files are made. A mark that waits is lost if this process is killed.

const (
	marksPause = 100 * time.Millisecond
	marksWait  = 2 * time.Second // how long the first of the marks that wait does so at most
)

// waitingMark is a mark that waits.
type waitingMark struct {
	text string
	when int64 // µs: when it was made
}

// waitingMarks are the marks that wait, by their slots; the collector's.
type waitingMarks struct {
	c     *Collector
	of    map[*Slot][]waitingMark
	armed bool // look is called in a while
	first time.Time
	last  time.Time
}

// mayWait tells whether a mark would open the slot's file, and nobody follows a log.
func (q *waitingMarks) mayWait(s *Slot) bool {
	return s.file.fd < 0 && q.c.direct(s) && len(q.c.bells) == 0
}

// has tells whether a mark of the slot waits.
func (q *waitingMarks) has(s *Slot) bool { return len(q.of[s]) > 0 }

// add has a mark wait.
func (q *waitingMarks) add(s *Slot, m waitingMark) {
	q.of[s] = append(q.of[s], m)
	q.last = time.Now()
	if !q.armed {
		q.armed, q.first = true, q.last
		q.lookIn(marksPause)
	}
}

func (q *waitingMarks) lookIn(pause time.Duration) {
	time.AfterFunc(pause, func() { q.c.inbox.Put(q.look) })
}

// look has all marks written that wait, or waits on.
func (q *waitingMarks) look() {
	if left := marksPause - time.Since(q.last); left > 0 && time.Since(q.first) < marksWait {
		q.lookIn(left)
		return
	}
	q.armed = false
	for s := range q.of {
		q.c.tasks = append(q.c.tasks, task{slot: s, marked: true})
	}
}

// writeFirst writes the first mark of a slot that waits.
func (q *waitingMarks) writeFirst(s *Slot) {
	m := q.of[s][0]
	if q.of[s] = q.of[s][1:]; len(q.of[s]) == 0 { // first: this goroutine may end in any call of the disk
		delete(q.of, s)
	}
	q.c.mark(&task{slot: s, source: fromMark, text: m.text, when: m.when})
}

// awaitMarks returns when no mark of the slot waits, or when ctx ends.
func (s *Slot) awaitMarks(ctx context.Context) {
	done := make(chan struct{})
	s.c.inbox.Put(func() {
		if !s.c.waiting.has(s) {
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
