package supervise

import (
	"context"
	"errors"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/core"
)

// Reload brings into force what has changed. Where the caller asks for it, what
// that restarts and starts is one operation, of which the answer has the id, and
// what is restarted may be so one after the other.
func (s *backend) Reload(ctx context.Context, how control.Reload, by control.Actor) (*control.Reloaded, error) {
	asOne := how.Operation || how.Rolling > 0
	switch {
	case how.Rolling < 0 || how.SteadyMS < 0:
		return nil, control.BadRequest("rolling and steady_ms are not negative")
	case asOne && how.DryRun:
		return nil, control.BadRequest("operation and rolling do not go with dry_run: nothing is restarted then")
	}
	stopping := false
	if s.loop.read(func() { stopping = s.fleet.set.Stopping() }); stopping && asOne {
		return nil, control.Conflict("cannot reload anything: the container is stopping")
	}
	before := s.lastRuns()
	done, err := s.directory.registry.Reload(how)
	if err != nil {
		return done, err
	}
	older := s.older(how.Names, done.Changes)
	if !asOne {
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
	cmd := commandOf(core.VerbReload, units, by)
	cmd.Runs, cmd.Width, cmd.Steady = runs, how.Rolling, how.SteadyMS*int64(time.Millisecond)
	_, id, refused := s.commands.operate(ctx, cmd, units, nil)
	if refused != nil {
		return done, refused
	}
	done.Operation = id
	return done, nil
}

// lastRuns are the ids of each service's latest run, by name.
func (s *backend) lastRuns() map[string]uint64 {
	last := map[string]uint64{}
	s.loop.read(func() {
		for name, u := range s.fleet.units {
			last[name] = u.state.LastID
		}
	})
	return last
}

// reloaded are the services whose definition has changed so that what runs of them is
// yet to be restarted, each with the id of its run, and with 0 those that are not up and
// on their way with a new one. What counts is how they are now: a run may have ended
// since the changes were found.
func (s *backend) reloaded(changes []control.Change, before map[string]uint64) (units []*unit, runs []uint64) {
	s.loop.read(func() {
		for _, c := range changes {
			u := s.fleet.find(c.Service)
			if u == nil || u.fault != "" || u.state.Removed || !u.wanted() {
				continue
			}
			// One whose run from before has ended since waits for its next start.
			again := u.state.FellShort() || c.Action == "restart" && u.active()
			run := uint64(0)
			if u.older() != "" || again && u.state.LastID == before[u.name] {
				run = u.state.LastID
			}
			if run != 0 || !s.fleet.set.Came(u.life) {
				units, runs = append(units, u), append(runs, run)
			}
		}
	})
	return units, runs
}

// Adopt takes what a profile's state file says for what is wanted of it, and has
// its gateway follow that.
func (s *backend) Adopt(ctx context.Context, name string, what control.AdoptProfile, by control.Actor) (control.Outcome, error) {
	p, err := s.directory.registry.Profiles.Adopt(ctx, name, by)
	if err != nil {
		return control.Outcome{}, err
	}
	verb := "start"
	if p.Record.Desired == service.Stopped {
		verb = "stop"
	}
	outcomes, _, err := s.Operate(ctx, verb, profiles.GatewayName(p.Name), control.Operate{Wait: what.Wait}, by)
	if err == nil && len(outcomes) == 0 {
		err = errors.New("it is gone")
	}
	s.services.Recorded(profiles.GatewayName(p.Name)) // what was seen meanwhile was not written over it
	if err != nil {
		return control.Outcome{}, err
	}
	return outcomes[0], nil
}
