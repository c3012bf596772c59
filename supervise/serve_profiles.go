package supervise

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/config"
	"rlminit/control"
	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/machine"
)

// profileStore is the volume's store, or the problem of not having it.
func (s *Supervisor) profileStore() (*profiles.Store, error) {
	store := s.volume()
	switch {
	case s.config().Gateway == nil:
		return nil, control.Conflict("there are no profiles here: the configuration has no gateway section; add one to %s", s.config().Path)
	case store == nil:
		return nil, control.Conflict("%v", s.absent.Load())
	}
	return store, nil
}

// profileProblem is an error of the store as a problem.
func (s *Supervisor) profileProblem(err error) error {
	var problem *control.Problem
	switch {
	case err == nil || errors.As(err, &problem):
		return err
	case errors.Is(err, profiles.ErrExists):
		return control.NewProblem(control.KindExists, err.Error())
	case errors.Is(err, profiles.ErrName), errors.Is(err, profiles.ErrValue):
		return control.BadRequest("%v", err)
	case errors.Is(err, profiles.ErrNotFound):
		return control.NewProblem(control.KindNoSuchName, err.Error())
	case errors.Is(err, profiles.ErrBroken):
		return control.Conflict("%v", err)
	}
	return control.Failed("%v", err)
}

// known returns the profile of a name, or of its service's name, or the problem
// that there is none, with the nearest one that there is.
func (s *Supervisor) known(store *profiles.Store, name string) (profiles.Profile, error) {
	p, err := store.Load(name)
	if short, isGateway := strings.CutPrefix(name, service.GatewayPrefix); isGateway && errors.Is(err, profiles.ErrNotFound) {
		if p, err := store.Load(short); err == nil {
			return p, nil
		}
	}
	if !errors.Is(err, profiles.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, profiles.ErrName) {
		return p, s.profileProblem(err)
	}
	var names []string
	s.ask(func() {
		for _, u := range s.units {
			if u.definition.Profile != "" {
				names = append(names, u.definition.Profile)
			}
		}
	})
	return p, control.NoSuchProfile(name, names)
}

// profileOf is the store, and the profile that a request names.
func (s *Supervisor) profileOf(r *http.Request) (*profiles.Store, profiles.Profile, error) {
	store, err := s.profileStore()
	if err != nil {
		return nil, profiles.Profile{}, err
	}
	p, err := s.known(store, r.PathValue("name"))
	return store, p, err
}

func (s *Supervisor) describe(p profiles.Profile) control.Profile {
	view := control.Profile{Name: p.Name, Dir: p.Dir, Service: p.Service(), Environment: p.Environment()}
	if p.Port != 0 {
		view.Port = &p.Port
	}
	s.ask(func() {
		if u := s.units[p.Service()]; u != nil {
			st := u.status()
			view.Desired, view.State, view.Reason = st.Desired, st.State, st.Reason
		}
	})
	return view
}

func (s *Supervisor) getProfiles(*http.Request) (any, error) {
	store, err := s.profileStore()
	if err != nil {
		return nil, err
	}
	list, err := store.List()
	if err != nil {
		return nil, err
	}
	views := []control.Profile{}
	for _, p := range list {
		views = append(views, s.describe(p))
	}
	return views, nil
}

func (s *Supervisor) getProfile(r *http.Request) (any, error) {
	_, p, err := s.profileOf(r)
	if err != nil {
		return nil, err
	}
	return s.describe(p), nil
}

