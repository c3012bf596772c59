package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/document"
	"rlminit/plan"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/supervise/revision"
	"rlminit/supervise/spawn"
)

// Applies tells whether a rule lets somebody apply plans.
func (s *backend) Applies(uid uint32) bool {
	return slices.ContainsFunc(s.prep.Config().Apply, func(r config.ApplyRule) bool { return r.UID == uid })
}

// revised is the supervisor as a revision changes it: revision.Box.
type revised struct {
	loop      *mailbox
	prep      *preparer
	fleet     *fleet
	directory *directory
	commands  *commands
	programs  *spawn.Programs
}

// Profiles is every profile.
func (s *revised) Profiles() ([]revision.Found, error) {
	store, err := s.directory.registry.Profiles.Store()
	if err != nil {
		return nil, err
	}
	list, err := store.List()
	if err != nil {
		return nil, err
	}
	found := make([]revision.Found, len(list))
	faults := map[string]string{}
	for _, st := range s.directory.registry.AtRest.List() {
		if st.Reason != nil {
			faults[*st.Profile] = *st.Reason
		}
	}
	s.loop.read(func() {
		for i, p := range list {
			found[i] = s.observe(p)
		}
	})
	for i := range found {
		found[i].Fault = cmp.Or(found[i].Fault, faults[found[i].Name])
		if found[i].Content.Secrets, err = store.Secrets.Of(found[i].Name); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Profile is one of them.
func (s *revised) Profile(name string) (f revision.Found, err error) {
	if plan.IsConfiguration(name) {
		return s.Configuration()
	}
	store, err := s.directory.registry.Profiles.Store()
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
	s.loop.read(func() { f = s.observe(p) })
	f.Content.Secrets, err = store.Secrets.Of(name)
	return f, err
}

// observe is a profile with what is alive of it. Who reads calls it.
func (s *revised) observe(p profiles.Profile) revision.Found {
	f := revision.Found{
		Name: p.Name, Kept: p.Name == profiles.Default,
		Content: revision.Content{Text: p.Text(), State: p.Record.Desired},
	}
	if p.Fault != nil {
		f.Fault = profiles.Reason(p.Fault)
	}
	u := s.fleet.units[p.Service()]
	if u == nil { // at rest, as a rule
		if f.Content.State == service.IntentNone {
			f.Content.State = service.Stopped
		}
		return f
	}
	f.Content.State = u.desired()
	if f.Fault == "" {
		f.Fault = u.fault
	}
	st := u.status()
	f.Up = u.state.Phase == machine.Running && u.state.Health != machine.Unhealthy
	on := u.state.Want == machine.WantUp
	switch {
	case u.definition.Schedule != nil: // when it runs is the schedule's
	case u.desired() == service.Running && st.State == "failed":
		f.Astray = "failed"
		if st.Reason != nil {
			f.Astray += ": " + *st.Reason
		}
	case u.desired() == service.Running && !on:
		f.Astray = "stopped"
	case u.desired() == service.Stopped && on:
		f.Astray = st.State
	}
	return f
}

// Judge says what is wrong with a declared profile, and whether its process
// would have to be replaced.
func (s *revised) Judge(w plan.Wanted) (restarts bool, err error) { return s.judge(s.prep.Config(), w) }

// judge is Judge where a configuration is in force.
func (s *revised) judge(c *config.Config, w plan.Wanted) (restarts bool, err error) {
	store, err := s.directory.registry.Profiles.Store()
	if err != nil {
		return false, err
	}
	name := profiles.GatewayName(w.Name)
	of := config.Profile{Name: w.Name}
	p, err := store.Load(w.Name)
	if err == nil {
		of.Dir, of.Port = p.Dir, p.Port
		err = taken(c, w.Name)
	} else {
		err = cmp.Or(taken(c, w.Name), store.Check(w.Name))
	}
	if err != nil {
		return false, document.Faults{{File: w.Node.File(), Line: w.Node.Line(), Field: "profiles." + w.Name, Text: err.Error()}}
	}
	cfg := c.For(name)
	if cfg.Gateway == nil {
		return false, fmt.Errorf("profiles.%s: the configuration has no gateway section", w.Name)
	}
	d, faults := cfg.DeclaredDefinition(of, w.Node, plan.Keys)
	s.loop.read(func() {
		if u := s.fleet.units[name]; u != nil {
			restarts, _ = service.NeedsRestart(u.definition, d)
		}
	})
	return restarts, faults.Err()
}

// Taken tells whether a service of the configuration in force has a name.
func (s *revised) Taken(name string) bool { return taken(s.prep.Config(), name) != nil }

// taken says that a service of a configuration has a profile's name.
func taken(c *config.Config, name string) error {
	return profiles.CheckTaken(name, profiles.SettingsOf(c).Services)
}

// Put makes a profile what it is to be. What is to stop is stopped first, and
// what is to start is started last, so that nothing runs between two definitions
// for longer than it must.
func (s *revised) Put(ctx context.Context, name string, c revision.Content, how revision.Put) error {
	switch {
	case plan.IsConfiguration(name):
		return s.reconfigure(ctx, c, how)
	case how.Cold:
		return s.record(name, c, how.Create)
	case how.Create:
		return s.directory.registry.Profiles.Make(name, c.Text, c.Secrets, c.State, how.Actor)
	}
	other, err := s.keepSecrets(name, c)
	if err != nil {
		return err
	}
	s.directory.registry.AtRest.WakeNamed(profiles.GatewayName(name))
	known, _, run := s.gateway(name)
	switch {
	case !known: // it has just come out of the trash
		if err := s.record(name, c, false); err != nil {
			return err
		}
	case c.State == service.Stopped:
		if err := s.command(ctx, "stop", name, how); err != nil {
			return err
		}
	}
	if err := s.directory.registry.Profiles.Replace(name, c.Text, how.Actor); err != nil {
		return err
	}
	switch _, on, now := s.gateway(name); {
	case c.State == service.Running && !on:
		return s.command(ctx, "start", name, how)
	case other && run != 0 && now == run: // what runs has the secrets from before
		return s.command(ctx, "restart", name, how)
	}
	return nil
}

// keepSecrets writes a profile's secrets, and tells whether they are others.
func (s *revised) keepSecrets(name string, c revision.Content) (changed bool, err error) {
	store, err := s.directory.registry.Profiles.Store()
	if err != nil {
		return false, err
	}
	return store.SetSecrets(name, c.Secrets)
}

// gateway is how a profile's service is: whether it has one yet, which is wanted and has not
// given up, and the id of a process of it that is not on its way out; 0: it has none.
func (s *revised) gateway(name string) (known, on bool, run uint64) {
	s.loop.read(func() {
		u := s.fleet.units[profiles.GatewayName(name)]
		if known = u != nil; !known {
			return
		}
		on = u.desired() == service.Running && (u.state.Want == machine.WantUp || u.definition.Schedule != nil) && u.state.Phase != machine.Failed
		if u.active() && u.state.Phase != machine.Stopping && u.state.Phase != machine.Sweeping {
			run = u.state.ID
		}
	})
	return known, on, run
}

// record is Put where nothing is supervised yet.
func (s *revised) record(name string, c revision.Content, create bool) error {
	store, err := s.directory.registry.Profiles.Store()
	if err != nil {
		return err
	}
	if create {
		_, _, err := store.Create(name, profiles.Creation{Text: c.Text, Secrets: c.Secrets, Intent: c.State})
		return err
	}
	if _, err := store.SetSecrets(name, c.Secrets); err != nil {
		return err
	}
	if _, err := store.Replace(name, c.Text); err != nil {
		return err
	}
	return store.Records.SaveIntent(name, c.State)
}

// command starts or stops a profile's service as a part of an operation, and waits
// for a stop.
func (s *revised) command(ctx context.Context, verb, name string, how revision.Put) error {
	u, err := s.directory.lookUp(profiles.GatewayName(name))
	if err != nil {
		return err
	}
	units := []*unit{u}
	cmd := commandOf(verb, units, control.Actor{UID: how.Actor})
	cmd.Part = how.Operation
	var wait *control.Wait
	if verb == core.VerbStop {
		wait = &control.Wait{}
	}
	outcomes, _, _ := s.commands.operate(ctx, cmd, units, wait)
	for _, o := range outcomes {
		if o.Problem != nil {
			err = o.Problem
		}
	}
	return err
}

// Discard stops a profile's service and moves it into the trash.
func (s *revised) Discard(ctx context.Context, name, trash string, how revision.Put) error {
	if !how.Cold {
		return s.directory.registry.Profiles.Discard(ctx, name, trash, how.Actor)
	}
	store, err := s.directory.registry.Profiles.Store()
	if err == nil {
		err = store.Discard(name, trash)
	}
	return err
}

// Trashed is what a profile is in the trash.
func (s *revised) Trashed(_, trash string) (c revision.Content, err error) {
	store, err := s.directory.registry.Profiles.Store()
	if err != nil {
		return c, err
	}
	c.Text, c.State, err = store.Trash.Look(trash)
	if errors.Is(err, fs.ErrNotExist) {
		return c, revision.ErrGone
	}
	if c.State == service.IntentNone {
		c.State = service.Stopped
	}
	return c, err
}

// Restore takes a profile back out of the trash, with these secrets.
func (s *revised) Restore(name, trash string, secrets map[string]string) error {
	store, err := s.directory.registry.Profiles.Store()
	if err == nil {
		_, err = store.Restore(name, trash, secrets)
	}
	return err
}
