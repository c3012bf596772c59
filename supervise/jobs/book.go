package jobs

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"rlminit/job"
	"rlminit/job/history"
)

// book is where jobs and sessions are recorded, with the numbers that were given
// there. There are two: one in memory, and as long as the volume is ours the
// journal's. A job's number says in which of them it is, so that the volume can
// come and go while jobs run, and no number means two jobs.
type book struct {
	Journal
	prefix string // of its numbers

	// The highest numbers given; the runner's goroutine's alone.
	last, lastSession uint64
}

// inMemory is a book of jobs that are begun while the volume is not ours.
func inMemory() *book { return &book{Journal: Unrecorded(), prefix: job.InMemory} }

// nextJob is a number that no job had.
func (b *book) nextJob() string {
	b.View(func(h *history.History) { b.last = max(b.last, h.Last) })
	b.last++
	return fmt.Sprint(b.prefix, b.last)
}

// nextSession is a number that no session had.
func (b *book) nextSession() string {
	b.View(func(h *history.History) { b.lastSession = max(b.lastSession, h.LastSession) })
	b.lastSession++
	return fmt.Sprint(b.prefix, b.lastSession)
}

// given notes that a number was given, by a predecessor.
func (b *book) given(id string) { b.last = max(b.last, job.Number(id)) }

// books are both, or the one in memory alone.
func (r *Runner) books() []*book {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.volume == nil {
		return []*book{r.memory}
	}
	return []*book{r.volume, r.memory}
}

// book is where what begins now is recorded.
func (r *Runner) book() *book { return r.books()[0] }

// bookOf is where a job or session of this number is recorded; nil: nowhere that
// can be reached.
func (r *Runner) bookOf(id string) *book {
	for _, b := range r.books() {
		if strings.HasPrefix(id, job.InMemory) == (b.prefix == job.InMemory) {
			return b
		}
	}
	return nil
}

// lost tells whether what is recorded in b is another container's to tell now.
func (r *Runner) lost(b *book) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return b != r.memory && b != r.volume
}

// Use has what begins from now on recorded in the volume's journal, for the volume
// is ours now. Nothing that waits begins before Open. What an owner before us left
// is given its outcome.
func (r *Runner) Use(journal Journal) {
	outputs := openOutputs("")
	if dir, ours := r.host.Volume(); ours { // and can be written to
		outputs = openOutputs(filepath.Join(dir, "logs", "jobs"))
	}
	b := &book{Journal: journal}
	r.mu.Lock()
	r.volume = b
	r.mu.Unlock()
	r.do(func() {
		r.outputs, r.open = outputs, false
		if r.started {
			r.interruptRest(b)
		}
	})
}

// Lose ends what is recorded on the volume, for another container has it now and
// has recorded that these jobs were interrupted. What is begun from now on is
// recorded in memory.
func (r *Runner) Lose() {
	r.mu.Lock()
	b := r.volume
	r.volume = nil
	r.mu.Unlock()
	r.do(func() {
		r.outputs = openOutputs("")
		for id, s := range r.sessions {
			if s.book == b {
				s.forgotten()
				delete(r.sessions, id)
			}
		}
		for _, t := range r.ordered() {
			if t.book == b && t.kind != kindInternal {
				t.cause = cmp.Or(t.cause, "the volume was taken by another container")
				t.abandonFiles()
				r.step(t, job.Event{Kind: job.Shutdown})
			}
		}
	})
}
