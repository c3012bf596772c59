package jobs

import (
	"slices"
	"time"
)

// queue is who waits for a turn, and whose has come. It is the runner's goroutine's
// alone.
//
// It has a lane for each kind of origin, and none takes room of another: however many
// jobs users submit, hooks and schedules have their turn. Within a lane turns go round by
// party, and some room is left for those who have none: however many jobs one submits, and
// however long they run, another has its turn.
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

// partyOf is who takes turns with others: the owner of a job; of a hook's job, the profile or
// service that it tells of.
func partyOf(t *task) Owner {
	if t.spec.Kind == kindHook {
		return Owner{Service: t.spec.About}
	}
	return ownerOf(&t.spec.Request)
}

// lane is the jobs of one kind of origin.
//
// Invariant: active is how many tasks of the lane there are with active set, and
// parties counts them by party; none of them is in line. A party without any job is not in
// parties.
type lane struct {
	bounds  func() Settings
	coming  int     // that are being recorded, and then wait
	line    []*task // that wait, the oldest first
	active  int     // whose turn has come, and that are not over
	turns   uint64  // that were given
	parties map[Owner]*party
	had     map[Owner]uint64 // the last turns of who has nothing now, as long as somebody waits: who comes again is behind them
}

// mostHad is of how many parties that have nothing a lane knows the last turn.
const mostHad = 1000

// party is what one has in a lane.
type party struct {
	waiting int // in line, or coming
	active  int
	turn    uint64 // the number of its last turn
}

// of is a party's share, which is forgotten by settle.
func (l *lane) of(who Owner) *party {
	p := l.parties[who]
	if p == nil {
		p = &party{turn: l.had[who]}
		delete(l.had, who)
		l.parties[who] = p
	}
	return p
}

// settle forgets a party that has nothing in the lane.
func (l *lane) settle(who Owner) {
	if p := l.parties[who]; p != nil && p.waiting == 0 && p.active == 0 {
		delete(l.parties, who)
		if len(l.line) == 0 || len(l.had) >= mostHad {
			clear(l.had)
		}
		if len(l.line) > 0 && p.turn > 0 {
			l.had[who] = p.turn
		}
	}
}

// newQueue is a queue whose users' and schedules' lanes have these bounds each.
func newQueue(bounds func() Settings) queue {
	var q queue
	for i := range q.lanes {
		q.lanes[i] = lane{bounds: bounds, parties: map[Owner]*party{}, had: map[Owner]uint64{}}
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

// next is whose turn has come now, in the first lane where somebody may run: of the parties
// that may, the one whose last turn is longest ago, and of its jobs the oldest; nil: nobody's.
func (q *queue) next() *task {
	if !q.open {
		return nil
	}
	for i := range q.lanes {
		l := &q.lanes[i]
		var first *task
		for _, t := range l.line {
			if (first == nil || l.of(partyOf(t)).turn < l.of(partyOf(first)).turn) && l.room(partyOf(t)) > 0 {
				first = t
			}
		}
		if first != nil {
			q.take(first)
			return first
		}
	}
	return nil
}

// room is how many more of a party's may run. One that runs nothing has a turn beyond those that
// others have taken.
func (l *lane) room(of Owner) int {
	bounds, running := l.bounds(), 0
	if p := l.parties[of]; p != nil {
		running = p.active
	}
	room := bounds.AtOnce - l.active
	if room < 1 && running == 0 && l.active < bounds.AtOnce+beyond(bounds.AtOnce) {
		room = 1
	}
	if of != (Owner{}) {
		room = min(room, bounds.PerProfile-running)
	}
	return max(room, 0)
}

// beyond is how much more than a bound there is for parties that have nothing, or little.
func beyond(bound int) int { return max(1, bound/4) }

// full tells whether one more of a party's would have to wait, and cannot. Beyond what the line
// holds there is a quarter more for parties that have but few in it.
func (l *lane) full(of Owner) bool {
	bounds, waiting := l.bounds(), len(l.line)+l.coming
	own := 0
	if p := l.parties[of]; p != nil {
		own = p.waiting
	}
	if room := l.room(of); room > 0 {
		waiting, own = waiting-room, own-room
	}
	if bounds.Queue > 0 && own < max(1, bounds.Queue/16) {
		return waiting >= bounds.Queue+beyond(bounds.Queue)
	}
	return waiting >= bounds.Queue
}

// free tells whether nobody is before a job that is about to be submitted.
func (q *queue) free(t *task) bool {
	l := q.lane(t)
	return q.open && len(l.line) == 0 && l.room(partyOf(t)) > 0
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

// come notes that a job is being recorded, and came that it is, or cannot be.
func (q *queue) come(t *task) {
	l := q.lane(t)
	l.coming++
	l.of(partyOf(t)).waiting++
}

func (q *queue) came(t *task) {
	l := q.lane(t)
	l.coming--
	l.of(partyOf(t)).waiting--
	l.settle(partyOf(t))
}

// enter has a job wait for its turn.
func (q *queue) enter(t *task) {
	l := q.lane(t)
	l.line = append(l.line, t)
	l.of(partyOf(t)).waiting++
}

// leave takes it out of the line, if it is there.
func (q *queue) leave(t *task) {
	l := q.lane(t)
	if i := slices.Index(l.line, t); i >= 0 {
		l.line = slices.Delete(l.line, i, i+1)
		l.of(partyOf(t)).waiting--
		l.settle(partyOf(t))
	}
}

// take notes that a job's turn has come, and takes it out of the line.
func (q *queue) take(t *task) {
	q.leave(t)
	l := q.lane(t)
	t.active = true
	l.active++
	l.turns++
	p := l.of(partyOf(t))
	p.active++
	p.turn = l.turns
}

// giveBack notes that a job is over, whether or not it had its turn.
func (q *queue) giveBack(t *task) {
	if !t.active {
		return
	}
	l, of := q.lane(t), partyOf(t)
	t.active = false
	l.active--
	q.quiet = time.Now()
	l.of(of).active--
	l.settle(of)
}
