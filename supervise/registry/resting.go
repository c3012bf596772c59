package registry

import (
	"cmp"
	"crypto/sha256"
	"log/slog"
	"slices"
	"strings"

	"rlminit/config"
	"rlminit/control"
	"rlminit/profiles"
	"rlminit/reconcile"
	"rlminit/service"
)

// A profile that is not to run, and that nobody has asked for, rests: the registry
// knows its name, and there is no slot, no service and no compiled definition. It
// wakes when it is asked for, by name or with all that are to be started, when
// somebody puts something into its slot, and when another service refers to it.

// atRest stands for the fingerprint of a definition that nobody has compiled.
const atRest = "at rest"

// mayRest tells whether a profile is left alone as far as its own files say. One
// that has a schedule runs, whatever is wanted of it.
func mayRest(p profiles.Profile, c *config.Config, found service.Intent) bool {
	return p.Name != profiles.Default && p.Fault == nil && p.Record.Fault == "" && !reconcile.Starts(p.Record, found) &&
		!strings.Contains(string(p.Text()), "schedule") && !c.For(p.Service()).Gateway.Has("schedule")
}

// rest leaves a profile alone until it is asked for.
func (r *Registry) rest(op reconcile.Op) {
	r.befall(op.Service, Rested)
	if e := r.names[op.Service]; e.life == Resting {
		e.profile, e.recorded, e.ours, e.intent, e.judged = op.Profile, true, true, desiredOf(op), nil
	}
}

// Resting is how many profiles rest.
func (r *Registry) Resting() (n int) {
	r.ask(func() {
		for _, e := range r.names {
			if e.life == Resting {
				n++
			}
		}
	})
	return n
}

// Rests tells whether a service is that of a profile at rest.
func (r *Registry) Rests(name string) (rests bool) {
	r.ask(func() { rests = r.life(name) == Resting })
	return rests
}

// Wake registers the profiles at rest that are wanted, by the names of their
// services and their own. The registry's own goroutine never calls it.
func (r *Registry) Wake(wanted func(service, profile string) bool) {
	r.ask(func() {
		var names []string
		for name, e := range r.names {
			if e.life == Resting && wanted(name, e.profile) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			r.rouse(name)
		}
	})
}

// WakeNamed is Wake for what a person, or a definition, means by a name.
func (r *Registry) WakeNamed(name string) { r.ask(func() { r.rouseNamed(name) }) }

// WakeSoon is WakeNamed for one who does not wait.
func (r *Registry) WakeSoon(name string) { r.post(func() { r.rouseNamed(name) }) }

// Settle returns when all is done that was to be done soon.
func (r *Registry) Settle() { r.ask(func() {}) }

func (r *Registry) rouseNamed(name string) {
	for _, service := range []string{name, profiles.GatewayName(name)} {
		if r.life(service) == Resting {
			r.rouse(service)
			return
		}
	}
}

func (r *Registry) rouse(name string) {
	e, store := r.names[name], r.volume.Store()
	if store == nil {
		return
	}
	p, err := store.Load(e.profile)
	if err != nil {
		slog.Warn("cannot read a profile that was asked for", "profile", e.profile, "err", err)
		return
	}
	r.register(r.proposal(p, e.intent))
}

// proposal is that of a profile that is not to run.
func (r *Registry) proposal(p profiles.Profile, intent service.Intent) Proposal {
	prop := Proposal{Name: p.Service(), Profile: p.Name, Ours: true, Recorded: true}
	if d, err := p.Definition(r.settings.Current()); err != nil {
		prop.Fault = profiles.Reason(err)
	} else {
		prop = Ours(d)
	}
	prop.Desired, prop.Cause = intent, "boot"
	return prop
}

// judgement is what a status says of a definition that was compiled for it, and
// let go again.
type judgement struct {
	kind  service.Type
	port  int
	fault string
}

// AtRest is every profile at rest, as status shows it. What is known of them since
// the last reload is not found out again.
func (r *Registry) AtRest() []control.Service {
	known, cfg := map[string]entry{}, (*config.Config)(nil)
	unjudged := false
	r.ask(func() {
		cfg = r.settings.Current()
		for name, e := range r.names {
			if e.life == Resting {
				known[name] = *e
				unjudged = unjudged || e.judged == nil
			}
		}
	})
	if unjudged {
		r.judge(known, cfg)
	}
	list := make([]control.Service, 0, len(known))
	for name, e := range known {
		st := control.Service{Name: name, Type: string(service.Daemon), State: "stopped", Desired: string(e.intent), Profile: &e.profile}
		if j := e.judged; j != nil {
			st.Type = string(j.kind)
			if j.port != 0 {
				st.Port = &j.port
			}
			if j.fault != "" {
				st.State, st.Reason = "failed", &j.fault
			}
		}
		list = append(list, st)
	}
	slices.SortFunc(list, func(a, b control.Service) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// judge compiles the definitions of those of which nothing is known. It runs
// beside the registry, which notes what came of it.
func (r *Registry) judge(known map[string]entry, cfg *config.Config) {
	store := r.volume.Store()
	if store == nil {
		return
	}
	list, err := store.List()
	if err != nil {
		return // whoever registers them says so
	}
	good := map[[sha256.Size]byte]service.Type{} // by profile.yaml: one that is good is so for each
	for _, p := range list {
		e, rests := known[p.Service()]
		if !rests || e.judged != nil {
			continue
		}
		j := judgement{port: p.Port}
		sum := sha256.Sum256(p.Text())
		kind, same := good[sum]
		if j.kind = kind; !same || p.Fault != nil {
			d, err := p.Definition(cfg)
			if j.kind = d.Type; err != nil {
				j.kind, j.fault = service.Daemon, profiles.Reason(err)
			} else {
				good[sum] = d.Type
			}
		}
		e.judged = &j
		known[p.Service()] = e
	}
	r.ask(func() {
		if r.settings.Current() != cfg {
			return
		}
		for name, e := range known {
			if is := r.names[name]; is != nil && is.life == Resting {
				is.judged = e.judged
			}
		}
	})
}

// unjudge forgets what is known of those at rest: what they are compiled of may
// be something else.
func (r *Registry) unjudge() {
	for _, e := range r.names {
		e.judged = nil
	}
}
