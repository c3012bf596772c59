package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/control"
	"rlminit/profiles"
	"rlminit/reconcile"
	"rlminit/service"
	"rlminit/wire"
)

// reloadOnSignal is SIGHUP: everything is read again, and what changed is said.
func (s *Supervisor) reloadOnSignal() {
	go func() {
		done, err := s.reload(control.Reload{})
		if err != nil {
			slog.Error("cannot reload; everything stays as it is", "err", err)
			return
		}
		for _, c := range done.Changes {
			level := slog.LevelInfo
			if c.Refused() {
				level = slog.LevelError
			}
			slog.Log(context.Background(), level, "reloaded", "service", c.Service, "action", c.Action, "why", c.Why)
		}
		for _, note := range done.Notes {
			slog.Warn("reload: " + note)
		}
	}()
}

func (s *Supervisor) postReload(r *http.Request) (any, error) {
	var body control.Reload
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	for _, name := range body.Names {
		if _, err := s.lookUp(name); err != nil {
			return nil, err
		}
	}
	return s.reload(body)
}

// reload reads the configuration and the volume again, and brings into force
// what changed; with DryRun it only says what that would be. A configuration
// with a fault changes nothing.
func (s *Supervisor) reload(how control.Reload) (*control.Reloaded, error) {
	s.registrar.Lock()
	defer s.registrar.Unlock()
	old := s.config()
	bundle, err := config.ReadBundle(old.Path)
	if errors.Is(err, fs.ErrPermission) {
		return nil, control.Failed("%v; a reload reads it as the service user: make it readable for all, or start the container again", err)
	}
	if err != nil {
		return nil, control.Failed("%v", err)
	}
	bundle.Flags, bundle.Args, bundle.Run = s.purpose.flags, s.purpose.args, s.purpose.run
	next, notes, err := s.understand(bundle)
	if err != nil {
		return nil, control.Failed("%v", err)
	}
	named := s.servicesOf(how.Names)
	if len(how.Names) > 0 {
		// All others keep what they have, with a successor too.
		bundle = s.bundle.With(named, bundle)
		if next, err = s.inForce(bundle); err != nil {
			return nil, control.Failed("%v", err)
		}
	}
	held := bundle.Encode()
	if len(held) > bundleMax {
		return nil, control.Failed("the configurations of services that were reloaded one by one take too much memory; reload all of them")
	}
	if err := s.namesClash(next); err != nil {
		return nil, err
	}
	notes = append(notes, atNextStart(old, next, "each service", "--all")...)
	for _, name := range named {
		notes = append(notes, atNextStart(old.For(name), next.For(name), name, name)...)
	}
	answer := &control.Reloaded{Changes: []control.Change{}, Notes: notes}
	s.useConfig(next)
	found, err := s.survey()
	if err != nil || how.DryRun {
		s.useConfig(old)
	}
	if err != nil {
		return nil, control.Failed("%v", err)
	}
	ops := about(how.Names, reconcile.Diff(found.input))
	for _, op := range ops {
		answer.Changes = append(answer.Changes, s.change(op, found))
	}
	if how.DryRun {
		return answer, nil
	}
	s.carryOut(ops, found)
	s.rescan()
	s.bundle = bundle
	s.keepBundle(held)
	return answer, nil
}

// servicesOf are the services of names, of services or profiles.
func (s *Supervisor) servicesOf(names []string) (services []string) {
	s.ask(func() {
		for _, name := range names {
			if u := s.find(name); u != nil {
				services = append(services, u.name)
			}
		}
	})
	return services
}

func (s *Supervisor) useConfig(c *config.Config) {
	s.cfg.Store(c)
	if store := s.volume(); store != nil {
		store.Configure(profiles.SettingsOf(c))
	}
}

// understand reads a bundle as it holds in this container: what needs a new one
// is as the container was started with, and named in notes where it has changed.
func (s *Supervisor) understand(b config.Bundle) (c *config.Config, notes []string, err error) {
	c, faults := config.Parse(b, s.lookup)
	if len(faults) > 0 {
		return nil, nil, faults.Err()
	}
	first := s.firstly
	notes = s.needContainer(first, c)
	if c.Home != first.Home || c.User != first.User {
		// All that names the volume, or the user, is to name these.
		b.Flags = maps.Clone(b.Flags)
		if b.Flags == nil {
			b.Flags = map[string]string{}
		}
		b.Flags["home"] = first.Home
		if first.User != "" {
			b.Flags["user"] = first.User
		}
		if c, faults = config.Parse(b, s.lookup); len(faults) > 0 {
			return nil, nil, faults.Err()
		}
	}
	c.Main, c.StopTimeout, c.Tags = first.Main, first.StopTimeout, first.Tags
	held := s.privileges(first)
	for name, d := range held {
		if _, there := c.Services[name]; there {
			c.Services[name] = d
		}
	}
	for name := range s.privileges(c) {
		if _, there := held[name]; there {
			continue
		}
		// Tier 1 would not give it what it asks for.
		if d, there := first.Services[name]; there {
			c.Services[name] = d
		} else {
			delete(c.Services, name)
		}
	}
	c.Carry(b.Run)
	return c, notes, nil
}

