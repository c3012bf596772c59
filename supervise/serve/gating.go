package serve

import (
	"context"
	"errors"
	"fmt"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/document"
	"rlminit/plan"
	"rlminit/profiles"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
	"rlminit/supervise/registry"
	"rlminit/supervise/revision"
)

// Begin notes what a revision does about a profile as an operation.
func (s *Revised) Begin(verb string, k revision.Kept, actor uint32, halted func(revision.Halted)) (id uint64) {
	cmd := &core.Command{Verb: verb, Actor: operation.Actor{UID: actor}}
	for _, m := range s.membersOf(k) {
		cmd.Names, cmd.Pids = append(cmd.Names, m.Name), append(cmd.Pids, m.PID)
	}
	s.loop.Begin(cmd)
	id = cmd.ID
	if store := s.Volume.Store(); store != nil {
		store.Records.Note(profiles.Command{Operation: id, Verb: verb, Services: servicesOf(k), Actor: &profiles.Actor{UID: actor}})
	}
	go func() {
		var by operation.Member
		_ = s.loop.Await(context.Background(), id, func(_ Services, o *core.Operation) bool {
			for i := range o.Members {
				if m := o.Members[i]; m.State == operation.StateSuperseded || m.State == operation.StateCancelled {
					by = m
				}
			}
			return o.Over() || by.State != ""
		})
		s.loop.Tell(core.Input{Kind: core.Drop, ID: id})
		if by.State != "" {
			halted(haltedBy(id, by))
		}
	}()
	return id
}

// End notes what came of it.
func (s *Revised) End(id uint64, k revision.Kept, why string) {
	state := operation.StateDone
	if why != "" {
		state = operation.StateFailed
	}
	for _, m := range s.membersOf(k) { // as they are now
		m.State, m.Reason = state, why
		s.loop.Tell(core.Input{Kind: core.Became, ID: id, Member: m})
	}
	_ = s.loop.Await(context.Background(), id, func(Services, *core.Operation) bool { return true }) // who looks from here on sees it
}

// servicesOf are the services that a step is about.
func servicesOf(k revision.Kept) (names []string) {
	if !plan.IsConfiguration(k.Name) {
		return []string{profiles.GatewayName(k.Name)}
	}
	for _, a := range k.Services {
		names = append(names, a.Service)
	}
	return names
}

// membersOf are the members of the operation that a step is, with their processes.
func (s *Revised) membersOf(k revision.Kept) (members []operation.Member) {
	if plan.IsConfiguration(k.Name) {
		members = append(members, operation.Member{Name: k.Name})
	}
	for _, name := range servicesOf(k) {
		m := operation.Member{Name: name}
		if u := s.named(name); u != nil {
			m.Name, m.PID = u.Title, u.State.PID
		} else if !plan.IsConfiguration(k.Name) {
			m.Name = k.Name
		}
		members = append(members, m)
	}
	return members
}

// haltedBy is why a step of an operation goes no further.
func haltedBy(id uint64, m operation.Member) revision.Halted {
	if m.State == operation.StateCancelled {
		return revision.Halted{Cancelled: true, Why: fmt.Sprintf("operation %d was cancelled", id)}
	}
	return revision.Halted{Why: "somebody has commanded it meanwhile, " + m.Reason}
}

