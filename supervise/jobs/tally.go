package jobs

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"rlminit/control"
	"rlminit/job"
	"rlminit/supervise/jobs/hooks"
)

// Tally counts jobs that are over, and says which hooks and schedules fail: nobody
// waits for those.
type Tally struct {
	hooks *hooks.Hooks // are told of each that did not succeed; nil: there are none

	mu     sync.Mutex
	counts map[control.JobCounts]uint64 // with Count 0
	said   map[string]time.Time         // by cause, in the last minute
}

// sayAgain is how long the same cause is not said again.
const sayAgain = time.Minute

// over notes that a job has come to its end.
func (y *Tally) over(t *task) {
	if t.state.Outcome == "" {
		return
	}
	y.count(t.spec.Kind, t.state.Outcome)
	if y.hooks != nil && t.state.Outcome != job.Succeeded {
		y.hooks.Wake() // it is recorded
	}
	unheard, failed := laneOf(t) != laneUsers, []job.Status{job.Failed, job.TimedOut, job.RefusedAs}
	if unheard && slices.Contains(failed, t.state.Outcome) { // of which a person is to know
		y.say(t, time.Now())
	}
}

func (y *Tally) count(kind string, state job.Status) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.counts == nil {
		y.counts = map[control.JobCounts]uint64{}
	}
	y.counts[control.JobCounts{Kind: kind, State: string(state)}]++
}

// say writes a line, once a minute for each cause.
func (y *Tally) say(t *task, now time.Time) {
	what, why := strings.Join(t.spec.shown(), " "), t.whyFailed()
	switch {
	case t.spec.Hook != "":
		what = t.spec.Hook + ": " + what
	case t.spec.Kind == kindSchedule:
		what = ownerOf(&t.spec.Request).Name()
	}
	cause := t.spec.Kind + "\x00" + what + "\x00" + why
	y.mu.Lock()
	defer y.mu.Unlock()
	for old, at := range y.said {
		if now.Sub(at) >= sayAgain {
			delete(y.said, old)
		}
	}
	if _, known := y.said[cause]; known {
		return
	}
	if y.said == nil {
		y.said = map[string]time.Time{}
	}
	y.said[cause] = now
	slog.Warn("the job of a "+t.spec.Kind+" failed", t.spec.Kind, what, "job", t.spec.ID, "why", why)
}

// whyFailed is why a job that is over has failed.
func (t *task) whyFailed() string {
	if t.outcome.result == nil {
		return cmp.Or(t.why.refused, t.why.problem, string(t.state.Outcome))
	}
	return t.outcome.result.Why()
}

// Counts are the jobs that have ended since the supervisor began, by kind and state.
func (y *Tally) Counts() []control.JobCounts {
	y.mu.Lock()
	defer y.mu.Unlock()
	var all []control.JobCounts
	for _, c := range slices.SortedFunc(maps.Keys(y.counts), func(a, b control.JobCounts) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.State, b.State))
	}) {
		n := y.counts[c]
		c.Count = n
		all = append(all, c)
	}
	return all
}