// postProfile creates a profile: on the volume first, whole and durable, then
// as a service.
func (s *Supervisor) postProfile(r *http.Request) (any, error) {
	store, err := s.profileStore()
	if err != nil {
		return nil, err
	}
	var body control.CreateProfile
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	how := profiles.Creation{Environment: body.Environment, Port: body.Port, ExistOK: body.ExistOK}
	if body.Stopped {
		how.Intent = service.Stopped
	}
	p, made, err := store.Create(body.Name, how)
	if err != nil {
		return nil, s.profileProblem(err)
	}
	if err := s.enrol(p, made, actor(r)); err != nil {
		return nil, err
	}
	u, err := s.lookUp(p.Service())
	if err != nil {
		return nil, err
	}
	note := ""
	if g := s.config().Gateway; p.Port == 0 && g != nil && g.Ports.Size() > 0 {
		note = "no port: all of gateway.ports are taken"
	}
	if body.Wait == nil {
		var outcome control.Outcome
		s.ask(func() { outcome = control.Outcome{Service: u.status(), Changed: made, Note: note} })
		return outcome, nil
	}
	var w *waiter
	s.ask(func() {
		over := started
		if u.desired != "running" {
			over = func(*unit) (bool, *control.Problem) { return true, nil }
		}
		w = s.wait(u, made, over)
	})
	outcome := s.await(r.Context(), u, w, body.Wait)
	outcome.Note = note
	s.written(flushPatience)
	return outcome, nil
}

// enrol registers the gateway of a profile that was created, adopted or
// changed.
func (s *Supervisor) enrol(p profiles.Profile, made bool, actor uint32) error {
	s.registrar.Lock()
	defer s.registrar.Unlock()
	switch over := s.deleting[p.Name]; {
	case over == nil:
	case made: // the one before is gone, and all that is left is to say so
		s.registrar.Unlock()
		<-over
		s.registrar.Lock()
		_, err := s.reconcile(false, p.Name)
		return err
	default:
		return control.Conflict("profile %q is being deleted; try again when it is gone", p.Name)
	}
	prop := proposal{
		name: p.Service(), profile: p.Name, ours: true, subject: true,
		desired: string(p.Record.Desired), start: p.Record.Desired == service.Running,
		cause: "profile changed", actor: &actor,
	}
	if made {
		prop.cause = "profile created"
	}
	d, err := p.Definition(s.config())
	if err != nil {
		prop.fault = profiles.Reason(err)
	} else {
		prop.value, prop.source = d, service.Encode(d)
	}
	var before *unit
	s.ask(func() {
		if u := s.units[prop.name]; made && u != nil && !s.leaving[u.name] {
			before = u
		}
	})
	s.register(prop)
	if before != nil {
		s.ask(func() { s.replaceDirectory(before, prop) })
	}
	return nil
}

// replaceDirectory has what still runs in a profile's directory that somebody
// removed by hand, which nobody has noticed yet, make way for what belongs to
// the new one.
func (s *Supervisor) replaceDirectory(u *unit, p proposal) {
	if s.leaving[u.name] {
		return // its slot too
	}
	u.desired = p.desired
	e := machine.Event{Kind: machine.Stop, Cause: p.cause, Actor: p.actor}
	if p.start {
		e.Kind = machine.Restart
	}
	s.step(u, e)
}

