package supervise

import (
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"

	"rlminit/config"
	"rlminit/control"
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
			slog.Info("reloaded", "service", c.Service, "action", c.Action, "why", c.Why)
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
	if err != nil {
		return nil, control.Failed("%v", err)
	}
	bundle.Flags, bundle.Args, bundle.Run = s.purpose.flags, s.purpose.args, s.purpose.run
	next, faults := config.Parse(bundle, s.lookup)
	if len(faults) > 0 {
		return nil, control.Failed("%v", faults.Err())
	}
	notes := needContainer(old, next)
	next.Main = old.Main
	next.Carry(bundle.Run)
	answer := &control.Reloaded{Changes: []control.Change{}, Notes: notes}
	s.cfg.Store(next)
	if store := s.volume(); store != nil {
		store.Configure(s.settings())
	}
	found, err := s.survey()
	if err != nil || how.DryRun {
		s.restoreConfig(old)
	}
	if err != nil {
		return nil, control.Failed("%v", err)
	}
	ops := slices.DeleteFunc(reconcile.Diff(found.input), func(op reconcile.Op) bool {
		return len(how.Names) > 0 && !s.named(op, how.Names)
	})
	for _, op := range ops {
		answer.Changes = append(answer.Changes, s.change(op, found))
	}
	if how.DryRun {
		return answer, nil
	}
	s.carryOut(ops, found)
	s.rescan()
	s.keepBundle(bundle)
	return answer, nil
}

func (s *Supervisor) restoreConfig(old *config.Config) {
	s.cfg.Store(old)
	if store := s.volume(); store != nil {
		store.Configure(s.settings())
	}
}

// keepBundle has tier 1 hold the configuration that is in force now, for our
// successor.
func (s *Supervisor) keepBundle(b config.Bundle) {
	fd, err := wire.Sealed("bundle", b.Encode())
	if err != nil {
		slog.Warn("cannot keep the configuration for a successor", "err", err)
		return
	}
	s.link.send(&wire.Hold{Key: bundleKey}, []int{fd}, []int{fd})
}

// named tells whether an operation is about one of the names.
func (s *Supervisor) named(op reconcile.Op, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return name == op.Service || name == op.Profile && name != "" })
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
			restart, why := service.NeedsRestart(u.definition, found.values[op.Service])
			c.Why = why
			if restart && u.active() {
				c.Action = "restart"
			}
		})
	}
	return c
}

// needContainer says which changes have no effect before the container is
// started anew: what tier 1 was given at boot.
func needContainer(old, next *config.Config) []string {
	notes := []string{}
	for _, part := range []struct {
		name     string
		old, new any
	}{
		{"user", old.User, next.User},
		{"home", old.Home, next.Home},
		{"stop_timeout", old.StopTimeout, next.StopTimeout},
		{"tags", old.Tags, next.Tags},
		{"main", old.Main, next.Main},
		{"privileged services", privileged(old), privileged(next)},
	} {
		if !reflect.DeepEqual(part.old, part.new) {
			notes = append(notes, fmt.Sprintf("%s changed: that needs a new container (docker restart)", part.name))
		}
	}
	return notes
}

// privileged are the definitions that tier 1 holds.
func privileged(c *config.Config) map[string]service.Definition {
	held := map[string]service.Definition{}
	for name, d := range c.Services {
		if config.Privileged(d) {
			held[name] = d
		}
	}
	return held
}

// privileged tells whether tier 1 holds u's definition by name.
func (s *Supervisor) privileged(u *unit) bool {
	return slices.ContainsFunc(s.policy.Privileged, func(p wire.Program) bool { return p.Name == u.name }) && u.recorded
}
