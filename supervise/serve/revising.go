package serve

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
	"rlminit/profiles/secrets"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/supervise/revision"
)

// Applies tells whether a rule lets somebody apply plans.
func (s *Backend) Applies(uid uint32) bool {
	return slices.ContainsFunc(s.Settings.Current().Apply, func(r config.ApplyRule) bool { return r.UID == uid })
}

// Revised is the supervisor as a revision changes it: revision.Box.
type Revised struct{ *Backend }

// Profiles is every profile.
func (s *Revised) Profiles() ([]revision.Found, error) {
	store, err := s.Registry.Profiles.Store()
	if err != nil {
		return nil, err
	}
	list, err := store.List()
	if err != nil {
		return nil, err
	}
	found := make([]revision.Found, len(list))
	faults := map[string]string{}
	for _, st := range s.Registry.AtRest.List() {
		if st.Reason != nil {
			faults[*st.Profile] = *st.Reason
		}
	}
	s.loop.Read(func(now Services) {
		for i, p := range list {
			found[i] = observe(now.Named(p.Service()), p)
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
func (s *Revised) Profile(name string) (f revision.Found, err error) {
	if plan.IsConfiguration(name) {
		return s.Configuration()
	}
	store, err := s.Registry.Profiles.Store()
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
	f = observe(s.named(p.Service()), p)
	f.Content.Secrets, err = store.Secrets.Of(name)
	return f, err
}

// observe is a profile with what is alive of it.
func observe(u *View, p profiles.Profile) revision.Found {
	f := revision.Found{
		Name: p.Name, Kept: p.Name == profiles.Default,
		Content: revision.Content{Text: p.Text(), State: p.Record.Desired},
	}
	if p.Fault != nil {
		f.Fault = profiles.Reason(p.Fault)
		f.Unread = f.Fault
	}
	if u == nil { // at rest, as a rule
		if f.Content.State == service.IntentNone {
			f.Content.State = service.Stopped
		}
		return f
	}
	f.Content.State = u.Desired
	if f.Fault == "" {
		f.Fault = u.Fault
	}
	st := u.Status()
	f.Older = u.Older
	f.Up = u.State.Phase == machine.Running && u.State.Health != machine.Unhealthy
	on := u.State.Want == machine.WantUp
	f.Down = on && !f.Up && u.Definition.Schedule == nil
	switch {
	case u.Definition.Schedule != nil: // when it runs is the schedule's
	case u.Desired == service.Running && st.State == "failed":
		f.Astray = "failed"
		if st.Reason != nil {
			f.Astray += ": " + *st.Reason
		}
	case u.Desired == service.Running && !on:
		f.Astray = "stopped"
	case u.Desired == service.Stopped && on:
		f.Astray = st.State
	}
	return f
}

// Judge says what is wrong with a declared profile, and whether its process
// would have to be replaced.
func (s *Revised) Judge(w plan.Wanted) (restarts bool, err error) {
	return s.judge(s.Settings.Current(), w)
}

// judge is Judge where a configuration is in force.
func (s *Revised) judge(c *config.Config, w plan.Wanted) (restarts bool, err error) {
	store, err := s.Registry.Profiles.Store()
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
	if u := s.named(name); u != nil {
		restarts = u.Restarts(d) != ""
	}
	return restarts, faults.Err()
}

// Taken tells whether a service of the configuration in force has a name.
func (s *Revised) Taken(name string) bool { return taken(s.Settings.Current(), name) != nil }

// Ports is revision.Box's.
func (s *Revised) Ports(kinds map[string]string) error { return s.ports(s.Settings.Current(), kinds) }

// ports is Ports where a configuration is in force.
func (s *Revised) ports(c *config.Config, kinds map[string]string) error {
	if len(kinds) == 0 {
		return nil
	}
	store, err := s.Registry.Profiles.Store()
	if err != nil {
		return err
	}
	first, more, in, err := store.Portless(kinds, profiles.SettingsOf(c))
	if err != nil || first == "" {
		return err
	}
	who := "profile " + first + " finds"
	if more > 0 {
		who = fmt.Sprintf("profile %s and %d more find", first, more)
	}
	return control.NewProblem(control.KindUnhealthy, fmt.Sprintf("%s no port: all of %d-%d are taken then, and those of profiles that the plan deletes are free only after it; widen %s", who, in.First, in.Last, profiles.PortsKey(kinds[first])))
}

// taken says that a service of a configuration has a profile's name.
func taken(c *config.Config, name string) error {
	return profiles.CheckTaken(name, profiles.SettingsOf(c).Services)
}

// Put makes a profile what it is to be. What is to stop is stopped first, and
// what is to start is started last, so that nothing runs between two definitions
// for longer than it must.
func (s *Revised) Put(ctx context.Context, name string, c revision.Content, how revision.Put) error {
	switch {
	case plan.IsConfiguration(name):
		return s.reconfigure(ctx, c, how)
	case how.Create && !how.Cold:
		return s.Registry.Profiles.Make(name, c.Text, c.Secrets, c.State, how.Actor)
	}
	store, err := s.Registry.Profiles.Store()
	switch {
	case err != nil:
		return err
	case how.Cold && how.Create:
		_, _, err = store.Create(name, profiles.Creation{Text: c.Text, Secrets: c.Secrets, Intent: c.State, Actor: &profiles.Actor{UID: how.Actor}})
		return err
	}
	switch _, err := store.SetSecrets(name, c.Secrets, &how.Actor); {
	case err != nil:
		return err
	case how.Cold:
		return record(store, name, c)
	case how.Quiet:
		return s.Registry.Profiles.ReplaceLater(name, c.Text, how.Actor)
	}
	s.Registry.AtRest.WakeNamed(profiles.GatewayName(name))
	known, _ := s.gateway(name)
	switch {
	case !known: // it has just come out of the trash
		if err := record(store, name, c); err != nil {
			return err
		}
	case c.State == service.Stopped:
		if err := s.command(ctx, "stop", name, how); err != nil {
			return err
		}
	}
	if err := s.Registry.Profiles.Replace(name, c.Text, how.Actor); err != nil {
		return err
	}
	if _, on := s.gateway(name); c.State == service.Running && !on {
		return s.command(ctx, "start", name, how)
	}
	return nil
}

// gateway is how a profile's service is: whether it has one yet, which is wanted and has not
// given up.
func (s *Revised) gateway(name string) (known, on bool) {
	u := s.named(profiles.GatewayName(name))
	if u == nil {
		return false, false
	}
	return true, u.Desired == service.Running && (u.State.Want == machine.WantUp || u.Definition.Schedule != nil) && u.State.Phase != machine.Failed
}

// Meant is revision.Box's.
func (s *Revised) Meant(names []string, kind string) (meant []string, err error) {
	store, err := s.Registry.Profiles.Store()
	if err == nil && kind != "" {
		err = checkKind(s.Settings.Current(), kind)
	}
	if err != nil {
		return nil, err
	}
	list, err := store.List()
	if err != nil {
		return nil, err
	}
	known := []string{}
	for _, p := range list {
		known = append(known, p.Name)
	}
	for _, name := range names {
		if !slices.ContainsFunc(list, func(p profiles.Profile) bool { return matches(name, p.Name, p.Service()) }) {
			return nil, control.NoSuchProfile(name, known)
		}
	}
	for _, p := range list {
		named := len(names) == 0 || anyMatches(names, p.Name, p.Service())
		if named && (kind == "" || config.KindCalled(p.Kind()) == kind) {
			meant = append(meant, p.Name)
		}
	}
	if len(meant) == 0 {
		return nil, control.NewProblem(control.KindNoSuchName, "no profile is meant by that; rlminit profile list shows names and kinds")
	}
	return meant, nil
}

// Other is revision.Box's. One that has a fault already is refused too: nobody could tell
// whether it runs with the new values.
func (s *Revised) Other(f revision.Found, environment map[string]*string) ([]byte, error) {
	store, err := s.Registry.Profiles.Store()
	if err != nil {
		return nil, err
	}
	p, err := store.Load(f.Name)
	if err != nil {
		return nil, err
	}
	text, err := p.Other(environment)
	if err == nil {
		err = p.With(text).Valid(s.Settings.Current())
	}
	return text, err
}

// Announce and Withdraw are revision.Box's.
func (s *Revised) Announce(names []string) { s.Registry.Profiles.Announce(names) }
func (s *Revised) Withdraw(names []string) { s.Registry.Profiles.Withdraw(names) }

// Restart is revision.Box's.
func (s *Revised) Restart(ctx context.Context, names []string, how revision.Restart) (uint64, error) {
	services := make([]string, len(names))
	for i, name := range names {
		services[i] = profiles.GatewayName(name)
	}
	o, err := s.BeginOperation(ctx, control.BeginOperation{
		Verb: core.VerbRestart, Names: services, Rolling: how.Rolling, SteadyMS: how.Steady.Milliseconds(),
	}, how.Actor)
	return o.ID, err
}

// record is Put where nothing is supervised yet, of what has its secrets.
func record(store *profiles.Store, name string, c revision.Content) error {
	if _, err := store.Replace(name, c.Text); err != nil || c.State == service.IntentNone {
		return err
	}
	return store.Records.SaveIntent(name, c.State)
}

// command starts or stops a profile's service as a part of an operation, and waits
// for a stop.
func (s *Revised) command(ctx context.Context, verb, name string, how revision.Put) error {
	u, err := s.LookUp(profiles.GatewayName(name))
	if err != nil {
		return err
	}
	units := []*View{u}
	cmd := CommandOf(verb, units, control.Actor{UID: how.Actor})
	cmd.Part = how.Operation
	var wait *control.Wait
	if verb == core.VerbStop {
		wait = &control.Wait{}
	}
	outcomes, _, _ := s.Give(ctx, cmd, units, wait)
	for _, o := range outcomes {
		if o.Problem != nil {
			err = o.Problem
		}
	}
	return err
}

// Discard stops a profile's service and moves it into the trash.
func (s *Revised) Discard(ctx context.Context, name, trash string, how revision.Put) error {
	if !how.Cold {
		return s.Registry.Profiles.Discard(ctx, name, trash, how.Actor)
	}
	store, err := s.Registry.Profiles.Store()
	if err == nil {
		err = store.Discard(name, trash)
	}
	return err
}

// Trashed is what a profile is in the trash.
func (s *Revised) Trashed(_, trash string) (c revision.Content, err error) {
	store, err := s.Registry.Profiles.Store()
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
	if err == nil {
		c.Secrets, err = store.Secrets.Of(secrets.Trashed(trash))
	}
	return c, err
}

// Restore takes a profile back out of the trash, with these secrets.
func (s *Revised) Restore(name, trash string, set map[string]string, actor uint32) error {
	store, err := s.Registry.Profiles.Store()
	if err == nil {
		_, err = store.Restore(name, trash, set, &actor)
	}
	return err
}
