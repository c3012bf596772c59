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

// recordIntent makes a person's intent for the units durable, and adds to refused
// those for which that failed. Without a volume that can be written to there is
// nothing to make it durable on.
func (s *Supervisor) recordIntent(units []*unit, intent string, refused map[*unit]*control.Problem) {
	subjects := make([]profiles.Subject, len(units)) // zero: it has no record
	s.ask(func() {
		for i, u := range units {
			if u.recorded {
				subjects[i] = subjectOf(u.name, u.definition.Profile)
			}
		}
	})
	failures := make([]error, len(units))
	if store := s.volume(); store != nil && s.canRecord(store) {
		s.each(len(units), func(i int) {
			if subjects[i] != (profiles.Subject{}) {
				failures[i] = store.SaveIntent(subjects[i], service.Intent(intent))
			}
		})
	}
	s.ask(func() {
		for i, u := range units {
			switch {
			case failures[i] != nil:
				refused[u] = control.Failed("%v; nothing was done, for it would not survive a restart", failures[i])
			case u.desired != intent:
				u.desired = intent
				s.publishStatus(u)
			}
		}
	})
}

// recordIntents is recordIntent for a command. What goes along comes first: a
// unit that cannot run without it is not recorded either.
func (s *Supervisor) recordIntents(units, along []*unit, intent string) map[*unit]*control.Problem {
	refused := map[*unit]*control.Problem{}
	s.recordIntent(along, intent, refused)
	rest := slices.Clone(units)
	if len(refused) > 0 {
		s.ask(func() {
			rest = slices.DeleteFunc(rest, func(u *unit) bool {
				for _, other := range s.along(u) {
					if problem := refused[other]; problem != nil {
						refused[u] = problem
						return true
					}
				}
				return false
			})
		})
	}
	s.recordIntent(rest, intent, refused)
	return refused
}

// recordPause is how long what was seen waits for what is seen next: most states
// on the way to another last for less.
const recordPause = 100 * time.Millisecond

// newRecorder writes what was last seen of services to the volume. What cannot
// be written, which is said once, is tried again until the disk is well.
func (s *Supervisor) newRecorder() *newest[profiles.Subject, profiles.Seen] {
	failing := map[profiles.Subject]bool{}
	return newNewest(recordPause, func(batch map[profiles.Subject]profiles.Seen) (failed map[profiles.Subject]profiles.Seen) {
		store := s.volume()
		if store == nil || !s.canRecord(store) {
			return nil
		}
		subjects := slices.Collect(maps.Keys(batch))
		failures := make([]error, len(subjects))
		s.each(len(subjects), func(i int) { failures[i] = store.SaveSeen(subjects[i], batch[subjects[i]]) })
		failed = map[profiles.Subject]profiles.Seen{}
		for i, of := range subjects {
			err := failures[i]
			if err == nil || errors.Is(err, profiles.ErrNotFound) || errors.Is(err, fs.ErrNotExist) { // deleted since it was seen
				delete(failing, of)
				continue
			}
			failed[of] = batch[of]
			if !failing[of] {
				failing[of] = true
				slog.Warn("cannot record the state of a service", "service", of, "err", err)
			}
		}
		return failed
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
