package api

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"rlminit/control"
	"rlminit/service"
)

// Services is what can be asked of services. A name is that of a service or of
// the profile whose gateway it is; where there is none, that is a problem.
type Services interface {
	Services() []control.Service
	Service(name string) (control.Service, error)
	// Operate carries out start, stop or restart of one service, or of "all".
	// The id is that of the operation; 0: there is none.
	Operate(ctx context.Context, verb, name string, how control.Operate, by control.Actor) (o []control.Outcome, id uint64, err error)
	// Prolong moves deadlines on, and answers when that is done.
	Prolong(ctx context.Context, deadlines []control.Deadline) (control.Prolonged, error)
	Signal(name string, signal syscall.Signal) (control.Service, error)
	Wait(ctx context.Context, name string, what control.WaitFor) (control.Service, error)
	// Reload takes up what has changed of definitions.
	Reload(ctx context.Context, how control.Reload, by control.Actor) (*control.Reloaded, error)
	// Adopt takes what a profile's state file says for what is wanted of it.
	Adopt(ctx context.Context, name string, what control.AdoptProfile, by control.Actor) (control.Outcome, error)
	// Ready tells whether what is wanted is up: of the names, or of all.
	Ready(names []string, well bool) (control.Health, error)
	// Lacking are the walls that were asked for and cannot be had here, and where logs
	// cannot be sent on to now.
	Lacking() (walls, unsent []string)
	// Supervisor names who answers.
	Supervisor() control.Supervisor
	// Environment is what `rlminit exec` needs to be like a service; "": like the
	// service user.
	Environment(name string) (control.Environment, error)
	Shutdown()
}

// Operations is what can be asked of operations.
type Operations interface {
	BeginOperation(ctx context.Context, how control.BeginOperation, by control.Actor) (control.Operation, error)
	Operations() []control.Operation
	Operation(id uint64) (control.Operation, error)
	// AwaitOperation returns when it is over, has changed, or ctx ends.
	AwaitOperation(ctx context.Context, id uint64) (control.Operation, error)
	CancelOperation(id uint64) (control.Operation, error)
}

// operationWait is how long an answer waits for a change of an operation.
const operationWait = 10 * time.Second

// AddOperations adds the requests about operations.
func (s *Server) AddOperations(operations Operations) {
	s.Handle("POST /v1/operations", MayOperate, WithBody(func(r *http.Request, body control.BeginOperation) (any, error) {
		o, err := operations.BeginOperation(r.Context(), body, By(r))
		return Answer{Value: o, Operation: o.ID}, err
	}))
	s.Handle("GET /v1/operations", MaySee, func(*http.Request) (any, error) { return operations.Operations(), nil })
	s.Handle("GET /v1/operations/{id}", MaySee, func(r *http.Request) (any, error) {
		id, err := operationID(r)
		if err != nil {
			return nil, err
		}
		wait, err := askedFor(r, "wait")
		if err != nil || !wait {
			o, failed := operations.Operation(id)
			return o, cmp.Or(err, failed)
		}
		ctx, cancel := context.WithTimeout(r.Context(), operationWait)
		defer cancel()
		return operations.AwaitOperation(ctx, id)
	})
	s.Handle("POST /v1/operations/{id}/cancel", MayOperate, func(r *http.Request) (any, error) {
		id, err := operationID(r)
		if err != nil {
			return nil, err
		}
		return operations.CancelOperation(id)
	})
}

func operationID(r *http.Request) (uint64, error) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		return 0, control.BadRequest("%q is no operation; write its number", r.PathValue("id"))
	}
	return id, nil
}

