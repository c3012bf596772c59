package supervise

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/wire"
)

// routes is every request that the control socket answers.
func (s *Supervisor) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, needs may, h handler) { mux.HandleFunc(pattern, s.route(needs, h)) }
	handle("GET /v1/services", mayStatus, s.getServices)
	handle("GET /v1/services/{name}", mayStatus, s.getService)
	handle("POST /v1/services/{name}/start", mayCommand, s.postOperate(verbStart))
	handle("POST /v1/services/{name}/stop", mayCommand, s.postOperate(verbStop))
	handle("POST /v1/services/{name}/restart", mayCommand, s.postOperate(verbRestart))
	handle("POST /v1/services/{name}/signal", mayCommand, s.postSignal)
	handle("POST /v1/services/{name}/wait", mayCommand, s.postWait)
	handle("GET /v1/profiles", mayCommand, s.getProfiles)
	handle("POST /v1/profiles", mayCommand, s.postProfile)
	handle("GET /v1/profiles/{name}", mayCommand, s.getProfile)
	handle("PATCH /v1/profiles/{name}", mayCommand, s.patchProfile)
	handle("DELETE /v1/profiles/{name}", mayCommand, s.deleteProfile)
	handle("GET /v1/environment", mayCommand, s.getEnvironment)
	handle("GET /v1/environment/{name}", mayCommand, s.getEnvironment)
	handle("GET /v1/health", mayStatus, s.getHealth)
	handle("POST /v1/reload", mayCommand, s.postReload)
	handle("POST /v1/shutdown", mayCommand, s.postShutdown)
	mux.HandleFunc("GET /v1/events", s.stream(mayCommand, s.getEvents))
	mux.HandleFunc("GET /v1/logs/{name}", s.stream(mayCommand, s.getLogs))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { answerUnknown(w, r, mux) })
	return mux
}

// answerUnknown tells a path that there is not from a method that it has not.
func answerUnknown(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	var allowed []string
	for _, method := range []string{http.MethodDelete, http.MethodGet, http.MethodPatch, http.MethodPost} {
		if _, pattern := mux.Handler(&http.Request{Method: method, Host: r.Host, URL: r.URL}); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		answerProblem(w, noSuchPath(r.URL.Path))
		return
	}
	methods := strings.Join(allowed, ", ")
	w.Header().Set("Allow", methods)
	answerProblem(w, control.NewProblem(control.KindWrongMethod, fmt.Sprintf("%s is not for %s; use %s", r.Method, r.URL.Path, methods)))
}

func noSuchPath(at string) *control.Problem {
	return control.NewProblem(control.KindNoSuchPath, "no such path: "+at)
}

// all returns every unit, by name. Only the loop calls it.
func (s *Supervisor) all() []*unit {
	units := make([]*unit, 0, len(s.units))
	for _, u := range s.units {
		units = append(units, u)
	}
	slices.SortFunc(units, byName)
	return units
}

// lookUp returns the unit of a name as a person writes it.
func (s *Supervisor) lookUp(name string) (u *unit, err error) {
	s.ask(func() {
		if u = s.find(name); u != nil {
			return
		}
		var known []string
		for _, other := range s.units {
			known = append(known, other.name)
			if other.definition.Profile != "" {
				known = append(known, other.definition.Profile)
			}
		}
		slices.Sort(known)
		err = control.NoSuchName(name, known)
	})
	return u, err
}

func (s *Supervisor) getServices(*http.Request) (any, error) {
	list := []control.Service{}
	s.ask(func() {
		for _, u := range s.all() {
			list = append(list, u.status())
		}
	})
	return list, nil
}

