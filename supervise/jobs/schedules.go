package jobs

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/internal/schedule"
	"rlminit/job/table"
	"rlminit/service"
)

// kindSchedule is the kind of a job that a schedule has started.
const kindSchedule = "schedule"

// Scheduled is a command that is run by a schedule.
type Scheduled struct {
	Name     string // the service, which is run by it; or SERVICE/NAME, of a command beside it
	Of       string // the service
	Command  []string
	Schedule service.Schedule
	Off      string // why it is not run; "": it is
}

// serviceOf is the service that a schedule is of.
func serviceOf(schedule string) string {
	name, _, _ := strings.Cut(schedule, "/")
	return name
}

// schedules is the clock of what recurs: one timer, for the next of all of them,
// which a change of the clock ends too (TFD_TIMER_CANCEL_ON_SET of timerfd_create(2)).
type schedules struct {
	runner *Runner
	list   func() []Scheduled
	timer  *os.File // nil: there can be none, and a minute is waited
	fd     int
	dirty  atomic.Bool // something has changed since it was looked at

	// What follows is its goroutine's alone.
	last map[string]time.Time // occurrences that were dealt with, run or not
}

// Schedules runs what recurs, from now on. list is what there is, and may be asked
// by any goroutine; Rescheduled tells that it has changed.
func (r *Runner) Schedules(list func() []Scheduled) {
	s := &schedules{runner: r, list: list, fd: -1, last: map[string]time.Time{}}
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		slog.Warn("schedules are looked at once a minute, for there is no timer", "err", err)
	} else {
		s.fd, s.timer = fd, os.NewFile(uintptr(fd), "schedules")
	}
	r.clock.Store(s)
	go s.recur()
}

// Rescheduled tells that schedules have come, gone or changed. It never waits.
func (r *Runner) Rescheduled() {
	if s := r.clock.Load(); s != nil {
		s.dirty.Store(true)
		s.arm(time.Now())
	}
}

// arm has the timer ring at a time, which is at once for one that has passed.
func (s *schedules) arm(at time.Time) {
	if s.fd < 0 {
		return
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, at.UnixNano()))}
	if at.IsZero() {
		spec = unix.ItimerSpec{}
	}
	_ = unix.TimerfdSettime(s.fd, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &spec, nil) // of plain values
}

// wait waits until the timer rings, or the clock was set.
func (s *schedules) wait() {
	if s.timer == nil {
		time.Sleep(time.Minute)
		return
	}
	var b [8]byte
	if _, err := s.timer.Read(b[:]); err != nil && !errors.Is(err, unix.ECANCELED) {
		time.Sleep(time.Minute)
	}
}

// recur looks what is due, runs it, and sleeps until something is.
func (s *schedules) recur() {
	for {
		s.runner.loop.Ask(func() {}) // after what was begun
		s.dirty.Store(false)
		s.arm(s.due(time.Now()))
		if !s.dirty.Load() { // else the timer that was armed for that is lost
			s.wait()
		}
	}
}

// due runs what is due, and returns when the next is; the zero Time: nothing.
func (s *schedules) due(now time.Time) (next time.Time) {
	r := s.runner
	b, open := r.journal.Load(), false
	r.loop.Ask(func() { open = r.queue.open })
	if !b.durable() || !open {
		return time.Time{} // another container has the volume, and runs what recurs; Open looks again
	}
	present := map[string]bool{}
	for _, what := range s.list() {
		present[what.Name] = true
		if what.Off != "" {
			if !s.off(b, what) {
				next = earlier(next, now.Add(retrySkip))
			}
			continue
		}
		cron, err := what.Schedule.Parsed()
		if err != nil {
			continue // it was checked when it was read
		}
		timer, ok := s.timerOf(b, what, cron, now)
		if !ok {
			next = earlier(next, now.Add(retrySkip)) // it cannot be recorded
			continue
		}
		late := lateness(what.Name, what.Schedule.Jitter)
		at, run, missed := timer.Due(now.Add(-late))
		if !at.IsZero() {
			if missed > 0 && !s.skip(b, what, at, missed, "nobody was there at the time: the container was off, or its clock was set", !run) {
				next = earlier(next, now.Add(retrySkip))
				continue // or it would be run by a successor
			}
			s.last[what.Name], timer.Last = at, at
			if run {
				s.occur(b, what, at)
			}
		}
		if n := timer.Next(now.Add(-late)); !n.IsZero() {
			next = earlier(next, n.Add(late))
		}
	}
	for name := range s.last {
		if !present[name] {
			delete(s.last, name)
		}
	}
	return next
}

