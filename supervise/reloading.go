package supervise

import (
	"context"
	"errors"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/machine"
)

// Reload brings into force what has changed. Where the caller asks for it, what
// that restarts and starts is one operation, of which the answer has the id, and
// what is restarted may be so one after the other.
func (s *desk) Reload(ctx context.Context, how control.Reload, by control.Actor) (*control.Reloaded, error) {
	asOne := how.Operation || how.Rolling > 0
	switch {
	case how.Rolling < 0 || how.SteadyMS < 0:
		return nil, control.BadRequest("rolling and steady_ms are not negative")
	case asOne && how.DryRun:
		return nil, control.BadRequest("operation and rolling do not go with dry_run: nothing is restarted then")
	}
	if problem := s.commands.refusal(verb{name: "reload"}); problem != nil && asOne {
		return nil, problem
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
	restarts, starts := s.reloaded(done.Changes, before)
	v, all := reloading(restarts), append(unitsOf(restarts), starts...)
	switch {
	case len(all) == 0:
	case how.Rolling > 0:
		begun, err := s.commands.roll(v, all, how.Rolling, time.Duration(how.SteadyMS)*time.Millisecond, by)
		if err != nil {
			return done, err
		}
		done.Operation = begun.ID()
	default:
		_, begun, refused := s.commands.operateAs(ctx, v, all, nil, by, nil, 0)
		if refused != nil {
			return nil, refused
		}
		done.Operation = begun.ID()
	}
	return done, nil
}

// lastRuns are the ids of each service's latest run, by name.
func (s *desk) lastRuns() map[string]uint64 {
	last := map[string]uint64{}
	s.loop.ask(func() {
		for name, u := range s.fleet.units {
			last[name] = u.state.LastID
		}
	})
	return last
}

// run is a service, and the id of its run at some moment.
type run struct {
	unit *unit
	id   uint64
}

func unitsOf(runs []run) (units []*unit) {
	for _, r := range runs {
		units = append(units, r.unit)
	}
	return units
}

// reloaded are the services whose definition has changed so that what runs of them
// is yet to be restarted, and those that are not up and on their way with a new one. What
// counts is how they are now: a run may have ended since the changes were found.
func (s *desk) reloaded(changes []control.Change, before map[string]uint64) (restarts []run, starts []*unit) {
	s.loop.ask(func() {
		for _, c := range changes {
			u := s.fleet.find(c.Service)
			if u == nil || u.fault != "" || u.state.Removed || !u.wanted() {
				continue
			}
			// One whose run from before has ended since waits for its next start.
			again := u.state.FellShort() || c.Action == "restart" && u.active()
			if u.older() != "" || again && u.state.LastID == before[u.name] {
				restarts = append(restarts, run{u, u.state.LastID})
			} else if up, problem := came(u); !up || problem != nil {
				starts = append(starts, u)
			}
		}
	})
	return restarts, starts
}

// reloading is the command that gives services their new definition: those of
// runs by a restart, unless they have another run by now.
func reloading(runs []run) verb {
	old := map[*unit]uint64{}
	for _, r := range runs {
		old[r.unit] = r.id
	}
	stale := func(u *unit) bool {
		id, ours := old[u]
		return ours && u.state.LastID == id && u.state.Want == machine.WantUp
	}
	return verb{
		name: "reload", renews: true,
		needed: stale,
		apply:  (*fleet).restartUnits,
		outcome: func(u *unit) func(*unit) (bool, *control.Problem) {
			if stale(u) {
				return restarted(u.state.ID)
			}
			return started()
		},
	}
}

// Adopt takes what a profile's state file says for what is wanted of it, and has
// its gateway follow that.
func (s *desk) Adopt(ctx context.Context, name string, what control.AdoptProfile, by control.Actor) (control.Outcome, error) {
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
