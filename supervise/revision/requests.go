package revision

import (
	"cmp"
	"net/http"
	"strconv"

	"rlminit/control"
	"rlminit/supervise/api"
)

// from answers a request that has a body.
func from[Body, Value any](answer func(Body, uint32) (Value, error), r *http.Request) (any, error) {
	return api.WithBody(func(r *http.Request, body Body) (any, error) { return answer(body, api.Actor(r)) })(r)
}

// Add adds the requests about plans and revisions. revisions is nil as long as
// the volume is not ours, and then absent says why.
func Add(server *api.Server, revisions func() *Revisions, absent func() error) {
	handle := func(pattern string, h func(*Revisions, *http.Request) (any, error)) {
		server.Handle(pattern, api.MayApply, func(r *http.Request) (any, error) {
			if all := revisions(); all != nil {
				return h(all, r)
			}
			return nil, absent()
		})
	}
	handle("POST /v1/plan", func(all *Revisions, r *http.Request) (any, error) { return from(all.Plan, r) })
	handle("POST /v1/apply", func(all *Revisions, r *http.Request) (any, error) { return from(all.Apply, r) })
	handle("POST /v1/rollback", func(all *Revisions, r *http.Request) (any, error) { return from(all.Rollback, r) })
	handle("GET /v1/revisions", func(all *Revisions, _ *http.Request) (any, error) { return all.List(), nil })
	handle("GET /v1/revisions/{number}", func(all *Revisions, r *http.Request) (any, error) {
		number, err := strconv.Atoi(r.PathValue("number"))
		after, err2 := strconv.ParseUint(cmp.Or(r.URL.Query().Get("after"), "0"), 10, 64)
		if err != nil || err2 != nil {
			return nil, control.BadRequest("write /v1/revisions/NUMBER?after=VERSION")
		}
		return all.Get(r.Context(), number, after)
	})
	handle("GET /v1/drift", func(all *Revisions, _ *http.Request) (any, error) { return all.Drift() })
}