// keepBundle has tier 1 hold the configuration that is in force now, for our
// successor.
func (s *Supervisor) keepBundle(encoded []byte) {
	fd, err := wire.Sealed("bundle", encoded)
	if err != nil {
		slog.Warn("cannot keep the configuration for a successor", "err", err)
		return
	}
	s.link.send(&wire.Hold{Key: bundleKey}, []int{fd}, []int{fd})
}

// change is an operation in words.
func (s *Supervisor) change(op reconcile.Op, found *findings) control.Change {
	c := control.Change{Service: op.Service}
	switch op.Kind {
	case reconcile.Unregister:
		c.Action, c.Why = "remove", "its definition is gone"
	case reconcile.Report:
		c.Action, c.Why = "refuse", op.Reason
	case reconcile.Register:
		c.Action, c.Why = "add", "its definition is new"
	case reconcile.Update:
		c.Action = "update"
		s.ask(func() {
			u := s.units[op.Service]
			if u == nil {
				return
			}
			to := found.values[op.Service]
			restart, why := service.NeedsRestart(u.definition, to)
			if c.Why = why; why == "" && u.definition.Enabled != to.Enabled {
				c.Why = "enabled changed: it counts when the container starts"
			}
			if restart && u.active() {
				c.Action = "restart"
			}
		})
	}
	return c
}

// needContainer says which changes have no effect before the container is
// started anew: what tier 1 was given at boot.
func (s *Supervisor) needContainer(old, next *config.Config) []string {
	notes := []string{}
	for _, part := range []struct {
		name     string
		old, new any
	}{
		{"user", old.User, next.User},
		{"home", old.Home, next.Home},
		{"stop_timeout", old.StopTimeout, next.StopTimeout},
		{"tags", old.Tags, next.Tags},
		{"strict", old.Strict, next.Strict},
		{"parent_death", old.ParentDeath, next.ParentDeath},
		{"warn_on_reap", old.WarnOnReap, next.WarnOnReap},
		{"verbose", old.Verbose, next.Verbose},
		{"remap", [2]uint32{old.UID, old.GID}, [2]uint32{next.UID, next.GID}},
		{"own", old.Own, next.Own},
		{"dirs", old.Dirs, next.Dirs},
		{"seed", old.Seed, next.Seed},
		{"boot", old.Boot, next.Boot},
		{"main", old.Main, next.Main},
		{"privileged services", s.privileges(old), s.privileges(next)},
	} {
		if !reflect.DeepEqual(part.old, part.new) {
			notes = append(notes, fmt.Sprintf("%s changed: that needs a new container (docker restart)", part.name))
		}
	}
	return notes
}

// atNextStart says which changes are in force for some services, though what
// runs was started without them.
func atNextStart(old, next *config.Config, whose, restart string) (notes []string) {
	for _, part := range []struct {
		name string
		same bool
	}{
		{"environment", maps.Equal(old.Environment, next.Environment)},
		{"env_file", slices.Equal(old.EnvFile, next.EnvFile)},
		{"inherit_env", slices.Equal(old.InheritEnv, next.InheritEnv)},
	} {
		if !part.same {
			notes = append(notes, fmt.Sprintf("%s changed: %s has it from its next start on (rlminit restart %s)", part.name, whose, restart))
		}
	}
	return notes
}

// privileges are the definitions that are tier 1's to hold. One that is not root,
// as its directory shows, has no privilege to give, and runs them like any other.
func (s *Supervisor) privileges(c *config.Config) map[string]service.Definition {
	held := map[string]service.Definition{}
	var directory unix.Stat_t
	if err := unix.Stat(s.runtime, &directory); err != nil || directory.Uid != 0 {
		return held
	}
	for name, d := range c.Services {
		if config.Privileged(d) {
			held[name] = d
		}
	}
	return held
}

// privileged tells whether tier 1 holds u's definition by name.
func (s *Supervisor) privileged(u *unit) bool { return u.recorded && s.holds(u.name) }

// holds tells whether tier 1 holds a definition of that name.
func (s *Supervisor) holds(name string) bool {
	return slices.ContainsFunc(s.policy.Privileged, func(p wire.Program) bool { return p.Name == name })
}
