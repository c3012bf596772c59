package serve

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/internal/natural"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/core"
)

// Reload brings into force what has changed. Where the caller asks for it, what
// that restarts and starts is one operation, of which the answer has the id, and
// what is restarted may be so one after the other.
func (s *Backend) Reload(ctx context.Context, how control.Reload, by control.Actor) (*control.Reloaded, error) {
	asOne := how.Operation || how.Rolling > 0
	switch {
	case how.Rolling < 0 || how.SteadyMS < 0:
		return nil, control.BadRequest("rolling and steady_ms are not negative")
	case asOne && how.DryRun:
		return nil, control.BadRequest("operation and rolling do not go with dry_run: nothing is restarted then")
	}
	stopping := false
	if s.loop.Read(func(now Services) { stopping = now.Core().Stopping() }); stopping && asOne {
		return nil, control.Conflict("cannot reload anything: the container is stopping")
	}
	before := s.lastRuns()
	done, err := s.Registry.Reload(how)
	if err != nil {
		return done, err
	}
	older := s.older(how.Names, done.Changes)
	if !asOne {
		slices.SortStableFunc(older, func(a, b control.Change) int { return natural.Compare(a.Service, b.Service) })
		for _, c := range older {
			u := strings.TrimPrefix(c.Service, service.GatewayPrefix)
			done.Notes = append(done.Notes, u+": "+c.Why+"; rlminit reload --rolling goes on with it, or rlminit restart "+u)
		}
		return done, nil
	}
	done.Changes = append(done.Changes, older...)
	units, runs := s.reloaded(done.Changes, before)
	if len(units) == 0 {
		return done, nil
	}
	cmd := CommandOf(core.VerbReload, units, by)
	cmd.Runs, cmd.Width, cmd.Steady = runs, how.Rolling, how.SteadyMS*int64(time.Millisecond)
	_, id, refused := s.Give(ctx, cmd, units, nil)
	if refused != nil {
		return done, refused
	}
	done.Operation = id
	return done, nil
}

// older are the services of these names, or of all, that are still to be restarted
// for the definition in force, beside those that are about to be for a change.
func (s *Backend) older(names []string, changes []control.Change) (list []control.Change) {
	s.loop.Read(func(now Services) {
		meant, changed := map[string]bool{}, map[string]bool{}
		for _, name := range names {
			if u := now.Find(name); u != nil {
				meant[u.Name] = true
			}
		}
		for _, c := range changes {
			changed[c.Service] = true
		}
		for u := range now.All() {
			named := len(names) == 0 || meant[u.Name]
			if u.Older != "" && named && !changed[u.Name] && u.Wanted && u.Fault == "" {
				list = append(list, control.Change{Service: u.Name, Action: "restart", Why: "it still runs with the definition before: " + u.Older})
			}
		}
	})
	return list
}

// lastRuns are the ids of each service's latest run, by name.
func (s *Backend) lastRuns() map[string]uint64 {
	last := map[string]uint64{}
	s.loop.Read(func(now Services) {
		for u := range now.All() {
			last[u.Name] = u.State.LastID
		}
	})
	return last
}

// reloaded are the services whose definition has changed so that what runs of them is
// yet to be restarted, each with the id of its run, and with 0 those that are not up and
// on their way with a new one. What counts is how they are now: a run may have ended
// since the changes were found.
func (s *Backend) reloaded(changes []control.Change, before map[string]uint64) (units []*View, runs []uint64) {
	s.loop.Read(func(now Services) {
		for _, c := range changes {
			u := now.Find(c.Service)
			if u == nil || u.Fault != "" || u.State.Removed || !u.Wanted {
				continue
			}
			// One whose run from before has ended since waits for its next start.
			again := u.State.EndedBadly() || c.Action == "restart" && u.Active()
			run := uint64(0)
			if u.Older != "" || again && u.State.LastID == before[u.Name] {
				run = u.State.LastID
			}
			if run != 0 || !now.Core().Came(u.Life) {
				units, runs = append(units, u), append(runs, run)
			}
		}
	})
	return units, runs
}

// Adopt takes what a profile's state file says for what is wanted of it, and has
// its gateway follow that.
func (s *Backend) Adopt(ctx context.Context, name string, what control.AdoptProfile, by control.Actor) (control.Outcome, error) {
	p, err := s.Registry.Profiles.Adopt(ctx, name, by)
	if err != nil {
		return control.Outcome{}, err
	}
	verb := "start"
	if p.Record.Desired == service.Stopped {
		verb = "stop"
	}
	// The file gets what was seen before anything changes: a copy that follows the last
	// change would be written over what somebody has edited since.
	s.Copies.Recorded(profiles.GatewayName(p.Name))
	outcomes, _, err := s.Operate(ctx, verb, profiles.GatewayName(p.Name), control.Operate{Wait: what.Wait}, by)
	if err == nil && len(outcomes) == 0 {
		err = errors.New("it is gone")
	}
	if err != nil {
		return control.Outcome{}, err
	}
	return outcomes[0], nil
}
