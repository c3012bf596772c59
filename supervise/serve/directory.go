package serve

import (
	"errors"
	"path"
	"slices"

	"rlminit/config"
	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/core"
)

// Directory finds the services that a person means by a name or a pattern, and wakes
// them where their profiles rest.
type Directory struct {
	*Given
	loop Loop
}

// LookUp returns the service of a name as a person writes it.
func (d *Directory) LookUp(name string) (u *View, err error) {
	d.loop.Read(func(now Services) {
		if u = now.Find(name); u != nil {
			return
		}
		var known []string
		for other := range now.All() {
			known = append(known, other.Name)
			if other.Definition.Profile != "" {
				known = append(known, other.Definition.Profile)
			}
		}
		slices.Sort(known)
		err = control.NoSuchName(name, known)
	})
	if u != nil {
		return u, nil
	}
	unread := d.Registry.AtRest.WakeNamed(name)
	if d.loop.Read(func(now Services) { u = now.Find(name) }); u != nil {
		return u, nil
	}
	if unread != nil {
		return nil, unread
	}
	return nil, d.unknown(name, err)
}

// named is the service of a name; nil: there is none.
func (d *Directory) named(name string) (u *View) {
	d.loop.Read(func(now Services) { u = now.Named(name) })
	return u
}

// without says why the profiles that the configuration is for are not here; "" if
// they are, or are off on purpose.
func (d *Directory) without() string {
	cfg := d.Settings.Current()
	if cfg.Gateway == nil || !cfg.Profiles || d.Volume.Store() != nil {
		return ""
	}
	return "no profile is here: " + d.Volume.Absent()
}

// unrevised says why there are no revisions.
func (d *Directory) unrevised() error {
	if _, err := d.Registry.Profiles.Store(); err != nil {
		return err
	}
	return control.Conflict("plans and values cannot be applied: the volume has no journal; the log of rlminit says why")
}

// unknown is the problem of a name that nobody has, with why there may be no such
// profile here.
func (d *Directory) unknown(name string, err error) error {
	problem, is := errors.AsType[*control.Problem](err)
	if !is {
		return err
	}
	why := d.without()
	if store := d.Volume.Store(); store != nil {
		why = store.Unmarked(name)
	}
	if trouble := d.Registry.Trouble(); why == "" && trouble != "" { // nobody knows
		return control.Failed("cannot tell whether there is a %q: %s; that is tried again, and so can you", name, trouble)
	}
	if why == "" {
		return err
	}
	return control.NewProblem(control.KindNoSuchName, problem.Detail+"; "+why)
}

// set is which services a command on many is for.
type set struct {
	names       []string // each a name or a pattern; none: all for which the verb makes sense
	state, kind string   // "": any
	failed      bool     // of all, those that have failed
}

// check refuses a state or a kind that there is not.
func (d *Directory) check(s set) error {
	if err := control.CheckState(s.state); err != nil || s.kind == "" {
		return err
	}
	return checkKind(d.Settings.Current(), s.kind)
}

func checkKind(c *config.Config, kind string) error {
	switch {
	case c.Gateway == nil:
		return control.BadRequest("there are no kinds here: the configuration has no gateway section")
	case c.Gateway.KindNamed(kind) == nil:
		return control.BadRequest("%s", c.Gateway.NoKind(kind))
	}
	return nil
}

// chosen is the outcome of choose.
type chosen struct {
	units    []*View
	left     []*View                     // of the set, and left as they are; the reason is in Left
	only     core.Only                   // leaves out who is not meant any more when the command comes to be recorded
	problems map[string]*control.Problem // by name
}

// leaves says why a verb leaves a service of a set as it is; "": it does not. A state
// that the caller chose by is taken at its word.
func (of *set) leaves(verb string, u *View) string {
	standing := control.LeftStopped
	switch d := u.Definition; {
	case d.Schedule != nil:
		standing = control.LeftScheduled
	case !d.Enabled:
		standing = control.LeftDisabled
	}
	switch {
	case verb == core.VerbStart && !u.Active() && standing != control.LeftStopped:
		return standing
	case verb == core.VerbRestart && of.state == "" && !u.Wanted && !u.Life.Wants().Owed,
		verb == core.VerbStop && of.state == "" && !u.Wanted && !u.Active() && u.Definition.Schedule == nil:
		return standing
	}
	return ""
}

// choose returns the services that a command on a set is for.
func (d *Directory) choose(of set, verb string) chosen {
	names := of.names
	is := chosen{problems: map[string]*control.Problem{}, only: core.Only{State: of.state}}
	if of.state == control.Outdated { // which the core knows nothing of
		is.only.State = ""
	}
	is.only.Ill = of.failed && len(names) == 0
	is.only.Wanted = verb == core.VerbRestart && of.state == "" && !slices.ContainsFunc(names, func(name string) bool { return !control.IsSet(name) })
	unread := d.wakeFor(of, verb)
	d.loop.Read(func(now Services) { is.read(now, &of, verb) })
	for name := range is.problems {
		_, err := d.LookUp(name)
		if problem, found := errors.AsType[*control.Problem](err); found {
			is.problems[name] = problem
		} else { // it came this moment
			delete(is.problems, name)
		}
	}
	for name, err := range unread {
		if problem, found := errors.AsType[*control.Problem](err); found {
			is.problems[name] = problem
		}
	}
	return is
}

