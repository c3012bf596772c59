package supervise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/document"
	"rlminit/plan"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
	"rlminit/supervise/revision"
)

// openRevisions makes ready what carries plans out. store is the volume's, and
// its lock is ours.
func (s *Supervisor) openRevisions(store *profiles.Store) {
	c := s.chronicle
	j := c.journal.Load()
	if j == nil {
		return // which was said
	}
	ledger := revision.Journal{Journal: j, Records: c.revisions, BootID: c.boot}
	s.revisions.Store(revision.New(revised{s}, ledger, revision.Files{Home: store.Ours()}, s.applying))
}

// rewind puts back, before anything is started, what an apply was in the middle
// of when the container ended.
func (s *Supervisor) rewind() {
	if r := s.revisions.Load(); r != nil && !s.work.Done(handover.Registered) {
		r.Rewind()
	}
}

// resume goes on with what an apply was in the middle of when our predecessor
// ended.
func (s *Supervisor) resume() {
	if r := s.revisions.Load(); r != nil {
		r.Resume()
	}
}

// unrevised says why there are no revisions.
func (s *Supervisor) unrevised() error {
	if _, err := s.registry.Store(); err != nil {
		return err
	}
	return control.Conflict("plans cannot be applied: the volume has no journal; the log of rlminit says why")
}

// applying is what root's configuration says of who may apply.
func (s *Supervisor) applying() revision.Settings {
	settings := revision.Settings{User: s.policy.User.UID}
	if rules := s.config().Apply; rules != nil {
		settings.Allow = []plan.Rule{}
		for _, r := range rules {
			settings.Allow = append(settings.Allow, plan.Rule{UID: r.UID, Scope: r.Scope})
		}
	}
	return settings
}

// Applies tells whether a rule lets somebody apply plans.
func (s desk) Applies(uid uint32) bool {
	return slices.ContainsFunc(s.config().Apply, func(r config.ApplyRule) bool { return r.UID == uid })
}

// revised is the supervisor as a revision changes it: revision.Box.
type revised struct{ *Supervisor }