// retrySkip is when it is tried again to record what could not be.
const retrySkip = 10 * time.Second

// skip records that occurrences are not run, up to one; or if that one is run, those
// before it. False: it cannot be recorded.
func (s *schedules) skip(b *jobJournal, what Scheduled, at time.Time, count int, cause string, last bool) bool {
	slog.Warn("occurrences of a schedule are skipped", "service", what.Name, "count", count, "why", cause)
	record := table.Skipped{Schedule: what.Name, Count: count, Cause: cause}
	if !last {
		b.Note(table.TypeSkipped, record) // at is recorded as a job
		return true
	}
	record.Occurs = &at
	return b.Append(table.TypeSkipped, record) == nil
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// lateness is how much later than it is due a schedule is run, the same each time.
func lateness(name string, most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	host, _ := os.Hostname() // without one, as well
	h := fnv.New64a()
	h.Write([]byte(host + "\x00" + name))
	return time.Duration(h.Sum64() % uint64(most))
}

// off records that a schedule is in force no more: what it misses is not made up for
// when it is again. False: it cannot be recorded.
func (s *schedules) off(b *jobJournal, what Scheduled) bool {
	off := true
	b.View(func(h *table.Table) {
		e := h.Schedules[what.Name]
		off = e == nil || e.Cron == ""
	})
	return off || b.Append(table.TypeScheduled, table.Scheduled{Schedule: what.Name}) == nil
}

// timerOf is a schedule with what is recorded of it: since when it is in force, and
// its last occurrence. One that is new, or changed, is recorded first.
func (s *schedules) timerOf(b *jobJournal, what Scheduled, cron *schedule.Cron, now time.Time) (schedule.Timer, bool) {
	var entry table.Schedule
	look := func(h *table.Table) {
		if e := h.Schedules[what.Name]; e != nil {
			entry = *e
		}
	}
	b.View(look)
	if entry.Cron != what.Schedule.Cron || entry.Timezone != what.Schedule.Timezone {
		fresh := table.Scheduled{Schedule: what.Name, Cron: what.Schedule.Cron, Timezone: what.Schedule.Timezone}
		if err := b.Append(table.TypeScheduled, fresh); err != nil {
			return schedule.Timer{}, false
		}
		entry.Since = now
		b.View(look)
	}
	last := entry.Last
	if entry.Dealt.After(last) {
		last = entry.Dealt
	}
	if s.last[what.Name].After(last) {
		last = s.last[what.Name]
	}
	return schedule.Timer{Cron: cron, CatchUp: what.Schedule.CatchUp, Last: last, Since: entry.Since}, true
}

// occur runs one occurrence, or not, as its overlap says. Its record is durable
// before it begins, so it is never run again.
func (s *schedules) occur(b *jobJournal, what Scheduled, at time.Time) {
	r := s.runner
	t := newTask("", kindSchedule, nil, control.RunJob{
		Command: what.Command, TimeoutMS: what.Schedule.Timeout.Milliseconds(),
		MaxOutput: control.DefaultJobOutput, Detach: true,
	})
	t.spec.Occurs, t.spec.Schedule = &at, what.Name
	of, err := r.place.named(what.Of)
	if err != nil {
		return // it has gone this moment
	}
	of.give(&t.spec.Request)
	var before []*task
	waits := &occurrence{of: what.Of}
	r.loop.Ask(func() { before, r.waiting[waits] = r.tasks.occurrences(what.Name), false })
	go func() {
		defer r.loop.Do(func() { delete(r.waiting, waits) })
		if len(before) > 0 {
			switch what.Schedule.Overlap {
			case service.OverlapSkip:
				s.skip(b, what, at, 1, fmt.Sprintf("job %s of the occurrence before still runs", before[0].spec.ID), true)
				return
			case service.OverlapKill:
				r.loop.Ask(func() {
					for _, other := range before {
						r.cancel(other, "the next occurrence of its schedule came")
					}
				})
			case service.OverlapQueue:
				if len(before) > 1 {
					s.skip(b, what, at, 1, fmt.Sprintf("job %s of the occurrence before waits already", before[1].spec.ID), true)
					return
				}
			}
		}
		for _, other := range before {
			<-other.outcome.done
		}
		ended := false
		if r.loop.Ask(func() { ended = r.waiting[waits] }); ended {
			s.skip(b, what, at, 1, "it was stopped while it waited for the occurrence before", true)
			return
		}
		if _, err := r.submit(t); err != nil {
			stopping := false
			if r.loop.Ask(func() { stopping = r.stopping }); !stopping { // else the next boot deals with it
				s.skip(b, what, at, 1, err.Error(), true)
			}
		}
	}()
}

// occurrence is one of a schedule's that waits for the one before it.
type occurrence struct{ of string } // the service whose schedule it is

// occurrences are the jobs of a schedule.
func (ts *tasks) occurrences(name string) []*task {
	return ts.which(func(t *task) bool { return t.spec.Schedule == name })
}

// EndOccurrences ends what the schedules of a service have begun, and what waits for
// that. What is returned is closed when nothing of it is left; nil: there was nothing.
// The schedules go on.
func (r *Runner) EndOccurrences(name, cause string) (over <-chan struct{}) {
	var ended []*task
	r.loop.Ask(func() {
		for o := range r.waiting {
			r.waiting[o] = r.waiting[o] || o.of == name
		}
		ended = r.tasks.which(func(t *task) bool { return t.spec.Schedule != "" && serviceOf(t.spec.Schedule) == name })
		for _, t := range ended {
			r.cancel(t, cause)
		}
	})
	if len(ended) == 0 {
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, t := range ended {
			<-t.outcome.done
		}
	}()
	return done
}

// Why a schedule is not run.
const (
	notHere   = "nothing can be recorded on a volume of this container's own"
	NotOn     = "enabled is false"
	NotWanted = "its service is not to run"
)

// NextOf is when a scheduled service is run next, and its last occurrence with what
// came of it.
func (r *Runner) NextOf(what Scheduled) control.Schedule {
	var s control.Schedule
	cron, err := what.Schedule.Parsed()
	if err != nil {
		return s
	}
	var entry table.Schedule
	b := r.journal.Load()
	b.View(func(h *table.Table) {
		if e := h.Schedules[what.Name]; e != nil {
			entry = *e
		}
		if e := h.Jobs[entry.Job]; e != nil && e.State != "" {
			entry.State = string(e.State)
		}
	})
	late := lateness(what.Name, what.Schedule.Jitter)
	timer := schedule.Timer{Cron: cron, Last: entry.Last, Since: entry.Since}
	next := timer.Next(time.Now().Add(-late))
	_, lacks := r.host.Volume()
	switch {
	case what.Off != "":
		s.NotRun = what.Off
	case !b.durable() || lacks != "":
		s.NotRun = cmp.Or(lacks, notHere)
	case !next.IsZero():
		next = next.Add(late).UTC()
		s.Next = &next
	}
	if !entry.Last.IsZero() {
		s.Last, s.LastJob, s.LastState = &entry.Last, &entry.Job, orNull(entry.State)
	}
	return s
}