// read chooses among the services that there are. A name that fits none gets a nil
// problem.
func (is *chosen) read(now Services, of *set, verb string) {
	in, meant := map[*core.Life]bool{}, is.only
	meant.Wanted = false
	add := func(u *View, named bool) {
		if in[u.Life] || !now.Core().Meant(meant, u.Life) || !u.isOf(of.kind) || of.state == control.Outdated && u.Older == "" {
			return
		}
		in[u.Life] = true
		u = new(*u)
		if u.Left = of.leaves(verb, u); u.Left != "" && !named {
			is.left = append(is.left, u)
		} else {
			is.units = append(is.units, u)
		}
	}
	for _, name := range of.names { // full names first: they mean their service
		if u := now.Find(name); u != nil {
			add(u, true)
		}
	}
	for _, name := range of.names {
		if now.Find(name) != nil {
			continue
		}
		found := false
		for u := range now.All() {
			if matches(name, u.Name, u.Definition.Profile) {
				found = true
				add(u, false)
			}
		}
		if !found {
			is.problems[name] = nil
		}
	}
	if len(of.names) == 0 {
		for u := range now.All() {
			add(u, false)
		}
	}
}

// wakeFor wakes the profiles at rest that a command is for. What is to stop, or to
// be restarted where it runs, is none of those that were not named. It returns, by the
// service's name, why one cannot be read now.
func (d *Directory) wakeFor(of set, verb string) map[string]error {
	names, all := of.names, len(of.names) == 0 && (verb == core.VerbStart && !of.failed || of.state != "" && of.state != control.Outdated)
	if len(names) > 0 { // what has a unit is awake
		d.loop.Read(func(now Services) {
			names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return now.Find(name) != nil })
		})
	}
	if !all && len(names) == 0 {
		return nil
	}
	isOf := d.kinds(of.kind)
	return d.Registry.AtRest.Wake(func(service, profile string) bool {
		if of.kind != "" && !isOf[profile] {
			return false
		}
		return all || anyMatches(names, service, profile)
	})
}

// kinds are the profiles of a kind, whether they rest or not; none for "".
func (d *Directory) kinds(kind string) map[string]bool {
	of := map[string]bool{}
	store := d.Volume.Store()
	if kind == "" || store == nil {
		return of
	}
	list, err := store.List()
	if err != nil {
		return of // whoever registers them says so
	}
	for _, p := range list {
		of[p.Name] = config.KindCalled(p.Kind()) == kind
	}
	return of
}

// anyMatches tells whether one of some patterns is for what has these names.
func anyMatches(patterns []string, names ...string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, names...) })
}

// matches tells whether a pattern is for what has these names.
func matches(pattern string, names ...string) bool {
	for _, name := range names {
		if ok, err := path.Match(pattern, name); name != "" && ok && err == nil {
			return true
		}
	}
	return false
}

// Environment is what `rlminit exec` needs to be like the service: the
// service user's for "", a profile's or a static service's by name.
func (d *Directory) Environment(name string) (answer control.Environment, err error) {
	var u *View
	if name != "" {
		if u, err = d.LookUp(name); err != nil {
			return answer, err
		}
	}
	return d.environmentOf(u)
}

// environmentOf is that of a service; nil: of the service user.
func (d *Directory) environmentOf(u *View) (answer control.Environment, err error) {
	answer = control.Environment{
		UID: d.Policy.User.UID, GID: d.Policy.User.GID, Groups: d.Policy.User.Groups, Home: d.Policy.User.Home,
	}
	of := service.Default("exec")
	own := uint32(0)
	if u != nil {
		of = u.Definition
		if u.Tag != 0 {
			answer.Groups = append(slices.Clip(answer.Groups), u.Tag)
		}
		answer.Dir = of.WorkingDir
		if answer.Dir == "" && of.Profile != "" { // with a fault it has no definition
			answer.Dir = config.ProfileDir(d.Settings.Current().Home, of.Profile)
		}
		if own, _, err = d.Users.OwnUser(of); err != nil {
			return answer, err
		}
		if id := d.Users.Identity(own, of); own != 0 {
			tag := answer.Groups[len(d.Policy.User.Groups):]
			answer.UID, answer.GID, answer.Home = id.UID, id.GID, id.Home
			answer.Groups = append(slices.Clone(id.Groups), tag...)
		}
	}
	answer.Environment, err = d.Users.Environment(of, own)
	return answer, err
}
