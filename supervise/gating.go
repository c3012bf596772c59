package supervise

import (
	"context"
	"errors"
	"fmt"

	"rlminit/control"
	"rlminit/plan"
	"rlminit/profiles"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
	"rlminit/supervise/revision"
)

// Begin notes what a revision does about a profile as an operation.
func (s *revised) Begin(verb string, k revision.Kept, actor uint32, halted func(revision.Halted)) (id uint64) {
	services := servicesOf(k)
	s.loop.ask(func() {
		id = s.commands.newID(false)
		if store := s.prep.volume.Store(); store != nil {
			of := profiles.Actor{UID: actor}
			store.Records.Note(profiles.Command{Operation: id, Verb: verb, Services: services, Actor: &of})
		}
		cmd := &core.Command{ID: id, Verb: verb, Actor: operation.Actor{UID: actor}}
		for _, m := range s.membersOf(k) {
			cmd.Names, cmd.Pids = append(cmd.Names, m.Name), append(cmd.Pids, m.PID)
		}
		s.fleet.apply(core.Input{Kind: core.Commanded, Command: cmd})
	})
	go func() {
		var by operation.Member
		_ = s.commands.await(context.Background(), id, func(o *core.Operation) bool {
			for i := range o.Members {
				if m := o.Members[i]; m.State == operation.StateSuperseded || m.State == operation.StateCancelled {
					by = m
				}
			}
			return o.Over() || by.State != ""
		})
		if by.State != "" {
			halted(haltedBy(id, by))
		}
	}()
	return id
}

// End notes what came of it.
func (s *revised) End(id uint64, k revision.Kept, why string) {
	state := operation.StateDone
	if why != "" {
		state = operation.StateFailed
	}
	s.loop.ask(func() {
		for _, m := range s.membersOf(k) { // as they are now
			m.State, m.Reason = state, why
			s.fleet.apply(core.Input{Kind: core.Became, ID: id, Member: m})
		}
	})
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
// Only the loop calls it.
func (s *revised) membersOf(k revision.Kept) (members []operation.Member) {
	if plan.IsConfiguration(k.Name) {
		members = append(members, operation.Member{Name: k.Name})
	}
	for _, name := range servicesOf(k) {
		m := operation.Member{Name: name}
		if u := s.fleet.units[name]; u != nil {
			m.Name, m.PID = u.title(), u.pid()
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
func (s *revised) Gate(ctx context.Context, name string, how revision.Gating) error {
	if !plan.IsConfiguration(name) {
		u, err := s.directory.lookUp(profiles.GatewayName(name))
		if err != nil {
			return errors.New("it was removed")
		}
		_, err = s.pass(ctx, []*unit{u}, how)
		return err
	}
	var units []*unit
	s.loop.read(func() {
		for _, t := range how.Services {
			u := s.fleet.units[t.Service]
			if u == nil || how.Back && !t.Up || !how.Back && (t.Effect == plan.Stops || !u.life.Wanted()) {
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
func (s *revised) pass(ctx context.Context, units []*unit, how revision.Gating) (name string, err error) {
	m, err := s.commands.watch(ctx, units, operation.Gate{Down: !how.Up, Strict: how.Up, Steady: how.Steady}, how.Operation)
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
	s.loop.read(func() {
		if err = errors.New("it was removed"); s.fleet.find(m.Name) != nil {
			err = s.fleet.find(m.Name).died()
		}
	})
	return m.Name, err
}

// died is why u is not up, with its last lines.
func (u *unit) died() error {
	switch {
	case u.fault != "":
		return errors.New(u.fault)
	case u.state.Phase == machine.Gone:
		return errors.New("it was removed")
	case u.state.Phase == machine.Stopped:
		return errors.New("somebody has stopped it")
	case u.state.Phase == machine.Waiting:
		return fmt.Errorf("it is waiting: %s", u.state.Blocked)
	}
	problem := control.Failed("%s", u.life.Failure())
	for _, line := range u.output.lines {
		problem.Detail += "\n" + line
	}
	return problem
}