// Gate waits until a service has passed its gate; of the configuration, every service
// that it touches.
func (s *Revised) Gate(ctx context.Context, name string, how revision.Gating) error {
	if !plan.IsConfiguration(name) {
		u, err := s.LookUp(profiles.GatewayName(name))
		if err != nil {
			return errors.New("it was removed")
		}
		if u.Definition.Schedule != nil && u.Fault == "" {
			return nil // when it runs is the schedule's
		}
		_, err = s.pass(ctx, []*View{u}, how)
		return err
	}
	var units []*View
	s.loop.Read(func(now Services) {
		for _, t := range how.Services {
			u := now.Named(t.Service)
			if u == nil || how.Back && !t.Up || !how.Back && (t.Effect == plan.Stops || !u.Wanted) {
				continue // it is gone, or is not to run, or was not up before either
			}
			units = append(units, u)
		}
	})
	how.Up = true
	name, err := s.pass(ctx, units, how)
	var halted revision.Halted
	if err != nil && ctx.Err() == nil && !errors.As(err, &halted) {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return err
}

// pass is Gate for units. It names the one that has not passed.
func (s *Revised) pass(ctx context.Context, units []*View, how revision.Gating) (name string, err error) {
	m, err := s.watch(ctx, units, operation.Gate{Down: !how.Up, Strict: how.Up, Steady: how.Steady}, how.Operation)
	switch {
	case err != nil:
		return m.Name, err
	case m.State == operation.StateSuperseded, m.State == operation.StateCancelled:
		return m.Name, haltedBy(how.Operation, m)
	case m.State == operation.StateInterrupted: // nothing is judged any more
		<-ctx.Done()
		return m.Name, ctx.Err()
	case m.State != operation.StateFailed:
		return m.Name, nil
	}
	switch m.Why {
	case operation.Started:
		return m.Name, errors.New("somebody has started it")
	case operation.Early, operation.Unhealthy:
		return m.Name, errors.New(m.Reason)
	}
	s.loop.Read(func(now Services) {
		err = errors.New("it was removed")
		if u := now.Find(m.Name); u != nil {
			err = u.died()
		}
	})
	return m.Name, err
}

// died is why u is not up, with its last lines.
func (u *View) died() error {
	switch {
	case u.Fault != "":
		return errors.New(u.Fault)
	case u.State.Phase == machine.Gone:
		return errors.New("it was removed")
	case u.State.Phase == machine.Stopped:
		return errors.New("somebody has stopped it")
	case u.State.Phase == machine.Waiting:
		return fmt.Errorf("it is waiting: %s", u.State.Blocked)
	}
	problem := control.Failed("%s", u.Life.Failure())
	for _, line := range u.Lines {
		problem.Detail += "\n" + line
	}
	return problem
}

// Configuration is root's, as its file says it now.
func (s *Revised) Configuration() (revision.Found, error) {
	path := s.Settings.Current().Path
	text, err := config.ReadUntrustedFile(path, document.MaxSize)
	if err != nil {
		return revision.Found{}, control.Failed("%v", err)
	}
	return revision.Found{Name: path, Content: revision.Content{Text: text}, Kept: true}, nil
}

// Replaceable says why another configuration cannot be put in its place.
func (s *Revised) Replaceable() error { return s.Settings.Replaceable() }

// Preview is what another text would come to.
func (s *Revised) Preview(file string, text []byte) (e revision.Effects, err error) {
	p, err := s.Registry.Preview(file, text)
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
	e.Ports = func(kinds map[string]string) error { return s.ports(p.Config, kinds) }
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
func (s *Revised) Running(services []plan.Affected) (touched []revision.Touched) {
	s.loop.Read(func(now Services) {
		for _, a := range services {
			t := revision.Touched{Service: a.Service, Effect: a.Effect}
			if u := now.Named(a.Service); u != nil {
				t.Up = now.Core().Up(u.Life)
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
func (s *Revised) reconfigure(ctx context.Context, c revision.Content, how revision.Put) error {
	if err := s.Place(ctx, config.TextDigest(c.Text)); err != nil {
		return err
	}
	if how.Cold {
		return s.Registry.Reread()
	}
	done, err := s.Registry.Reload(control.Reload{Operation: true})
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
func (s *Revised) renew(ctx context.Context, how revision.Put) error {
	var units []*View
	var runs []uint64
	s.loop.Read(func(now Services) {
		for _, t := range how.Services {
			if u := now.Named(t.Service); u != nil && t.Effect == plan.Restarts && u.Fault == "" && u.Wanted {
				units, runs = append(units, u), append(runs, u.State.LastID)
			}
		}
	})
	cmd := CommandOf(core.VerbReload, units, control.Actor{UID: how.Actor})
	cmd.Runs, cmd.Part, cmd.Width = runs, how.Operation, max(how.Rolling, 1)
	if _, refused := s.loop.Begin(&cmd); refused != nil {
		return refused
	}
	var halted error
	err := s.loop.Await(ctx, cmd.ID, func(_ Services, o *core.Operation) bool {
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
	s.loop.Tell(core.Input{Kind: core.Drop, ID: cmd.ID})
	if halted != nil {
		return halted
	}
	return err
}
