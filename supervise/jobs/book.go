package jobs

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"

	"rlminit/job"
	"rlminit/job/history"
	"rlminit/supervise/jobs/output"
)

// book is where jobs and sessions are recorded: in the volume's journal as long as the
// volume is ours, else in memory. There is one at a time, and what is in it ends with it.
// A job's number says of which kind it is, so that no number means two jobs.
type book struct {
	Journal
	prefix string // of its numbers
}

// inMemory is a book of jobs that are begun while the volume is not ours.
func inMemory() *book { return &book{Journal: Unrecorded(), prefix: job.InMemory} }

// durable tells whether what is recorded there outlives the supervisor.
func (b *book) durable() bool { return b.prefix == "" }

// has tells whether a job of this number can be recorded there.
func (b *book) has(id string) bool { return strings.HasPrefix(id, job.InMemory) != b.durable() }

// numbers are the highest numbers given. They are the runner's goroutine's alone.
type numbers struct{ jobs, sessions uint64 }

// nextJob is a number that no job had.
func (n *numbers) nextJob(b *book) string {
	b.View(func(h *history.History) { n.jobs = max(n.jobs, h.Last) })
	n.jobs++
	return fmt.Sprint(b.prefix, n.jobs)
}

// nextSession is a number that no session had.
func (n *numbers) nextSession(b *book) string {
	b.View(func(h *history.History) { n.sessions = max(n.sessions, h.LastSession) })
	n.sessions++
	return fmt.Sprint(n.sessions)
}

// given notes numbers that a predecessor gave, of a job and of its session, if it has one.
func (n *numbers) given(job, session uint64) {
	n.jobs, n.sessions = max(n.jobs, job), max(n.sessions, session)
}

// Use has what begins from now on recorded in the volume's journal, for the volume is ours
// now: nothing that waits begins before Open, and what an owner before us left is given
// its outcome. nil: the volume is not ours, or not any more; who has it now has recorded
// that the jobs on it were interrupted.
func (r *Runner) Use(journal Journal) {
	if journal == nil && !r.book.Load().durable() {
		return
	}
	b, outputs, why := inMemory(), output.Open(""), "the volume was taken by another container"
	if journal != nil {
		b, why = &book{Journal: journal}, "the volume was taken over, where jobs are recorded from now on"
		if dir, lacks := r.host.Volume(); lacks == "" {
			outputs = output.Open(filepath.Join(dir, "logs", "jobs"))
		}
	}
	r.book.Store(b)
	r.loop.Do(func() {
		r.outputs, r.interrupted = outputs, map[string]*task{}
		r.endLost(why)
		if journal == nil {
			r.sessions.lose()
		} else if r.queue.open = false; r.started {
			r.interruptRest(b)
		}
	})
}

// endLost ends the jobs whose book is not there any more.
func (r *Runner) endLost(why string) {
	now := r.book.Load()
	for _, t := range r.tasks.which(func(t *task) bool { return t.lost(now) }) {
		t.why.cause = cmp.Or(t.why.cause, why)
		t.output.Abandon()
		r.step(t, job.Event{Kind: job.Shutdown})
	}
}

// lost tells whether a job's book is not the one that there is now.
func (t *task) lost(now *book) bool { return t.book != now }

// sweepOutputs has the outputs of jobs that the book has forgotten removed, beside those
// that are not over and those that come.
func (r *Runner) sweepOutputs() {
	outputs, b, ours, last := r.outputs, r.book.Load(), maps.Clone(r.tasks.byID), strconv.FormatUint(r.numbers.jobs, 10)
	go func() {
		known := map[string]bool{}
		b.View(func(h *history.History) {
			for id := range h.Jobs {
				known[id] = true
			}
		})
		outputs.Sweep(func(id string) bool { return known[id] }, func(id string) bool { return ours[id] != nil || job.Compare(id, last) > 0 })
	}()
}
