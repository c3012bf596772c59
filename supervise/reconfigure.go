package supervise

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/document"
	"rlminit/plan"
	"rlminit/supervise/order"
	"rlminit/supervise/registry"
	"rlminit/supervise/revision"
)

// Configuration is root's, as its file says it now.
func (s *revised) Configuration() (revision.Found, error) {
	path := s.prep.config().Path
	text, err := config.ReadUntrustedFile(path, document.MaxSize)
	if err != nil {
		return revision.Found{}, control.Failed("%v", err)
	}
	return revision.Found{Name: path, Content: revision.Content{Text: text}, Kept: true}, nil
}

// Replaceable says why another configuration cannot be put in its place.
func (s *revised) Replaceable() error { return s.prep.settings.Replaceable() }

// Preview is what another text would come to.
func (s *revised) Preview(file string, text []byte) (e revision.Effects, err error) {
	p, err := s.directory.registry.Preview(file, text)
	if err != nil {
		return e, err
	}
	for _, c := range p.Changes {
		if c.Refused() {
			return e, fmt.Errorf("%s: %s could not be run with it: %s", file, c.Service, c.Why)
		}
		e.Services = append(e.Services, plan.Affected{Service: c.Service, Effect: effectOf(c, p), Reason: c.Why})
	}
	e.Container, e.Later = p.Container, p.Later
	e.Judge = func(w plan.Wanted) (bool, error) { return s.judge(p.Config, w) }
	e.Taken = func(name string) bool { return taken(p.Config, name) != nil }
	return e, nil
}

// effectOf is what a change of a reload does to the process.
func effectOf(c control.Change, p *registry.Preview) string {
	switch {
	case c.Action == "restart":
		return plan.Restarts
	case c.Action == "remove":
		return plan.Stops
	case c.Action == "add" && p.Starts[c.Service], c.Action == "start":
		return plan.Starts
	}
	return plan.NoEffect
}

// Running tells which of some services are up.
func (s *revised) Running(services []plan.Affected) (touched []revision.Touched) {
	s.loop.ask(func() {
		for _, a := range services {
			t := revision.Touched{Service: a.Service, Effect: a.Effect}
			if u := s.fleet.units[a.Service]; u != nil {
				t.Up = u.seen().InService
			}
			touched = append(touched, t)
		}
	})
	return touched
}

// reconfigure puts a configuration in the place of the one that there is, brings it
// into force, and restarts what has to be, some at a time. Done again, it restarts
// that again: whether a process was begun with one definition or with the other is
// nowhere written down.
func (s *revised) reconfigure(ctx context.Context, c revision.Content, how revision.Put) error {
	if err := s.placer.place(ctx, config.TextDigest(c.Text)); err != nil {
		return err
	}
	if how.Cold {
		return s.directory.registry.Reread()
	}
	done, err := s.directory.registry.Reload(control.Reload{Operation: true})
	if err != nil {
		return err
	}
	for _, change := range done.Changes {
		if change.Refused() {
			return fmt.Errorf("%s: %s", change.Service, change.Why)
		}
	}
	return s.renew(ctx, how)
}

// renew gives a new process to the services that a change of the configuration
// restarts, as a part of its operation: at most how.Rolling of them at once. Who was
// commanded otherwise meanwhile is left alone, and ends it.
func (s *revised) renew(ctx context.Context, how revision.Put) error {
	var runs []run
	s.loop.ask(func() {
		for _, t := range how.Services {
			if u := s.fleet.units[t.Service]; u != nil && t.Effect == plan.Restarts && u.fault == "" && u.wanted() {
				runs = append(runs, run{u, u.state.LastID})
			}
		}
	})
	for len(runs) > 0 {
		n := min(max(how.Rolling, 1), len(runs))
		var halted error
		s.loop.ask(func() {
			for _, r := range runs[:n] {
				if standing := s.commands.operations.standing(how.Operation, r.unit); standing.Over() {
					halted = haltedBy(standing)
				}
			}
		})
		if halted != nil {
			return halted
		}
		v := reloading(runs[:n])
		outcomes, _, _ := s.commands.operateAs(ctx, v, unitsOf(runs[:n]), nil, control.Actor{UID: how.Actor}, &control.Wait{}, how.Operation)
		for _, o := range outcomes {
			if o.Problem != nil {
				return errors.New(o.Problem.Detail)
			}
		}
		runs = runs[n:]
	}
	return nil
}

// gateAll is Gate for the configuration: every service that it touches passes its
// own.
func (s *revised) gateAll(ctx context.Context, how revision.Gating) error {
	var units []*unit
	s.loop.ask(func() {
		for _, t := range how.Services {
			u := s.fleet.units[t.Service]
			if u == nil || how.Back && !t.Up || !how.Back && (t.Effect == plan.Stops || !u.wanted() && u.life.Turn() != order.Restart) {
				continue // it is gone, or is not to run, or was not up before either
			}
			units = append(units, u)
		}
	})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, u := range units {
		all.Go(func() {
			if err := s.pass(ctx, u, revision.Gating{Up: true, Steady: how.Steady, Operation: how.Operation}); err != nil && ctx.Err() == nil {
				var halted revision.Halted
				if !errors.As(err, &halted) {
					err = fmt.Errorf("%s: %w", u.title(), err)
				}
				cancel(err)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
