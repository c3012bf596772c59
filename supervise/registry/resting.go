package registry

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"log/slog"
	"slices"

	"rlminit/config"
	"rlminit/control"
	"rlminit/internal/inbox"
	"rlminit/profiles"
	"rlminit/reconcile"
	"rlminit/service"
	"rlminit/supervise/settings"
	"rlminit/supervise/verdict"
)

// A profile that is not to run, and that nobody has asked for, rests: the registry
// knows its name, and there is no slot, no service and no compiled definition. It
// wakes when it is asked for, by name or with all that are to be started, when
// somebody puts something into its slot, and when another service refers to it.

// AtRest are the profiles at rest: it wakes them, and has the status of each, for
// which it is compiled at most once. The outcome is in its entry.
// Exported methods are for any goroutine but the registry's own.
type AtRest struct {
	queue    inbox.Work
	volume   Volume
	settings *settings.Settings
	names    *names
	register func(...Proposal) // has them supervised
}

// atRest stands for the fingerprint of a definition that nobody has compiled.
const atRest = "at rest"

// mayRest tells whether a profile is left alone as far as its own files say. One
// that has a schedule runs, whatever is wanted of it.
func mayRest(p profiles.Profile, c *config.Config, found service.Intent) bool {
	return p.Name != profiles.Default && p.Fault == nil && p.Record.Fault == "" && !reconcile.Starts(p.Record, found) &&
		!scheduled(p, c.For(p.Service()).Gateway)
}

// scheduled tells whether a profile is of a kind that a schedule runs.
func scheduled(p profiles.Profile, g *config.Gateway) bool {
	k := g.KindNamed(p.Kind())
	return k != nil && k.Has("schedule")
}

// rest leaves a profile alone until it is asked for.
func (s *AtRest) rest(op reconcile.Op) {
	s.names.befall(op.Service, Rested)
	if e := s.names.of[op.Service]; e.life == Resting {
		e.profile, e.recorded, e.ours, e.intent, e.judged = op.Profile, true, true, desiredOf(op), nil
	}
}

// Count is how many profiles rest.
func (s *AtRest) Count() (n int) {
	s.queue.Ask(func() {
		for _, e := range s.names.of {
			if e.life == Resting {
				n++
			}
		}
	})
	return n
}

// Wake registers the profiles at rest that are wanted, by the names of their
// services and their own, and returns by its service's name why one could not be read.
// The registry's own goroutine never calls it.
func (s *AtRest) Wake(wanted func(service, profile string) bool) map[string]error {
	unread := map[string]error{}
	s.queue.Ask(func() {
		var names []string
		var all []Proposal
		for name, e := range s.names.of {
			if e.life == Resting && wanted(name, e.profile) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			p, err := s.roused(name)
			if err != nil {
				unread[name] = err
			}
			all = append(all, p...)
		}
		s.register(all...)
	})
	return unread
}

// WakeNamed is Wake for a person's, or a definition's, meaning of a name.
func (s *AtRest) WakeNamed(name string) (err error) {
	s.queue.Ask(func() { err = s.rouseNamed(name) })
	return err
}

// WakeSoon is WakeNamed for a caller that does not wait.
func (s *AtRest) WakeSoon(name string) {
	s.queue.Do(func() {
		if err := s.rouseNamed(name); err != nil {
			slog.Warn("a profile that was asked for stays at rest", "err", err)
		}
	})
}

func (s *AtRest) rouseNamed(name string) error {
	for _, service := range []string{name, profiles.GatewayName(name)} {
		if s.names.life(service) == Resting {
			p, err := s.roused(service)
			s.register(p...)
			return err
		}
	}
	return nil
}

// roused is the proposal of a profile at rest, or why it cannot be read now. Of one that
// is not there any more there is none, and what is wrong with one is that of its service.
func (s *AtRest) roused(name string) ([]Proposal, error) {
	e, store := s.names.of[name], s.volume.Store()
	if store == nil {
		return nil, nil
	}
	p, err := store.Load(e.profile)
	switch {
	case err == nil && p.Unread():
		err = p.Fault
	case errors.Is(err, profiles.ErrNotFound):
		return nil, nil
	}
	if err != nil {
		return nil, control.Failed("profile %s, which is to be %s, cannot be read now: %v; try again", e.profile, e.intent, err)
	}
	return []Proposal{s.proposal(p, e.intent)}, nil
}

// proposal is that of a profile that is not to run.
func (s *AtRest) proposal(p profiles.Profile, intent service.Intent) Proposal {
	prop := ofProfile(p, s.settings.Current())
	prop.Desired, prop.Cause = intent, "boot"
	return prop
}

// judgement is the status of a definition that was compiled for it, and
// let go again.
type judgement struct {
	kind  service.Type
	of    string // the kind of its gateway
	port  int
	fault string
}

// List is every profile at rest, as status shows it. Outcomes since
// the last reload are not found out again.
func (s *AtRest) List() []control.Service {
	known, cfg := map[string]entry{}, (*config.Config)(nil)
	unjudged := false
	s.queue.Ask(func() {
		cfg = s.settings.Current()
		for name, e := range s.names.of {
			if e.life == Resting {
				known[name] = *e
				unjudged = unjudged || e.judged == nil
			}
		}
	})
	if unjudged {
		s.judge(known, cfg)
	}
	list := make([]control.Service, 0, len(known))
	for name, e := range known {
		st := control.Service{
			Name: name, Type: string(service.Daemon), State: "stopped", Desired: string(e.intent), Profile: &e.profile,
			Verdict: string(verdict.Off), ReasonCode: string(verdict.AtRest),
		}
		if j := e.judged; j != nil {
			st.Type = string(j.kind)
			if j.port != 0 {
				st.Port = &j.port
			}
			st.Kind = new(config.KindCalled(j.of))
			if j.fault != "" {
				st.State, st.Reason, st.Refused = "failed", &j.fault, j.fault
			}
		}
		list = append(list, st)
	}
	slices.SortFunc(list, func(a, b control.Service) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// judge compiles the definitions of unknown ones. It runs
// beside the registry, which notes what came of it.
func (s *AtRest) judge(known map[string]entry, cfg *config.Config) {
	store := s.volume.Store()
	if store == nil {
		return
	}
	list, err := store.List()
	if err != nil {
		return // their registration says so
	}
	good := map[[sha256.Size]byte]service.Type{} // by profile.yaml: one that is good is so for each
	for _, p := range list {
		e, rests := known[p.Service()]
		if !rests || e.judged != nil {
			continue
		}
		j := judgement{port: p.Port, of: p.Kind()}
		sum := sha256.Sum256(p.Text())
		kind, same := good[sum]
		if j.kind = kind; !same || p.Fault != nil {
			d, err := p.Definition(cfg)
			if err != nil {
				j.kind, j.fault = service.Daemon, profiles.Reason(err)
			} else {
				j.kind, good[sum] = d.Type, d.Type
			}
		}
		e.judged = &j
		known[p.Service()] = e
	}
	s.queue.Ask(func() {
		if s.settings.Current() != cfg {
			return
		}
		for name, e := range known {
			if is := s.names.of[name]; is != nil && is.life == Resting {
				is.judged = e.judged
			}
		}
	})
}

// unjudge forgets the outcomes for those at rest: the input of their compilation may
// be something else.
func (s *AtRest) unjudge() {
	for _, e := range s.names.of {
		e.judged = nil
	}
}