func (s *Supervisor) getService(r *http.Request) (any, error) {
	u, err := s.lookUp(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	var st control.Service
	s.ask(func() { st = u.status() })
	return st, nil
}

// postOperate is start, stop or restart of one service, or of all.
func (s *Supervisor) postOperate(v verb) handler {
	return func(r *http.Request) (any, error) {
		var body control.Operate
		if err := decode(r, &body); err != nil {
			return nil, err
		}
		verb := v
		if body.Runtime {
			if v.name != "stop" {
				return nil, control.BadRequest("cannot %s: runtime goes with stop alone", v.name)
			}
			verb.intent = ""
		}
		if body.Failed && v.name != "start" {
			return nil, control.BadRequest("cannot %s: failed goes with start alone", v.name)
		}
		units, err := s.meant(r.PathValue("name"), v, body.Failed)
		if err != nil {
			return nil, err
		}
		var along []*unit
		if v.intent == "running" {
			s.ask(func() {
				for _, u := range units {
					for _, other := range s.along(u) {
						if !slices.Contains(units, other) && !slices.Contains(along, other) {
							along = append(along, other)
						}
					}
				}
			})
		}
		return s.operate(r.Context(), verb, units, along, actor(r), body.Wait), nil
	}
}

// meant returns the units that a command is for.
func (s *Supervisor) meant(name string, v verb, failedOnly bool) ([]*unit, error) {
	if name != "all" {
		u, err := s.lookUp(name)
		return []*unit{u}, err
	}
	var units []*unit
	s.ask(func() {
		for _, u := range s.all() {
			if failedOnly && u.state.Phase != machine.Failed {
				continue
			}
			if v.name == "restart" && u.state.Want != machine.WantUp {
				continue // restart --all wakes nothing that was stopped
			}
			units = append(units, u)
		}
	})
	return units, nil
}

func actor(r *http.Request) uint32 {
	return r.Context().Value(peerKey{}).(peer).uid
}

func (s *Supervisor) postSignal(r *http.Request) (any, error) {
	u, err := s.lookUp(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	var body control.Signal
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	sig, ok := service.ParseSignal(body.Signal)
	if !ok {
		return nil, control.BadRequest("unknown signal %q; write a name such as HUP, or a number", body.Signal)
	}
	var problem error
	s.ask(func() {
		if !u.state.Alive() {
			problem = control.NotRunning(u.title())
			return
		}
		s.link.send(&wire.Signal{ID: u.state.ID, Signal: int32(sig), Scope: wire.ScopeMain}, nil, nil)
	})
	return nil, problem
}

func (s *Supervisor) postWait(r *http.Request) (any, error) {
	u, err := s.lookUp(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	var body control.WaitFor
	if err := decode(r, &body); err != nil {
		return nil, err
	}
	var over func(*unit) (bool, *control.Problem)
	switch body.For {
	case "running":
		over = becameRunning
	case "stopped":
		over = func(u *unit) (bool, *control.Problem) { return !u.active() && u.state.Phase != machine.Backoff, nil }
	default:
		return nil, control.BadRequest("cannot wait for %q; write running or stopped", body.For)
	}
	var w *waiter
	s.ask(func() { w = s.wait(u, false, over) })
	outcome := s.await(r.Context(), u, w, &control.Wait{TimeoutMS: body.TimeoutMS})
	if outcome.Problem != nil {
		return nil, outcome.Problem
	}
	return outcome.Service, nil
}

// getHealth tells whether rlminit is well, which it is if it answers; or whether
// everything that is wanted is up.
func (s *Supervisor) getHealth(r *http.Request) (any, error) {
	health := control.Health{OK: true, Reasons: []string{}}
	switch level := cmp.Or(r.URL.Query().Get("level"), "alive"); level {
	case "alive":
		return health, nil
	case "ready":
	default:
		return nil, control.BadRequest("unknown level %q; write alive or ready", level)
	}
	var units []*unit
	for _, name := range r.URL.Query()["name"] {
		u, err := s.lookUp(name)
		if err != nil {
			return nil, err
		}
		units = append(units, u)
	}
	s.ask(func() {
		named := len(units) > 0
		if !named {
			units = s.all()
		}
		if !s.booted {
			health.Reasons = append(health.Reasons, "rlminit is still starting")
		}
		for _, u := range units {
			if why := u.unready(named); why != "" {
				health.Reasons = append(health.Reasons, u.title()+": "+why)
			}
		}
	})
	health.OK = len(health.Reasons) == 0
	return health, nil
}

// unready says why a service that is wanted, or was asked for by name, is not
// up; "" if it is.
func (u *unit) unready(named bool) string {
	up := u.state.Phase == machine.Running || u.state.Satisfies(u.policy) ||
		u.state.Phase == machine.Exited && u.state.Verdict == machine.VerdictSuccess
	switch {
	case u.fault != "":
		return u.fault
	case u.state.Want != machine.WantUp && !named && !up:
		return ""
	case up && u.state.Health == machine.Unhealthy:
		return "unhealthy"
	case up:
		return ""
	}
	return u.plight()
}

func (s *Supervisor) postShutdown(r *http.Request) (any, error) {
	s.ask(func() { s.link.send(&wire.End{Code: -1}, nil, nil) })
	return nil, nil
}

// streamer writes an answer bit by bit.
type streamer func(w http.ResponseWriter, r *http.Request) error

// stream wraps a streamer: who may call it, and what becomes of an error before
// the first byte.
func (s *Supervisor) stream(needs may, h streamer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		problem := s.permit(r, needs)
		if problem == nil {
			problem = readBody(w, r)
		}
		if problem == nil {
			err := h(w, r)
			if err == nil {
				return
			}
			var known *control.Problem
			if known, _ = err.(*control.Problem); known == nil {
				known = control.Failed("%v", err)
			}
			problem = known
		}
		answerProblem(w, problem)
	}
}

// getEvents sends the past events and, with follow, those to come.
func (s *Supervisor) getEvents(w http.ResponseWriter, r *http.Request) error {
	follow, err := askedFor(r, "follow")
	if err != nil {
		return err
	}
	past, next, cancel := s.events.subscribe()
	defer cancel()
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := json.NewEncoder(w)
	flush := http.NewResponseController(w)
	flush.SetWriteDeadline(time.Now().Add(bodyTime))
	for _, e := range past {
		if out.Encode(e) != nil {
			return nil
		}
	}
	flush.Flush()
	if !follow {
		return nil
	}
	for {
		select {
		case e, ok := <-next:
			if !ok {
				return nil // too far behind
			}
			flush.SetWriteDeadline(time.Now().Add(bodyTime))
			if out.Encode(e) != nil || flush.Flush() != nil {
				return nil
			}
		case <-r.Context().Done():
			return nil
		}
	}
}
