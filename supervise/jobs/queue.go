package jobs

import (
	"slices"
	"time"
)

// queue is who waits for a turn, and whose has come. It is the runner's goroutine's
// alone.
//
// Invariant: active is how many tasks there are with active set, and of counts them
// by owner, without a zero; none of them is in line.
type queue struct {
	bounds func() Settings
	coming int     // that are being recorded, and then wait
	line   []*task // that wait, the oldest first
	active int     // whose turn has come, and that are not over
	of     map[Owner]int
	quiet  time.Time // when the last of them ended; zero: never
	open   bool      // profiles and services are known: what waits may begin
}

// next is who has waited longest and may run, and whose turn has come now; nil:
// nobody's.
func (q *queue) next() *task {
	bounds := q.bounds()
	if !q.open || q.active >= bounds.AtOnce {
		return nil
	}
	for _, t := range q.line {
		if of := ownerOf(&t.spec.Request); of == (Owner{}) || q.of[of] < bounds.PerProfile {
			q.take(t)
			return t
		}
	}
	return nil
}

// full tells whether one more of an owner's would have to wait, and cannot.
func (q *queue) full(of Owner) bool {
	bounds := q.bounds()
	room := bounds.AtOnce - q.active
	if of != (Owner{}) {
		room = min(room, bounds.PerProfile-q.of[of])
	}
	return len(q.line)+q.coming-max(room, 0) >= bounds.Queue
}

// free tells whether nobody is before a job that is about to be submitted.
func (q *queue) free(of Owner) bool {
	bounds := q.bounds()
	return len(q.line) == 0 && q.active < bounds.AtOnce && q.open && (of == (Owner{}) || q.of[of] < bounds.PerProfile)
}

// busy tells whether another job than t runs, or has just run.
func (q *queue) busy(t *task) bool {
	others := q.active
	if t != nil {
		others--
	}
	return others > 0 || !q.quiet.IsZero() && time.Since(q.quiet) < afterglow
}

// afterglow is how long a job counts in the pressure that is read, at most.
const afterglow = time.Minute

// enter has a job wait for its turn.
func (q *queue) enter(t *task) { q.line = append(q.line, t) }

// leave takes it out of the line, if it is there.
func (q *queue) leave(t *task) {
	if i := slices.Index(q.line, t); i >= 0 {
		q.line = slices.Delete(q.line, i, i+1)
	}
}

// take notes that a job's turn has come.
func (q *queue) take(t *task) {
	t.active = true
	q.active++
	q.of[ownerOf(&t.spec.Request)]++
}

// giveBack notes that a job is over, whether or not it had its turn.
func (q *queue) giveBack(t *task) {
	if !t.active {
		return
	}
	t.active = false
	q.active--
	q.quiet = time.Now()
	of := ownerOf(&t.spec.Request)
	if q.of[of]--; q.of[of] == 0 {
		delete(q.of, of)
	}
}