// patchProfile changes a profile's environment. Its gateway is restarted if it
// runs, for a process keeps the environment that it began with.
func (s *Supervisor) patchProfile(r *http.Request) (any, error) {
	store, err := s.profileStore()
	if err != nil {
		return nil, err
	}
	var body control.SetProfile
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	p, err := s.known(store, r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	if p, err = store.SetEnvironment(p.Name, body.Environment); err != nil {
		return nil, s.profileProblem(err)
	}
	if err := s.enrol(p, false, actor(r)); err != nil {
		return nil, err
	}
	return s.describe(p), nil
}

// deleteProfile stops a profile's gateway, takes its slot away, and then its
// directory, and with purge its log too. Meanwhile nobody registers the profile;
// all else goes on.
func (s *Supervisor) deleteProfile(r *http.Request) (any, error) {
	store, p, err := s.profileOf(r)
	if err != nil {
		return nil, err
	}
	over := s.beginDeletion(p.Name)
	answer, err := s.deleteAlone(r, store, p.Name)
	over(err)
	if err != nil {
		return nil, s.profileProblem(err)
	}
	return answer, nil
}

// beginDeletion waits until nobody else deletes the profile. over ends it; with
// an error the profile, if it is there, is registered again.
func (s *Supervisor) beginDeletion(name string) (over func(error)) {
	for {
		s.registrar.Lock()
		other := s.deleting[name]
		if other == nil {
			break
		}
		s.registrar.Unlock()
		<-other
	}
	defer s.registrar.Unlock()
	done := make(chan struct{})
	s.deleting[name] = done
	s.ask(func() { s.doomed[name] = true })
	return func(err error) {
		s.registrar.Lock()
		defer s.registrar.Unlock()
		s.ask(func() { delete(s.doomed, name) })
		delete(s.deleting, name)
		close(done)
		if err == nil {
			return
		}
		if _, err := s.reconcile(false); err != nil {
			slog.Error("cannot reconcile", "err", err)
		}
	}
}

func (s *Supervisor) deleteAlone(r *http.Request, store *profiles.Store, name string) (answer control.Deleted, err error) {
	p, err := s.known(store, name)
	if err != nil {
		return answer, err
	}
	purge, err := askedFor(r, "purge")
	if err != nil {
		return answer, err
	}
	if name == profiles.Default {
		_, err := store.Delete(name, purge) // which refuses it, and nothing has been stopped
		return answer, err
	}
	var w *waiter
	var u *unit
	by := actor(r)
	s.ask(func() {
		if u = s.units[p.Service()]; u == nil {
			return
		}
		s.leaving[u.name] = true
		w = s.wait(u, true, func(u *unit) (bool, *control.Problem) { return s.units[u.name] != u, nil })
		s.remove(u, "profile deleted", &by)
	})
	if w != nil {
		// A caller who goes away does not hurry it: the gateway may still write.
		if outcome := s.await(context.WithoutCancel(r.Context()), u, w, &control.Wait{}); outcome.Problem != nil {
			return answer, outcome.Problem
		}
	}
	if purge {
		// First, so that if it fails there is a profile to be purged again.
		err := s.removeLog(store, u, name)
		switch {
		case errors.Is(err, unix.ELOOP):
			// The volume's owner may have put the logs elsewhere. Any service may have
			// put the link there as well, so nothing is removed behind it.
			if path := store.Home().Path(logDir("", name)); there(path) {
				answer.LogLeft = path
			}
		case err != nil:
			return answer, err
		}
	}
	answer.Trash, err = store.Delete(name, purge)
	return answer, err
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// getEnvironment is what `rlminit exec` needs to be like the service: the
// service user's for "", a profile's or a static service's by name.
func (s *Supervisor) getEnvironment(r *http.Request) (any, error) {
	answer := control.Environment{
		UID: s.policy.User.UID, GID: s.policy.User.GID, Groups: s.policy.User.Groups, Home: s.policy.User.Home, Dir: s.policy.User.Home,
	}
	d := service.Default("exec")
	if name := r.PathValue("name"); name != "" {
		u, err := s.lookUp(name)
		if err != nil {
			return nil, err
		}
		s.ask(func() {
			d = u.definition
			if u.tag != 0 {
				answer.Groups = append(answer.Groups[:len(answer.Groups):len(answer.Groups)], u.tag)
			}
		})
		answer.Dir = d.WorkingDir
	}
	var err error
	answer.Environment, err = s.environment(d)
	return answer, err
}

// namesClash refuses a configuration in which a service has the name of a
// profile that there is: the profile would be out of reach, and its gateway gone.
func (s *Supervisor) namesClash(next *config.Config) error {
	store := s.volume()
	if store == nil {
		return nil
	}
	list, err := store.List()
	if err != nil {
		return control.Failed("cannot list the profiles: %v", err)
	}
	for _, p := range list {
		if _, taken := next.Services[p.Name]; taken {
			return control.Conflict("service %q has the name of a profile; give it another one, or remove the profile first: rlminit profile delete %s",
				p.Name, p.Name)
		}
	}
	return nil
}
