package control

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// ProposeRequest is the body of POST /v1/plans.
type ProposeRequest struct {
	Plan    string                       `json:"plan"`
	By      string                       `json:"by,omitempty"`
	Secrets map[string]map[string]string `json:"secrets,omitempty"` // as in an ApplyRequest
}

// ProposedPlan is a plan that waits for approval: an element of `plan proposed --json`.
type ProposedPlan struct {
	Hash    string      `json:"hash"`
	At      time.Time   `json:"at"`      // when it was proposed
	Expires time.Time   `json:"expires"` // until when it can be applied
	UID     uint32      `json:"uid"`     // the proposer
	By      string      `json:"by"`
	Source  string      `json:"source"`
	Scope   string      `json:"scope"`
	Summary PlanSummary `json:"summary"`
	Deletes []string    `json:"deletes"` // profiles: an apply must allow that
	Current bool        `json:"current"` // it can be applied now
	Why     string      `json:"why"`     // it cannot
	Plan    string      `json:"plan,omitempty"`
}

// PlanSummary counts a plan's changes.
type PlanSummary struct {
	Create   int `json:"create"`
	Update   int `json:"update"`
	Start    int `json:"start"`
	Stop     int `json:"stop"`
	Delete   int `json:"delete"`
	Restarts int `json:"restarts"` // processes that are replaced
	Profiles int `json:"profiles"` // that are declared
}

// Plans are a client's requests about plans that wait for approval.
type Plans struct{ *Client }

// Propose has a plan wait for approval.
func (p Plans) Propose(ctx context.Context, r ProposeRequest) (ProposedPlan, error) {
	return ask[ProposedPlan](ctx, p.Client, same("/v1/plans", r, "the proposal"))
}

// List returns those that wait, the oldest first.
func (p Plans) List(ctx context.Context) ([]ProposedPlan, error) {
	return list[ProposedPlan](ctx, p.Client, "/v1/plans", "the plans")
}

// Get returns one by its hash, with its text.
func (p Plans) Get(ctx context.Context, hash string) (ProposedPlan, error) {
	return ask[ProposedPlan](ctx, p.Client, get("/v1/plans/"+segment(hash), "the plan"))
}

// Withdraw takes one off the list, for the person that by names.
func (p Plans) Withdraw(ctx context.Context, hash, by string) error {
	r := request{method: http.MethodDelete, path: "/v1/plans/" + segment(hash), what: "the withdrawal"}
	if by != "" {
		r.query = url.Values{"by": {by}}
	}
	return p.call(ctx, r, nil)
}
