package revision

import (
	"cmp"
	"context"
	"net/http"
	"strconv"

	"rlminit/control"
	"rlminit/supervise/api"
)

// from answers a request that has a body.
func from[Body, Value any](answer func(Body, uint32) (Value, error), r *http.Request) (any, error) {
	return api.WithBody(func(r *http.Request, body Body) (any, error) { return answer(body, api.Actor(r)) })(r)
}

// Profiles is the need of an answer about one profile.
type Profiles interface {
	Get(name string) (control.Profile, error)
	// Up waits for a profile's gateway, if that is to run.
	Up(ctx context.Context, name string, wait *control.Wait) error
}

// setOne gives one profile other values, and answers with the profile.
func setOne(r *http.Request, all *Revisions, profiles Profiles, body control.SetProfile) (answer control.ProfileSet, err error) {
	name := r.PathValue("name")
	if control.IsSet(name) {
		return answer, control.BadRequest("%q means several profiles; PATCH changes one, and POST /v1/set several", name)
	}
	if len(body.Environment)+len(body.Secrets) > 0 || body.Restart {
		ask := control.SetProfiles{Names: []string{name}, Environment: body.Environment, Secrets: body.Secrets, OnlyPresent: body.OnlyPresent, Restart: body.Restart}
		done, err := Values{all}.Set(r.Context(), ask, api.By(r))
		if err != nil {
			return answer, err
		}
		answer.Revision, name = done.Revision, done.Profiles[0]
		if done.Operation != 0 && body.Wait != nil {
			if err := profiles.Up(r.Context(), name, body.Wait); err != nil {
				return answer, err
			}
		}
	}
	answer.Profile, err = profiles.Get(name)
	return answer, err
}

// Add adds the requests about plans and revisions. revisions is nil as long as
// the volume is not ours, and then absent says why.
func Add(server *api.Server, revisions func() *Revisions, profiles Profiles, absent func() error) {
	with := func(h func(*Revisions, *http.Request) (any, error)) api.Handler {
		return func(r *http.Request) (any, error) {
			if all := revisions(); all != nil {
				return h(all, r)
			}
			return nil, absent()
		}
	}
	server.Handle("POST /v1/plan", api.MayPlan, with(func(all *Revisions, r *http.Request) (any, error) { return from(all.Plan, r) }))
	server.Handle("POST /v1/apply", api.MayApply, with(func(all *Revisions, r *http.Request) (any, error) {
		return from(func(ask control.ApplyRequest, actor uint32) (control.Revision, error) {
			if api.Limited(r) && ask.Plan != "" { // it could be of its own making, and run anything
				return control.Revision{}, control.NotPermitted("permission denied: a service with this level of control applies plans that wait for approval alone; leave plan out")
			}
			ask.By = api.Approver(r, ask.By)
			return all.Apply(ask, actor)
		}, r)
	}))
	server.Handle("POST /v1/set", api.MayCommand, with(func(all *Revisions, r *http.Request) (any, error) {
		return api.WithBody(func(r *http.Request, body control.SetProfiles) (any, error) {
			answer, err := Values{all}.Set(r.Context(), body, api.By(r))
			return api.Answer{Value: answer, Operation: answer.Operation}, err
		})(r)
	}))
	server.Handle("PATCH /v1/profiles/{name}", api.MayCommand, with(func(all *Revisions, r *http.Request) (any, error) {
		return api.WithBody(func(r *http.Request, body control.SetProfile) (any, error) { return setOne(r, all, profiles, body) })(r)
	}))
	server.Handle("POST /v1/rollback", api.MayApply, with(func(all *Revisions, r *http.Request) (any, error) {
		return from(func(ask control.RollbackRequest, actor uint32) (control.Revision, error) {
			ask.By = api.Approver(r, ask.By)
			return all.Rollback(ask, actor)
		}, r)
	}))
	server.Handle("GET /v1/revisions", api.MayReview, with(func(all *Revisions, _ *http.Request) (any, error) { return all.List(), nil }))
	server.Handle("GET /v1/revisions/{number}", api.MayReview, with(func(all *Revisions, r *http.Request) (any, error) {
		number, err := strconv.Atoi(r.PathValue("number"))
		after, err2 := strconv.ParseUint(cmp.Or(r.URL.Query().Get("after"), "0"), 10, 64)
		if err != nil || err2 != nil {
			return nil, control.BadRequest("write /v1/revisions/NUMBER?after=VERSION")
		}
		return all.Get(r.Context(), number, after)
	}))
	server.Handle("GET /v1/drift", api.MayReview, with(func(all *Revisions, _ *http.Request) (any, error) { return all.Drift() }))
	server.Handle("POST /v1/plans", api.MayPlan, with(func(all *Revisions, r *http.Request) (any, error) { return from(Proposals{all}.Propose, r) }))
	server.Handle("GET /v1/plans", api.MayReview, with(func(all *Revisions, _ *http.Request) (any, error) { return Proposals{all}.List() }))
	server.Handle("GET /v1/plans/{hash}", api.MayReview, with(func(all *Revisions, r *http.Request) (any, error) { return Proposals{all}.Get(r.PathValue("hash")) }))
	server.Handle("DELETE /v1/plans/{hash}", api.MayApply, with(func(all *Revisions, r *http.Request) (any, error) {
		return nil, Proposals{all}.Withdraw(r.PathValue("hash"), api.Actor(r), api.Approver(r, r.URL.Query().Get("by")))
	}))
}
