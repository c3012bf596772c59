package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rlminit/control"
	"rlminit/plan"
	"rlminit/profiles"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
	"rlminit/supervise/revision"
)

// Begin notes what a revision does about a profile as an operation.
func (s *revised) Begin(verb string, k revision.Kept, actor uint32, halted func(revision.Halted)) (id uint64) {
	by := control.Actor{UID: actor}
	services := servicesOf(k)
	id = s.commands.operations.book.NewID()
	if store := s.prep.volume.Store(); store != nil {
		of := profiles.Actor(by)
		store.Records.Note(profiles.Command{Operation: id, Verb: verb, Services: services, Actor: &of})
	}
	var begun operation.Handle
	s.loop.ask(func() {
		members := s.membersOf(k)
		begun = s.commands.operations.begin(id, verb, members, nil, operation.Running, by, nil)
	})
	go func() {
		for {
			o, changed := begun.Now()
			for _, m := range o.Members {
				standing := operation.Standing{Operation: id, State: m.State, Reason: m.Reason}
				if standing.Over() {
					halted(haltedBy(standing))
					return
				}
			}
			if o.Over() {
				return
			}
			<-changed
		}
	}()
	return id
}

// End notes what came of it.
func (s *revised) End(id uint64, k revision.Kept, why string) {
	state := operation.Done
	if why != "" {
		state = operation.Failed
	}
	s.loop.ask(func() {
		for _, m := range s.membersOf(k) { // as they are now
			s.commands.operations.book.Member(id, m.Name, state, why, m.OldPID)
		}
		s.commands.operations.keep()
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
func (s *revised) membersOf(k revision.Kept) (members []control.OperationMember) {
	if plan.IsConfiguration(k.Name) {
		members = append(members, control.OperationMember{Name: k.Name})
	}
	for _, name := range servicesOf(k) {
		m := control.OperationMember{Name: name}
		if u := s.fleet.units[name]; u != nil {
			m.Name, m.OldPID = u.title(), u.pid()
		} else if !plan.IsConfiguration(k.Name) {
			m.Name = k.Name
		}
		members = append(members, m)
	}
	return members
}

// haltedBy is why a step goes no further.
func haltedBy(standing operation.Standing) revision.Halted {
	return revision.Halted{Cancelled: standing.State == operation.Cancelled, Why: standing.Why()}
}

// Gate waits until a service has passed its gate. Each look is a piece of the
// loop's work, which knows of a later command before anything that follows from it
// is to be seen.
func (s *revised) Gate(ctx context.Context, name string, how revision.Gating) error {
	if plan.IsConfiguration(name) {
		return s.gateAll(ctx, how)
	}
	u, err := s.directory.lookUp(profiles.GatewayName(name))
	if err != nil {
		return errors.New("it was removed")
	}
	return s.pass(ctx, u, how)
}

// pass is Gate for a service.
func (s *revised) pass(ctx context.Context, u *unit, how revision.Gating) error {
	gate := operation.Gate{Down: !how.Up, Steady: how.Steady}
	begun := time.Now()
	for {
		var j operation.Judgement
		var problem error
		waits := false // for time alone
		look := func(u *unit) (bool, *control.Problem) {
			if s.fleet.set.Stopping() { // nothing is judged any more
				return false, nil
			}
			seen := u.seen()
			if u.state.Phase == machine.Running { // one that goes on running is watched as well
				seen.For = min(seen.For, time.Since(begun))
			}
			standing := s.commands.operations.standing(how.Operation, u)
			if seen.Ended && u.output.unheard > 0 && !standing.Over() {
				return false, nil // its last lines are on their way
			}
			j = gate.Look(seen, standing)
			switch {
			case standing.Over():
				problem = haltedBy(standing)
			case j.Why != "" && seen.Ended:
				problem = u.died()
			case j.Why != "":
				problem = errors.New(j.Why)
			}
			return j.Passed || problem != nil || j.Wait > 0 != waits, nil
		}
		s.loop.until(ctx, u, look)
		if waits = j.Wait > 0; waits {
			enough, cancel := context.WithTimeout(ctx, j.Wait)
			s.loop.until(enough, u, look)
			cancel()
		}
		switch {
		case problem != nil || j.Passed:
			return problem
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
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
	problem := u.failure()
	for _, line := range u.output.lines {
		problem.Detail += "\n" + line
	}
	return problem
}
