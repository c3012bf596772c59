package supervise

import (
	"errors"
	"path"
	"slices"

	"rlminit/control"
	"rlminit/supervise/core"
	"rlminit/supervise/registry"
)

// directory finds the services that a person means by a name or a pattern, and wakes
// them where their profiles rest. Anybody may ask but the loop.
type directory struct {
	loop     *mailbox
	fleet    *fleet
	prep     *preparer
	registry *registry.Registry
}

// lookUp returns the unit of a name as a person writes it.
func (d *directory) lookUp(name string) (u *unit, err error) {
	d.loop.read(func() {
		if u = d.fleet.find(name); u != nil {
			return
		}
		var known []string
		for _, other := range d.fleet.units {
			known = append(known, other.name)
			if other.definition.Profile != "" {
				known = append(known, other.definition.Profile)
			}
		}
		slices.Sort(known)
		err = control.NoSuchName(name, known)
	})
	if u != nil {
		return u, nil
	}
	unread := d.registry.AtRest.WakeNamed(name)
	if d.loop.read(func() { u = d.fleet.find(name) }); u != nil {
		return u, nil
	}
	if unread != nil {
		return nil, unread
	}
	return nil, d.unknown(name, err)
}

// without says why the profiles that the configuration is for are not here; "" if
// they are, or are off on purpose.
func (d *directory) without() string {
	cfg := d.prep.Config()
	if cfg.Gateway == nil || !cfg.Profiles || d.prep.volume.Store() != nil {
		return ""
	}
	return "no profile is here: " + d.prep.volume.Absent()
}

// unrevised says why there are no revisions.
func (d *directory) unrevised() error {
	if _, err := d.registry.Profiles.Store(); err != nil {
		return err
	}
	return control.Conflict("plans cannot be applied: the volume has no journal; the log of rlminit says why")
}

// unknown is the problem of a name that nobody has, with why there may be no such
// profile here.
func (d *directory) unknown(name string, err error) error {
	var problem *control.Problem
	if !errors.As(err, &problem) {
		return err
	}
	why := d.without()
	if store := d.prep.volume.Store(); store != nil {
		why = store.Unmarked(name)
	}
	if trouble := d.registry.Trouble(); why == "" && trouble != "" { // nobody knows
		return control.Failed("cannot tell whether there is a %q: %s; that is tried again, and so can you", name, trouble)
	}
	if why == "" {
		return err
	}
	return control.NewProblem(control.KindNoSuchName, problem.Detail+"; "+why)
}

// choose returns the units that names mean, each of them a name or a pattern; no
// names mean all for which the verb makes sense. By name it returns what is wrong with
// one. only leaves out who is not meant any more when the command comes to be recorded.
func (d *directory) choose(names []string, state, verb string, failedOnly bool) (units []*unit, only core.Only, problems map[string]*control.Problem) {
	problems, only = map[string]*control.Problem{}, core.Only{State: state}
	if len(names) == 0 {
		only.Failed, only.Wanted = failedOnly, verb == core.VerbRestart // restart --all wakes nothing that was stopped
	}
	unread := d.wakeFor(names, state, verb, failedOnly)
	d.loop.read(func() {
		var all []*unit
		if len(names) == 0 || slices.ContainsFunc(names, func(name string) bool { return d.fleet.find(name) == nil }) {
			all = d.fleet.all()
		}
		in := map[*unit]bool{}
		add := func(u *unit) {
			if !in[u] && d.fleet.set.Meant(only, u.life) {
				in[u] = true
				units = append(units, u)
			}
		}
		for _, name := range names {
			if u := d.fleet.find(name); u != nil {
				add(u)
				continue
			}
			found := false
			for _, u := range all {
				found = found || fits(name, u)
				if fits(name, u) {
					add(u)
				}
			}
			if !found {
				problems[name] = nil
			}
		}
		if len(names) > 0 {
			return
		}
		for _, u := range all {
			add(u)
		}
	})
	for name := range problems {
		_, err := d.lookUp(name)
		var problem *control.Problem
		if errors.As(err, &problem) {
			problems[name] = problem
		} else { // it came this moment
			delete(problems, name)
		}
	}
	for name, err := range unread {
		var problem *control.Problem
		if errors.As(err, &problem) {
			problems[name] = problem
		}
	}
	return units, only, problems
}

// wakeFor wakes the profiles at rest that a command is for. What is to stop, or to
// be restarted where it runs, is none of those that were not named. It returns, by the
// service's name, why one cannot be read now.
func (d *directory) wakeFor(names []string, state, verb string, failedOnly bool) map[string]error {
	all := len(names) == 0 && (verb == core.VerbStart && !failedOnly || state != "")
	if len(names) > 0 { // what has a unit is awake
		d.loop.read(func() {
			names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return d.fleet.find(name) != nil })
		})
	}
	if !all && len(names) == 0 {
		return nil
	}
	return d.registry.AtRest.Wake(func(service, profile string) bool {
		return all || slices.ContainsFunc(names, func(name string) bool { return matches(name, service, profile) })
	})
}

// fits tells whether a pattern is for u: by its name, or its profile's.
func fits(pattern string, u *unit) bool { return matches(pattern, u.name, u.definition.Profile) }

func matches(pattern string, names ...string) bool {
	for _, name := range names {
		if ok, err := path.Match(pattern, name); name != "" && ok && err == nil {
			return true
		}
	}
	return false
}