// Profiles is what can be asked of profiles.
type Profiles interface {
	List() ([]control.Profile, error)
	Get(name string) (control.Profile, error)
	Create(ctx context.Context, what control.CreateProfile, by control.Actor) (control.Outcome, error)
	Import(ctx context.Context, what control.ImportProfile, archive io.Reader, by control.Actor) (control.Outcome, error)
	Delete(ctx context.Context, name string, how control.Deletion, by control.Actor) (control.Deleted, error)
	Rename(ctx context.Context, name string, what control.RenameProfile, by control.Actor) (control.Outcome, error)
	Trash() ([]control.Trashed, error)
	// Purge removes an entry of the trash; needed: also one that a rollback takes.
	Purge(entry string, needed bool, by control.Actor) (control.Purged, error)
	// Repair puts right whose the files of a profile are.
	Repair(name string, by control.Actor) (control.Repaired, error)
	Text(name string) (control.ProfileText, error)
	// Secrets tells of a profile's secrets, and ForgetSecrets removes some everywhere.
	Secrets(name string) ([]control.Secret, error)
	ForgetSecrets(name string, keys []string, by control.Actor) (control.ForgottenSecrets, error)
	Edit(name string, what control.ReplaceProfile, by control.Actor) (control.Profile, error)
}

// Add adds the requests about services, profiles, events and logs.
func (s *Server) Add(services Services, profiles Profiles, events Events, logs Logs) {
	s.addServices(services)
	s.addProfiles(profiles)
	s.Stream("GET /v1/events", MaySee, func(w http.ResponseWriter, r *http.Request) error { return sendEvents(w, r, events) })
	s.Stream("GET /v1/logs/{name}", MaySee, func(w http.ResponseWriter, r *http.Request) error { return sendLogs(w, r, logs) })
}

func (s *Server) addServices(services Services) {
	s.Handle("GET /v1/services", MayStatus, func(*http.Request) (any, error) { return services.Services(), nil })
	s.Handle("GET /v1/services/{name}", MayStatus, Named("name", services.Service))
	s.Handle("POST /v1/services/{name}/start", MayOperate, operate(services, "start"))
	s.Handle("POST /v1/services/{name}/stop", MayOperate, operate(services, "stop"))
	s.Handle("POST /v1/services/{name}/restart", MayOperate, operate(services, "restart"))
	s.Handle("POST /v1/deadlines", MayCommand, WithBody(func(r *http.Request, body control.Deadlines) (any, error) {
		return services.Prolong(r.Context(), body.Deadlines)
	}))
	s.Handle("POST /v1/services/{name}/signal", MayCommand, WithBody(func(r *http.Request, body control.Signal) (any, error) {
		signal, ok := service.ParseSignal(body.Signal)
		if !ok {
			return nil, control.BadRequest("unknown signal %q; write a name such as HUP, or a number", body.Signal)
		}
		as, err := services.Signal(r.PathValue("name"), signal)
		if err != nil || r.URL.Query().Get("show") != "true" {
			return nil, err
		}
		return as, nil
	}))
	s.Handle("POST /v1/services/{name}/wait", MayCommand, WithBody(func(r *http.Request, body control.WaitFor) (any, error) {
		return services.Wait(r.Context(), r.PathValue("name"), body)
	}))
	environment := Named("name", services.Environment)
	s.Handle("GET /v1/environment", MayCommand, environment)
	s.Handle("GET /v1/environment/{name}", MayCommand, environment)
	s.Handle("GET /v1/health", MayStatus, func(r *http.Request) (any, error) {
		health, err := control.Health{OK: true, Reasons: []string{}}, error(nil)
		switch level := cmp.Or(r.URL.Query().Get("level"), "alive"); level {
		case "alive": // which it is if it answers
		case "ready", "well":
			health, err = services.Ready(r.URL.Query()["name"], level == "well")
		default:
			return nil, control.BadRequest("unknown level %q; write alive, well or ready", level)
		}
		by := services.Supervisor()
		health.Supervisor = &by
		health.Walls, health.Unsent = services.Lacking()
		return health, err
	})
	s.Handle("POST /v1/reload", MayCommand, WithBody(func(r *http.Request, body control.Reload) (any, error) {
		done, err := services.Reload(r.Context(), body, By(r))
		if err != nil {
			return nil, err
		}
		return Answer{Value: done, Operation: done.Operation}, nil
	}))
	s.Handle("POST /v1/profiles/{name}/adopt", MayCommand, WithBody(func(r *http.Request, body control.AdoptProfile) (any, error) {
		return services.Adopt(r.Context(), r.PathValue("name"), body, By(r))
	}))
	s.Handle("POST /v1/shutdown", MayCommand, func(*http.Request) (any, error) {
		services.Shutdown()
		return nil, nil
	})
}

