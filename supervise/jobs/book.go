package jobs

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

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

// givenSession notes the same of a session's; "" is none.
func (b *book) givenSession(id string) { b.lastSession = max(b.lastSession, job.Number(id)) }

// books are where jobs are recorded at a time: the volume may come and go.
type books struct {
	memory *book // of what is begun while the volume is not ours

	mu     sync.Mutex // for what follows; never held while something is waited for
	volume *book      // nil: it is not ours
}

// all are both, or the one in memory alone.
func (b *books) all() []*book {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.volume == nil {
		return []*book{b.memory}
	}
	return []*book{b.volume, b.memory}
}

// current is where what begins now is recorded.
func (b *books) current() *book { return b.all()[0] }

// of is where a job or session of this number is recorded; nil: nowhere that can
// be reached.
func (b *books) of(id string) *book {
	for _, one := range b.all() {
		if strings.HasPrefix(id, job.InMemory) == (one.prefix == job.InMemory) {
			return one
		}
	}
	return nil
}

// lost tells whether what is recorded in one is another container's to tell now.
func (b *books) lost(one *book) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return one != b.memory && one != b.volume
}

// replace puts the volume's in the place of the one that was there; nil: the volume
// is not ours any more.
func (b *books) replace(volume *book) (was *book) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, b.volume = b.volume, volume
	return was
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
	r.books.replace(b)
	r.loop.Do(func() {
		r.outputs, r.queue.open = outputs, false
		if r.started {
			r.interruptRest(b)
		}
	})
}

// Lose ends what is recorded on the volume, for another container has it now and
// has recorded that these jobs were interrupted. What is begun from now on is
// recorded in memory.
func (r *Runner) Lose() {
	b := r.books.replace(nil)
	r.loop.Do(func() {
		r.outputs = openOutputs("")
		r.sessions.lose(b)
		for _, t := range r.tasks.ordered() {
			if t.book == b && t.spec.Kind != kindInternal {
				t.why.cause = cmp.Or(t.why.cause, "the volume was taken by another container")
				t.output.abandon()
				r.step(t, job.Event{Kind: job.Shutdown})
			}
		}
	})
}
