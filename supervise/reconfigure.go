package supervise

import (
	"context"
	"errors"
	"fmt"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/document"
	"rlminit/plan"
	"rlminit/supervise/core"
	"rlminit/supervise/operation"
	"rlminit/supervise/registry"
	"rlminit/supervise/revision"
)

// Configuration is root's, as its file says it now.
func (s *revised) Configuration() (revision.Found, error) {
	path := s.prep.Config().Path
	text, err := config.ReadUntrustedFile(path, document.MaxSize)
	if err != nil {
		return revision.Found{}, control.Failed("%v", err)
	}
	return revision.Found{Name: path, Content: revision.Content{Text: text}, Kept: true}, nil
}

// Replaceable says why another configuration cannot be put in its place.
func (s *revised) Replaceable() error { return s.prep.Settings.Replaceable() }

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
	s.loop.read(func() {
		for _, a := range services {
			t := revision.Touched{Service: a.Service, Effect: a.Effect}
			if u := s.fleet.units[a.Service]; u != nil {
				t.Up = s.fleet.set.Up(u.life)
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
	if err := s.programs.Place(ctx, config.TextDigest(c.Text)); err != nil {
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
	var units []*unit
	var runs []uint64
	s.loop.read(func() {
		for _, t := range how.Services {
			if u := s.fleet.units[t.Service]; u != nil && t.Effect == plan.Restarts && u.fault == "" && u.wanted() {
				units, runs = append(units, u), append(runs, u.state.LastID)
			}
		}
	})
	cmd := commandOf(core.VerbReload, units, control.Actor{UID: how.Actor})
	cmd.Runs, cmd.Part, cmd.Width = runs, how.Operation, max(how.Rolling, 1)
	if _, refused := s.commands.begin(&cmd); refused != nil {
		return refused
	}
	var halted error
	err := s.commands.await(ctx, cmd.ID, func(o *core.Operation) bool {
		for _, m := range o.Members {
			switch {
			case m.State == operation.StateSuperseded, m.State == operation.StateCancelled:
				halted = haltedBy(how.Operation, m)
			case m.State == operation.StateFailed:
				halted = errors.New(m.Reason)
			}
		}
		return halted != nil || o.Over()
	})
	s.loop.do(func() { s.fleet.apply(core.Input{Kind: core.Drop, ID: cmd.ID}) })
	if halted != nil {
		return halted
	}
	return err
}