func operate(services Services, verb string) Handler {
	return WithBody(func(r *http.Request, body control.Operate) (any, error) {
		outcomes, id, err := services.Operate(r.Context(), verb, r.PathValue("name"), body, By(r))
		return Answer{Value: outcomes, Operation: id}, err
	})
}

func (s *Server) addProfiles(profiles Profiles) {
	s.Handle("GET /v1/profiles", MaySee, func(*http.Request) (any, error) { return profiles.List() })
	s.Handle("POST /v1/profiles", MayCommand, WithBody(func(r *http.Request, body control.CreateProfile) (any, error) {
		return profiles.Create(r.Context(), body, By(r))
	}))
	s.Upload("POST /v1/profiles/import", MayCommand, func(r *http.Request) (any, error) {
		what, err := importAsked(r)
		if err != nil {
			return nil, err
		}
		return profiles.Import(r.Context(), what, r.Body, By(r))
	})
	s.Handle("GET /v1/profiles/{name}", MaySee, Named("name", profiles.Get))
	s.Handle("DELETE /v1/profiles/{name}", MayCommand, func(r *http.Request) (any, error) {
		purge, err := askedFor(r, "purge")
		forget, err2 := askedFor(r, "forget_secrets")
		if err := cmp.Or(err, err2); err != nil {
			return nil, err
		}
		return profiles.Delete(r.Context(), r.PathValue("name"), control.Deletion{Purge: purge, ForgetSecrets: forget}, By(r))
	})
	s.Handle("POST /v1/profiles/{name}/rename", MayCommand, WithBody(func(r *http.Request, body control.RenameProfile) (any, error) {
		return profiles.Rename(r.Context(), r.PathValue("name"), body, By(r))
	}))
	s.Handle("POST /v1/profiles/{name}/repair", MayCommand, func(r *http.Request) (any, error) {
		return profiles.Repair(r.PathValue("name"), By(r))
	})
	s.Handle("GET /v1/profiles/{name}/text", MayCommand, Named("name", profiles.Text))
	s.Handle("POST /v1/profiles/{name}/replace", MayCommand, WithBody(func(r *http.Request, body control.ReplaceProfile) (any, error) {
		return profiles.Edit(r.PathValue("name"), body, By(r))
	}))
	s.Handle("GET /v1/profiles/{name}/secrets", MayCommand, Named("name", profiles.Secrets))
	s.Handle("POST /v1/profiles/{name}/secrets/forget", MayCommand, WithBody(func(r *http.Request, body control.ForgetSecrets) (any, error) {
		return profiles.ForgetSecrets(r.PathValue("name"), body.Names, By(r))
	}))
	s.Handle("GET /v1/trash", MaySee, func(*http.Request) (any, error) { return profiles.Trash() })
	s.Handle("DELETE /v1/trash/{entry}", MayCommand, func(r *http.Request) (any, error) {
		needed, err := askedFor(r, "needed")
		if err != nil {
			return nil, err
		}
		return profiles.Purge(r.PathValue("entry"), needed, By(r))
	})
}

// importAsked reads the query of an import, whose body is the archive.
func importAsked(r *http.Request) (what control.ImportProfile, err error) {
	q := r.URL.Query()
	what.Name = q.Get("name")
	if what.Stopped, err = askedFor(r, "stopped"); err != nil {
		return what, err
	}
	if text := q.Get("timeout_ms"); text != "" {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ms < 0 {
			return what, control.BadRequest("timeout_ms=%s: write a number of milliseconds, 0 for no limit", text)
		}
		what.Wait = &control.Wait{TimeoutMS: ms}
	}
	return what, nil
}
