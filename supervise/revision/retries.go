package revision

import (
	"log/slog"
	"sync"
	"time"

	"rlminit/plan/apply"
)

// retries goes on with the newest revision where it has ended unfinished: with steps that
// could not be put back for a reason that may pass. A revision that begins meanwhile has
// taken these over.
type retries struct {
	revisions *Revisions
	stopped   chan struct{} // closed when the volume is ours no longer
	end       sync.Once

	mu      sync.Mutex
	running bool
}

// It is tried again after resumePause, and then after ever longer pauses, up to
// longestPause. While the volume cannot be written to that is no attempt.
const (
	resumePause  = 5 * time.Second
	longestPause = 10 * time.Minute
)

// begin has it go on in the background, unless it does already.
func (t *retries) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running || t.unfinished() == 0 {
		return
	}
	t.running = true
	go t.run()
}

func (t *retries) run() {
	r := t.revisions
	for pause := resumePause; ; {
		select {
		case <-t.stopped:
			return
		case <-time.After(pause):
		}
		t.mu.Lock()
		number := t.unfinished()
		t.running = number != 0
		t.mu.Unlock()
		if number == 0 {
			return
		}
		if r.archive.Room() != nil {
			continue
		}
		pause = min(2*pause, longestPause)
		if !t.reopen() {
			continue
		}
		if c := r.takeOver(); c != nil {
			slog.Info("what of a revision could not be put back is tried again", "revision", number)
			c.run(apply.Event{Kind: apply.Go})
		}
	}
}

// unfinished is the number of the newest revision if it has ended unfinished, or 0.
func (t *retries) unfinished() (number int) {
	t.revisions.journal.View(func(f *apply.Fold) {
		if k := f.Unfinished(); k != nil {
			number = k.Begun.Revision
		}
	})
	return number
}

// reopen records that the unfinished revision goes on, and tells whether it does.
func (t *retries) reopen() bool {
	r := t.revisions
	r.beginning.Lock()
	defer r.beginning.Unlock()
	number := t.unfinished()
	if number == 0 {
		return false
	}
	if err := r.journal.Record(apply.TypeResumed, apply.RecordedResume{Revision: number}); err != nil {
		slog.Debug("a revision cannot go on yet", "revision", number, "err", err)
		return false
	}
	return true
}

// Stop ends what goes on in the background: the volume is another's.
func (r *Revisions) Stop() { r.retries.end.Do(func() { close(r.retries.stopped) }) }
