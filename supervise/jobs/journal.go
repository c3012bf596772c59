package jobs

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"

	"rlminit/job"
	"rlminit/job/table"
	"rlminit/supervise/jobs/output"
)

// jobJournal is where jobs and sessions are recorded: in the volume's journal as long as the
// volume is ours, else in memory. There is one at a time, and what is in it ends with it.
// A job's number says of which kind it is, so that no number means two jobs.
type jobJournal struct {
	Journal
	prefix string // of its numbers
}

// inMemory is a journal of jobs that are begun while the volume is not ours.
func inMemory() *jobJournal { return &jobJournal{Journal: Unrecorded(), prefix: job.InMemory} }

// durable tells whether what is recorded there outlives the supervisor.
func (j *jobJournal) durable() bool { return j.prefix == "" }

// has tells whether a job of this number can be recorded there.
func (j *jobJournal) has(id string) bool { return strings.HasPrefix(id, job.InMemory) != j.durable() }

// numbers are the highest numbers given. They are the runner's goroutine's alone.
type numbers struct{ jobs, sessions uint64 }

// nextJob is a number that no job had.
func (n *numbers) nextJob(j *jobJournal) string {
	j.View(func(h *table.Table) { n.jobs = max(n.jobs, h.Last) })
	n.jobs++
	return fmt.Sprint(j.prefix, n.jobs)
}

// nextSession is a number that no session had.
func (n *numbers) nextSession(j *jobJournal) string {
	j.View(func(h *table.Table) { n.sessions = max(n.sessions, h.LastSession) })
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
	if journal == nil && !r.journal.Load().durable() {
		return
	}
	b, outputs, why := inMemory(), output.Open("", nil), "the volume was taken by another container"
	if journal != nil {
		b, why = &jobJournal{Journal: journal}, "the volume was taken over, where jobs are recorded from now on"
		if dir, lacks := r.host.Volume(); lacks == "" {
			outputs = output.Open(filepath.Join(dir, "logs", "jobs"), r.host.Directories)
		}
	}
	r.journal.Store(b)
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

// endLost ends the jobs whose journal is not there any more.
func (r *Runner) endLost(why string) {
	now := r.journal.Load()
	for _, t := range r.tasks.which(func(t *task) bool { return t.lost(now) }) {
		t.why.cause = cmp.Or(t.why.cause, why)
		t.output.Abandon()
		r.step(t, job.Event{Kind: job.Shutdown})
	}
}

// lost tells whether a job's journal is not the one that there is now.
func (t *task) lost(now *jobJournal) bool { return t.journal != now }

// sweepOutputs has the outputs of jobs that the journal has forgotten removed, beside those
// that are not over and those that come.
func (r *Runner) sweepOutputs() {
	outputs, b, ours, last := r.outputs, r.journal.Load(), maps.Clone(r.tasks.byID), strconv.FormatUint(r.numbers.jobs, 10)
	go func() {
		known := map[string]bool{}
		b.View(func(h *table.Table) {
			for id := range h.Jobs {
				known[id] = true
			}
		})
		outputs.Sweep(func(id string) bool { return known[id] }, func(id string) bool { return ours[id] != nil || job.Compare(id, last) > 0 })
	}()
}
