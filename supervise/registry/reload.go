package registry

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"rlminit/config"
	"rlminit/control"
	"rlminit/profiles"
	"rlminit/reconcile"
	"rlminit/service"
	"rlminit/supervise/settings"
)

// ReloadAndSay reloads everything and says what changed: SIGHUP.
func (r *Registry) ReloadAndSay() {
	done, err := r.Reload(control.Reload{})
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
}

// Reload reads the configuration and the volume again, of the names or of all,
// and brings into force what changed; with DryRun it only says what that would
// be. A configuration with a fault changes nothing. Where what runs is to be
// restarted as an operation, that is left to the caller.
func (r *Registry) Reload(how control.Reload) (done *control.Reloaded, err error) {
	var services []string
	for _, name := range how.Names {
		service, err := r.services.Find(name)
		if err != nil {
			return nil, err
		}
		services = append(services, service)
	}
	r.queue.Ask(func() { done, err = r.reload(how, services) })
	return done, err
}

func (r *Registry) reload(how control.Reload, services []string) (*control.Reloaded, error) {
	next, err := r.settings.Look(services)
	if err != nil {
		return nil, err
	}
	if err := r.surveyor.namesClash(next); err != nil {
		return nil, err
	}
	judged := looking{judged: func(p profiles.Profile) bool {
		return len(services) == 0 || slices.Contains(services, p.Service())
	}}
	found, err := r.surveyor.survey(next.Config, r.surveyor.preview, judged)
	if err != nil {
		return nil, control.Failed("%v", err)
	}
	ops := about(how.Names, reconcile.Diff(found.input))
	answer := &control.Reloaded{Changes: []control.Change{}, Notes: next.Notes()}
	for _, op := range ops {
		answer.Changes = append(answer.Changes, r.surveyor.change(op, found))
	}
	answer.Changes = append(answer.Changes, stillFaulty(how.Names, ops, found)...)
	if how.DryRun {
		return answer, nil
	}
	r.use(next)
	// The ports of the preview are now given for good.
	if found, err = r.surveyor.survey(next.Config, r.surveyor.list, judged); err != nil {
		return nil, control.Failed("%v", err)
	}
	found.later = how.Operation || how.Rolling > 0
	r.carryOut(about(how.Names, reconcile.Diff(found.input)), found)
	r.rescan()
	return answer, nil
}

// stillFaulty are the faults, of the names or of all, that are no news: somebody has
// asked before, or a profile was looked at when something else about it changed.
func stillFaulty(names []string, ops []reconcile.Op, found *findings) (list []control.Change) {
	for _, p := range found.input.Profiles {
		known := slices.ContainsFunc(ops, func(op reconcile.Op) bool { return op.Service == p.Service })
		_, shadowed := found.config.Services[p.Name] // which was no news when the container was started
		if p.Fault != "" && !known && !shadowed && (len(names) == 0 || means(names, p.Service)) {
			list = append(list, control.Change{Service: p.Service, Action: "refuse", Why: p.Fault})
		}
	}
	return list
}

// Preview is what another configuration would come to.
type Preview struct {
	Config    *config.Config
	Changes   []control.Change
	Starts    map[string]bool // services that are new, and would be started
	Container []string        // what of it would need a new container
	Later     []string        // what of it would count from a next start on
}

// Preview is the outcome of a reload if the configuration had another text,
// which file is the name of. Nothing is in force by this. The error is of the text.
func (r *Registry) Preview(file string, text []byte) (p *Preview, err error) {
	r.queue.Ask(func() { p, err = r.previewed(file, text) })
	return p, err
}

func (r *Registry) previewed(file string, text []byte) (*Preview, error) {
	next, err := r.settings.LookAt(file, text)
	if err != nil {
		return nil, err
	}
	if err := r.surveyor.namesClash(next); err != nil {
		return nil, err
	}
	found, err := r.surveyor.survey(next.Config, r.surveyor.preview, looking{judged: func(profiles.Profile) bool { return true }})
	if err != nil {
		return nil, control.Failed("%v", err)
	}
	p := &Preview{Config: next.Config, Starts: map[string]bool{}, Container: next.Container, Later: next.Later}
	for _, op := range reconcile.Diff(found.input) {
		p.Changes = append(p.Changes, r.surveyor.change(op, found))
		p.Starts[op.Service] = op.Kind == reconcile.Register && op.Start
	}
	return p, nil
}

// Reread brings the configuration's files into force, before anything is
// registered by them; once it is, that is a reload.
func (r *Registry) Reread() error {
	if r.started.Load() {
		_, err := r.Reload(control.Reload{})
		return err
	}
	next, err := r.settings.Look(nil)
	if err == nil {
		r.use(next)
	}
	return err
}

// use brings a configuration into force, here, on the volume and for a successor.
func (r *Registry) use(next *settings.Next) {
	err := r.settings.Use(next)
	r.AtRest.unjudge()
	if store := r.volume.Store(); store != nil {
		store.Configure(profiles.SettingsOf(next.Config))
	}
	if err != nil {
		slog.Warn("cannot keep the configuration for a successor", "err", err)
	}
}

// PlanUpdate says what an update does to a service with a definition. restarts is the
// reason to start its process again; "": none.
func PlanUpdate(name string, from, to *service.Definition, restarts string) control.Change {
	c := control.Change{Service: name, Action: "update"}
	_, why := service.NeedsRestart(from, to)
	switch c.Why = cmp.Or(restarts, why); {
	case why != "":
	case from.Schedule != nil && to.Schedule == nil && to.Enabled:
		c.Why = "schedule changed: without one it is started when the container starts"
	case from.Enabled == to.Enabled:
	case to.Schedule != nil:
		c.Why = "enabled changed: its schedule is " + map[bool]string{true: "on", false: "off"}[to.Enabled]
	default:
		c.Why = "enabled changed: it counts when the container starts"
	}
	if restarts != "" {
		c.Action = "restart"
	}
	return c
}
