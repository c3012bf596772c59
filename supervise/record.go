package supervise

import (
	"log/slog"
	"sync"
	"time"

	"rlminit/control"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/machine"
)

// parallel is how many writes to the volume are under way at once: one fsync
// waits for the disk, many share the wait.
const parallel = 16

// each calls f for 0 to n-1, several at a time, and returns when all are done.
func (s *Supervisor) each(n int, f func(int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, parallel) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// recordIntent makes a person's intent for the units durable. Without a volume
// there is nothing to make it durable on.
func (s *Supervisor) recordIntent(units []*unit, intent string) *control.Problem {
	var subjects []profiles.Subject
	s.ask(func() {
		for _, u := range units {
			if u.recorded {
				subjects = append(subjects, subjectOf(u.name, u.definition.Profile))
			}
		}
	})
	if store := s.volume(); store != nil {
		failures := make([]error, len(subjects))
		s.each(len(subjects), func(i int) {
			failures[i] = store.SaveIntent(subjects[i], service.Intent(intent))
		})
		for _, err := range failures {
			if err != nil {
				return control.Failed("%v; nothing was done, for it would not survive a restart", err)
			}
		}
	}
	s.ask(func() {
		for _, u := range units {
			u.desired = intent
		}
	})
	return nil
}

// recorder writes what was last seen of services to the volume, beside the
// loop. Of several sights of one service that wait only the newest is written,
// and each waits a moment: most states on the way to another last for less.
type recorder struct {
	s *Supervisor

	mu      sync.Mutex
	waiting map[profiles.Subject]profiles.Seen
	wake    chan struct{}
	hurry   chan struct{}
	idle    *sync.Cond
	busy    bool
}

func newRecorder(s *Supervisor) *recorder {
	r := &recorder{s: s, waiting: map[profiles.Subject]profiles.Seen{}, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
	r.idle = sync.NewCond(&r.mu)
	go r.run()
	return r
}

func (r *recorder) record(of profiles.Subject, seen profiles.Seen) {
	r.mu.Lock()
	r.waiting[of] = seen
	r.busy = true
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// recordPause is how long a sight waits for a newer one.
const recordPause = 100 * time.Millisecond

// flush waits until everything so far is written.
func (r *recorder) flush() {
	select {
	case r.hurry <- struct{}{}:
	default:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.busy {
		r.idle.Wait()
	}
}

func (r *recorder) run() {
	for range r.wake {
		for r.pause(); r.round(); r.pause() {
		}
	}
}

// pause waits for newer sights of what is to be written.
func (r *recorder) pause() {
	select {
	case <-time.After(recordPause):
	case <-r.hurry:
	}
}

// round writes what waits, and tells whether there was anything.
func (r *recorder) round() bool {
	r.mu.Lock()
	batch := r.waiting
	if len(batch) == 0 {
		r.busy = false
		r.idle.Broadcast()
		r.mu.Unlock()
		return false
	}
	r.waiting = map[profiles.Subject]profiles.Seen{}
	r.mu.Unlock()
	store := r.s.volume()
	if store == nil {
		return true
	}
	subjects := make([]profiles.Subject, 0, len(batch))
	for of := range batch {
		subjects = append(subjects, of)
	}
	r.s.each(len(subjects), func(i int) {
		if err := store.SaveSeen(subjects[i], batch[subjects[i]]); err != nil {
			slog.Warn("cannot record the state of a service", "service", subjects[i], "err", err)
		}
	})
	return true
}

// recordSeen has u's state written to the volume. What the container's own stop
// brings about is not: the next boot is to know what ran before it.
func (s *Supervisor) recordSeen(u *unit) {
	if s.stopping || !u.recorded || u.state.Phase == machine.Gone || s.leaving[u.name] {
		return
	}
	seen := profiles.Seen{State: seenAs(u), Restarts: u.state.Restarts}
	if u.state.Alive() {
		seen.PID, seen.StartTime = u.state.PID, u.state.StartTime
	}
	if u.state.LastExit != nil {
		seen.ExitReason = u.state.LastExit.String()
	}
	s.recorder.record(subjectOf(u.name, u.definition.Profile), seen)
}

// seenAs is u's state in the words of the state file.
func seenAs(u *unit) service.Seen {
	switch u.state.Public() {
	case "running":
		if u.state.Health == machine.Unhealthy {
			return service.SeenDegraded
		}
		return service.SeenRunning
	case "starting", "waiting", "backoff":
		return service.SeenStarting
	case "stopping":
		return service.SeenDraining
	case "failed":
		return service.SeenStartupFailed
	}
	return service.SeenStopped
}
