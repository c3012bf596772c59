package jobs

import (
	"slices"
	"time"
)

// queue is who waits for a turn, and whose has come. It is the runner's goroutine's
// alone.
//
// It has a lane for each kind of origin, and none takes room of another: however many
// jobs users submit, hooks and schedules have their turn.
type queue struct {
	lanes [laneCount]lane
	quiet time.Time // when the last job ended; zero: never
	open  bool      // profiles and services are known: what waits may begin
}

// The lanes, in the order in which they are given turns.
const (
	laneHooks = iota
	laneSchedules
	laneUsers
	laneCount
)

// laneOf is the lane of a job.
func laneOf(t *task) int {
	switch t.spec.Kind {
	case kindHook:
		return laneHooks
	case kindSchedule:
		return laneSchedules
	}
	return laneUsers
}

// lane is the jobs of one kind of origin.
//
// Invariant: active is how many tasks of the lane there are with active set, and of
// counts them by owner, without a zero; none of them is in line.
type lane struct {
	bounds func() Settings
	coming int     // that are being recorded, and then wait
	line   []*task // that wait, the oldest first
	active int     // whose turn has come, and that are not over
	of     map[Owner]int
}

// newQueue is a queue whose users' and schedules' lanes have these bounds each.
func newQueue(bounds func() Settings) queue {
	var q queue
	for i := range q.lanes {
		q.lanes[i] = lane{bounds: bounds, of: map[Owner]int{}}
	}
	q.lanes[laneSchedules].bounds = func() Settings {
		b := bounds() // a profile writes its schedules itself: it has no more than a share of the lane
		b.PerProfile = min(b.PerProfile, max(1, b.AtOnce/scheduleShare))
		return b
	}
	q.lanes[laneHooks].bounds = func() Settings {
		return Settings{AtOnce: hooksAtOnce, PerProfile: hooksAtOnce, Queue: hooksWaiting}
	}
	return q
}

// scheduleShare is which part of what may run at once for schedules one profile or service
// may have.
const scheduleShare = 4

// lane is that of a job.
func (q *queue) lane(t *task) *lane { return &q.lanes[laneOf(t)] }

// next is who has waited longest in the first lane where somebody may run, and whose
// turn has come now; nil: nobody's.
func (q *queue) next() *task {
	if !q.open {
		return nil
	}
	for i := range q.lanes {
		l := &q.lanes[i]
		for _, t := range l.line {
			if l.room(ownerOf(&t.spec.Request)) > 0 {
				q.take(t)
				return t
			}
		}
	}
	return nil
}

// room is how many more of an owner's may run.
func (l *lane) room(of Owner) int {
	bounds := l.bounds()
	room := bounds.AtOnce - l.active
	if of != (Owner{}) {
		room = min(room, bounds.PerProfile-l.of[of])
	}
	return max(room, 0)
}

// full tells whether one more of an owner's would have to wait, and cannot.
func (l *lane) full(of Owner) bool {
	return len(l.line)+l.coming-l.room(of) >= l.bounds().Queue
}

// free tells whether nobody is before a job that is about to be submitted.
func (q *queue) free(t *task) bool {
	l := q.lane(t)
	return q.open && len(l.line) == 0 && l.room(ownerOf(&t.spec.Request)) > 0
}

// waiting is how many jobs of users wait.
func (q *queue) waiting() int { return len(q.lanes[laneUsers].line) }

// busy tells whether another job than t runs, or has just run.
func (q *queue) busy(t *task) bool {
	others := 0
	for i := range q.lanes {
		others += q.lanes[i].active
	}
	if t != nil {
		others--
	}
	return others > 0 || !q.quiet.IsZero() && time.Since(q.quiet) < afterglow
}

// afterglow is how long a job counts in the pressure that is read, at most.
const afterglow = time.Minute

// enter has a job wait for its turn.
func (q *queue) enter(t *task) {
	l := q.lane(t)
	l.line = append(l.line, t)
}

// leave takes it out of the line, if it is there.
func (q *queue) leave(t *task) {
	l := q.lane(t)
	if i := slices.Index(l.line, t); i >= 0 {
		l.line = slices.Delete(l.line, i, i+1)
	}
}

// take notes that a job's turn has come, and takes it out of the line.
func (q *queue) take(t *task) {
	q.leave(t)
	l := q.lane(t)
	t.active = true
	l.active++
	l.of[ownerOf(&t.spec.Request)]++
}

// giveBack notes that a job is over, whether or not it had its turn.
func (q *queue) giveBack(t *task) {
	if !t.active {
		return
	}
	l, of := q.lane(t), ownerOf(&t.spec.Request)
	t.active = false
	l.active--
	q.quiet = time.Now()
	if l.of[of]--; l.of[of] == 0 {
		delete(l.of, of)
	}
}