// Profiles is every profile.
func (s revised) Profiles() ([]revision.Found, error) {
	store, err := s.registry.Store()
	if err != nil {
		return nil, err
	}
	list, err := store.List()
	if err != nil {
		return nil, err
	}
	found := make([]revision.Found, len(list))
	s.ask(func() {
		for i, p := range list {
			found[i] = s.observe(p)
		}
	})
	for i := range found {
		if found[i].Content.Secrets, err = store.Secrets(found[i].Name); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Profile is one of them.
func (s revised) Profile(name string) (f revision.Found, err error) {
	store, err := s.registry.Store()
	if err != nil {
		return f, err
	}
	p, err := store.Load(name)
	if errors.Is(err, profiles.ErrNotFound) {
		return f, revision.ErrGone
	}
	if err != nil {
		return f, err
	}
	s.ask(func() { f = s.observe(p) })
	f.Content.Secrets, err = store.Secrets(name)
	return f, err
}

// observe is a profile with what is alive of it. Only the loop calls it.
func (s revised) observe(p profiles.Profile) revision.Found {
	f := revision.Found{
		Name: p.Name, Kept: p.Name == profiles.Default,
		Content: revision.Content{Text: p.Text(), State: p.Record.Desired},
	}
	if p.Fault != nil {
		f.Fault = profiles.Reason(p.Fault)
	}
	u := s.units[p.Service()]
	if u == nil {
		if f.Content.State == service.IntentNone {
			f.Content.State = service.Stopped
		}
		return f
	}
	f.Content.State = u.desired
	if f.Fault == "" {
		f.Fault = u.fault
	}
	st := u.status()
	f.Up = u.state.Phase == machine.Running && u.state.Health != machine.Unhealthy
	on := u.state.Want == machine.WantUp
	switch {
	case u.desired == service.Running && st.State == "failed":
		f.Astray = "failed"
		if st.Reason != nil {
			f.Astray += ": " + *st.Reason
		}
	case u.desired == service.Running && !on:
		f.Astray = "stopped"
	case u.desired == service.Stopped && on:
		f.Astray = st.State
	}
	return f
}

// Judge says what is wrong with a declared profile, and whether its process
// would have to be replaced.
func (s revised) Judge(w plan.Wanted) (restarts bool, err error) {
	store, err := s.registry.Store()
	if err != nil {
		return false, err
	}
	name := profiles.GatewayName(w.Name)
	of := config.Profile{Name: w.Name}
	p, err := store.Load(w.Name)
	if err == nil {
		of.Dir, of.Port = p.Dir, p.Port
	} else if err := store.Check(w.Name); err != nil {
		return false, document.Faults{{File: w.Node.File(), Line: w.Node.Line(), Field: "profiles." + w.Name, Text: err.Error()}}
	}
	cfg := s.config().For(name)
	if cfg.Gateway == nil {
		return false, fmt.Errorf("the configuration that was reloaded for %s has no gateway section", w.Name)
	}
	d, faults := cfg.DeclaredDefinition(of, w.Node, plan.Keys)
	s.ask(func() {
		if u := s.units[name]; u != nil {
			restarts, _ = service.NeedsRestart(u.definition, d)
		}
	})
	return restarts, faults.Err()
}

// Secrets tells whether there is a way to give services secrets.
func (s revised) Secrets() bool { return true }

// Put makes a profile what it is to be. What is to stop is stopped first, and
// what is to start is started last, so that nothing runs between two definitions
// for longer than it must.
func (s revised) Put(ctx context.Context, name string, c revision.Content, how revision.Put) error {
	switch {
	case how.Cold:
		return s.record(name, c, how.Create)
	case how.Create:
		return s.registry.Make(name, c.Text, c.Secrets, c.State, how.Actor)
	}
	other, err := s.keepSecrets(name, c)
	if err != nil {
		return err
	}
	run := s.run(name)
	switch {
	case !s.known(name): // it has just come out of the trash
		if err := s.record(name, c, false); err != nil {
			return err
		}
	case c.State == service.Stopped:
		if err := s.command(ctx, "stop", name, how); err != nil {
			return err
		}
	}
	if err := s.registry.Replace(name, c.Text, how.Actor); err != nil {
		return err
	}
	switch {
	case c.State == service.Running && !s.on(name):
		return s.command(ctx, "start", name, how)
	case other && run != 0 && s.run(name) == run: // what runs has the secrets from before
		return s.command(ctx, "restart", name, how)
	}
	return nil
}

// keepSecrets writes a profile's secrets, and tells whether they are others.
func (s revised) keepSecrets(name string, c revision.Content) (changed bool, err error) {
	store, err := s.registry.Store()
	if err != nil {
		return false, err
	}
	return store.SaveSecrets(name, c.Secrets)
}

// run is the id of a process that a profile's service has, and is not on its
// way out; 0: it has none.
func (s revised) run(name string) (id uint64) {
	s.ask(func() {
		if u := s.units[profiles.GatewayName(name)]; u != nil && u.active() && u.state.Phase != machine.Stopping && u.state.Phase != machine.Sweeping {
			id = u.state.ID
		}
	})
	return id
}

// record is Put where nothing is supervised yet.
func (s revised) record(name string, c revision.Content, create bool) error {
	store, err := s.registry.Store()
	if err != nil {
		return err
	}
	if _, err := store.SaveSecrets(name, c.Secrets); err != nil {
		return err
	}
	if create {
		_, _, err := store.Create(name, profiles.Creation{Text: c.Text, Secrets: c.Secrets, Intent: c.State})
		return err
	}
	if _, err := store.Replace(name, c.Text); err != nil {
		return err
	}
	return store.SaveIntent(profiles.Gateway(name), c.State)
}

// known tells whether a profile has a service yet.
func (s revised) known(name string) (known bool) {
	s.ask(func() { known = s.units[profiles.GatewayName(name)] != nil })
	return known
}

// on tells whether a profile's service is wanted, and has not given up.
func (s revised) on(name string) (on bool) {
	s.ask(func() {
		u := s.units[profiles.GatewayName(name)]
		on = u != nil && u.desired == service.Running && u.state.Want == machine.WantUp && u.state.Phase != machine.Failed
	})
	return on
}

// Begin notes what a revision does about a profile as an operation.
func (s revised) Begin(verb, name string, actor uint32, halted func(cancelled bool, why string)) (id uint64) {
	by := control.Actor{UID: actor}
	service := profiles.GatewayName(name)
	id = s.operations.NewID()
	if store := s.volume.Store(); store != nil {
		of := profiles.Actor(by)
		store.Note(profiles.Command{Operation: id, Verb: verb, Services: []string{service}, Actor: &of})
	}
	s.ask(func() {
		member := control.OperationMember{Name: name}
		if u := s.units[service]; u != nil {
			member.OldPID = u.pid()
		}
		cancel := func() { go halted(true, fmt.Sprintf("operation %d was cancelled", id)) }
		s.operations.Begin(id, verb, by, time.Now().UTC(), []control.OperationMember{member}, operation.Running, cancel)
		s.keepOperations()
	})
	go func() {
		for {
			o, changed, problem := s.operations.Get(id)
			switch {
			case problem != nil:
				return // forgotten
			case o.State == operation.Superseded:
				halted(false, "somebody has commanded it meanwhile, "+o.Reason)
				return
			case o.Over():
				return
			}
			<-changed
		}
	}()
	return id
}

// End notes what came of it.
func (s revised) End(id uint64, name, why string) {
	state, pid := operation.Done, 0
	if why != "" {
		state = operation.Failed
	}
	s.ask(func() {
		if u := s.units[profiles.GatewayName(name)]; u != nil {
			pid = u.pid()
		}
		s.operations.Member(id, name, state, why, pid)
		s.keepOperations()
	})
}

// command starts or stops a profile's service as a part of an operation, and waits
// for a stop.
func (s revised) command(ctx context.Context, verb, name string, how revision.Put) error {
	u, err := s.lookUp(profiles.GatewayName(name))
	if err != nil {
		return err
	}
	v, units := verbs[verb], []*unit{u}
	var wait *control.Wait
	if verb == "stop" {
		wait = &control.Wait{}
	}
	outcomes, _ := s.operateAs(ctx, v, units, s.startedAlong(v, units), control.Actor{UID: how.Actor}, wait, how.Operation)
	for _, o := range outcomes {
		if o.Problem != nil {
			err = o.Problem
		}
	}
	return err
}

// Discard stops a profile's service and moves it into the trash.
func (s revised) Discard(ctx context.Context, name, trash string, how revision.Put) error {
	if !how.Cold {
		return s.registry.Discard(ctx, name, trash, how.Actor)
	}
	store, err := s.registry.Store()
	if err == nil {
		err = store.Discard(name, trash)
	}
	return err
}

// Restore takes a profile back out of the trash.
func (s revised) Restore(name, trash string) error {
	store, err := s.registry.Store()
	if err == nil {
		_, err = store.Restore(name, trash)
	}
	return err
}

// Gate waits until a service has been ready for as long as steady says, or is
// down.
func (s revised) Gate(ctx context.Context, name string, up bool, steady time.Duration) error {
	u, err := s.lookUp(profiles.GatewayName(name))
	if err != nil {
		return errors.New("it was removed")
	}
	if !up {
		return s.until(ctx, u, func(u *unit) (bool, *control.Problem) {
			if u.state.Want == machine.WantUp {
				return true, control.Conflict("somebody has started it")
			}
			return !u.active() && u.state.Phase != machine.Backoff, nil
		})
	}
	var run uint64
	done := false
	err = s.until(ctx, u, func(u *unit) (bool, *control.Problem) {
		over, problem := u.risen()
		run, done = u.state.ID, u.state.Phase == machine.Exited
		return over, problem
	})
	if err != nil || done || steady <= 0 {
		return err
	}
	enough, cancel := context.WithTimeout(ctx, steady)
	defer cancel()
	err = s.until(enough, u, func(u *unit) (bool, *control.Problem) {
		if u.state.Phase == machine.Running && u.state.ID == run && u.state.Health != machine.Unhealthy && u.state.Want == machine.WantUp {
			return false, nil
		}
		_, problem := u.risen()
		switch {
		case u.state.Health == machine.Unhealthy:
			problem = control.Unhealthy("it has become unhealthy")
		case problem == nil:
			problem = control.Failed("it was restarted when it had been ready for less than %s", steady)
		}
		return true, problem
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil // it has been ready all the time
	}
	return err
}

// risen is over when u is ready, or will not be.
func (u *unit) risen() (bool, *control.Problem) {
	died := func() *control.Problem {
		problem := u.failure()
		for _, line := range u.lastLines {
			problem.Detail += "\n" + line
		}
		return problem
	}
	switch {
	case u.fault != "":
		return true, control.Failed("%s", u.fault)
	case u.state.Phase == machine.Gone:
		return true, control.Failed("it was removed")
	case u.state.Phase == machine.Exited && u.state.Satisfies(u.policy):
		return true, nil
	case u.state.Phase == machine.Exited, u.state.Phase == machine.Failed, u.state.Phase == machine.Parked, u.state.Phase == machine.Backoff:
		return u.unheard == 0, died()
	case u.state.Want != machine.WantUp && u.state.Settled():
		return true, control.Failed("somebody has stopped it")
	case u.state.Phase == machine.Waiting && u.stuck:
		return true, control.Failed("it is waiting: %s", u.state.Blocked)
	}
	return u.state.Phase == machine.Running && u.state.Health != machine.Unhealthy, nil
}

// until waits until something is over for u, or ctx is.
func (s revised) until(ctx context.Context, u *unit, over func(*unit) (bool, *control.Problem)) error {
	var w *waiter
	s.ask(func() { w = s.wait(u, false, over) })
	select {
	case outcome := <-w.outcome:
		if outcome.Problem != nil {
			return outcome.Problem
		}
		return nil
	case <-ctx.Done():
		s.ask(func() { u.waiters = slices.DeleteFunc(u.waiters, func(other *waiter) bool { return other == w }) })
		return ctx.Err()
	}
}
