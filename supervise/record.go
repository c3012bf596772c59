package supervise

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
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
// that can be written to there is nothing to make it durable on.
func (s *Supervisor) recordIntent(units []*unit, intent string) *control.Problem {
	var subjects []profiles.Subject
	s.ask(func() {
		for _, u := range units {
			if u.recorded {
				subjects = append(subjects, subjectOf(u.name, u.definition.Profile))
			}
		}
	})
	if store := s.volume(); store != nil && s.canRecord(store) {
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
			if u.desired != intent {
				u.desired = intent
				s.publishStatus(u)
			}
		}
	})
	return nil
}

// recordPause is how long what was seen waits for what is seen next: most states
// on the way to another last for less.
const recordPause = 100 * time.Millisecond

// newRecorder writes what was last seen of services to the volume.
func (s *Supervisor) newRecorder() *newest[profiles.Subject, profiles.Seen] {
	return newNewest(recordPause, func(batch map[profiles.Subject]profiles.Seen) {
		store := s.volume()
		if store == nil || !s.canRecord(store) {
			return
		}
		subjects := slices.Collect(maps.Keys(batch))
		s.each(len(subjects), func(i int) {
			err := store.SaveSeen(subjects[i], batch[subjects[i]])
			gone := errors.Is(err, profiles.ErrNotFound) || errors.Is(err, fs.ErrNotExist) // deleted since it was seen
			if err != nil && !gone {
				slog.Warn("cannot record the state of a service", "service", subjects[i], "err", err)
			}
		})
	})
}

// recordSeen has u's state written to the volume. What the container's own stop
// brings about is not: the next boot is to know what ran before it.
func (s *Supervisor) recordSeen(u *unit) {
	if s.stopping || !u.recorded || !u.survived && (u.state.Phase == machine.Gone || s.leaving[u.name]) {
		return // of what was deleted nothing is to be written
	}
	seen := profiles.Seen{State: seenAs(u), Restarts: u.state.Restarts}
	if u.state.Alive() {
		seen.PID, seen.StartTime = u.state.PID, u.state.StartTime
	}
	switch {
	case seen.State == service.SeenStartupFailed && u.state.LastExit == nil:
		seen.ExitReason = cmp.Or(u.fault, u.state.Reason)
	case u.state.LastExit != nil:
		seen.ExitReason = u.state.LastExit.String()
	}
	s.recorder.put(subjectOf(u.name, u.definition.Profile), func(profiles.Seen) profiles.Seen { return seen })
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
	if u.fault != "" {
		return service.SeenStartupFailed
	}
	return service.SeenStopped
}
