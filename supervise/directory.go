package supervise

import (
	"errors"
	"slices"

	"rlminit/control"
	"rlminit/supervise/registry"
)

// directory finds the service that a person means by a name, and wakes it where its
// profile rests. Anybody may ask but the loop.
type directory struct {
	loop     *mailbox
	fleet    *fleet
	prep     *preparer
	registry *registry.Registry
}

// lookUp returns the unit of a name as a person writes it.
func (d *directory) lookUp(name string) (u *unit, err error) {
	d.loop.ask(func() {
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
	d.registry.AtRest.WakeNamed(name)
	if d.loop.ask(func() { u = d.fleet.find(name) }); u != nil {
		return u, nil
	}
	return nil, d.unknown(name, err)
}

// without says why the profiles that the configuration is for are not here; "" if
// they are, or are off on purpose.
func (d *directory) without() string {
	cfg := d.prep.config()
	if cfg.Gateway == nil || !cfg.Profiles || d.prep.volume.Store() != nil {
		return ""
	}
	return "no profile is here: " + d.prep.volume.Absent()
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
	if why == "" {
		why = d.registry.Trouble()
	}
	if why == "" {
		return err
	}
	return control.NewProblem(control.KindNoSuchName, problem.Detail+"; "+why)
}
