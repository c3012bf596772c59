package revision

import (
	"net/http"
	"strconv"

	"rlminit/control"
	"rlminit/supervise/api"
)

// Server is what takes requests: *api.Server.
type Server interface {
	Handle(pattern string, needs api.May, h api.Handler)
}

// Claims is what revisions say of the trash.
type Claims struct {
	Revisions func() *Revisions // nil as long as the volume is not ours, or has no journal
}

// Needs is Revisions'.
func (c Claims) Needs(profile string, revision int) bool {
	all := c.Revisions()
	return all != nil && all.Needs(profile, revision)
}

// Release is Revisions'. Where nobody knows what a rollback takes, it may be this.
func (c Claims) Release(t control.Trashed, needed bool, takeOut func() error) error {
	all := c.Revisions()
	switch {
	case all != nil:
		return all.Release(t, needed, takeOut)
	case !needed:
		return control.Conflict("%s is left: whether a rollback takes it is in the journal, and there is none; --needed removes it all the same", t.Entry)
	}
	return takeOut()
}

// requests are those that need revisions.
type requests struct {
	server    Server
	revisions func() *Revisions
	absent    func() error
}

// Handle adds one of them.
func (q requests) Handle(pattern string, h func(*Revisions, *http.Request) (any, error)) {
	q.server.Handle(pattern, api.MayApply, func(r *http.Request) (any, error) {
		all := q.revisions()
		if all == nil {
			return nil, q.absent()
		}
		return h(all, r)
	})
}

// from answers a request that has a body.
func from[Body, Value any](answer func(Body, uint32) (Value, error), r *http.Request) (any, error) {
	return api.WithBody(func(r *http.Request, body Body) (any, error) { return answer(body, api.Actor(r)) })(r)
}

// Add adds the requests about plans and revisions. revisions is nil as long as
// the volume is not ours, and then absent says why.
func Add(server Server, revisions func() *Revisions, absent func() error) {
	on := requests{server, revisions, absent}
	on.Handle("POST /v1/plan", func(all *Revisions, r *http.Request) (any, error) { return from(all.Plan, r) })
	on.Handle("POST /v1/apply", func(all *Revisions, r *http.Request) (any, error) { return from(all.Apply, r) })
	on.Handle("POST /v1/rollback", func(all *Revisions, r *http.Request) (any, error) { return from(all.Rollback, r) })
	on.Handle("GET /v1/revisions", func(all *Revisions, _ *http.Request) (any, error) { return all.List(), nil })
	on.Handle("GET /v1/revisions/{number}", func(all *Revisions, r *http.Request) (any, error) {
		number, err := strconv.Atoi(r.PathValue("number"))
		after, err2 := strconv.ParseUint(r.URL.Query().Get("after"), 10, 64)
		if r.URL.Query().Get("after") == "" {
			err2 = nil
		}
		if err != nil || err2 != nil {
			return nil, control.BadRequest("write /v1/revisions/NUMBER?after=VERSION")
		}
		return all.Get(r.Context(), number, after)
	})
	on.Handle("GET /v1/drift", func(all *Revisions, _ *http.Request) (any, error) { return all.Drift() })
}
