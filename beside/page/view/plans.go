package view

import (
	"context"
	"net/http"

	"rlminit/beside/page/live"
)

func (p *Pages) waiting(ctx context.Context) int                 { return 0 }
func (p *Pages) plans(w http.ResponseWriter, r *http.Request)    {}
func (p *Pages) plan(w http.ResponseWriter, r *http.Request)     {}
func (p *Pages) approve(w http.ResponseWriter, r *http.Request)  {}
func (p *Pages) withdraw(w http.ResponseWriter, r *http.Request) {}

type plansLive struct{ p *Pages }

func (plansLive) Key() string                                               { return "plans" }
func (v plansLive) Full(ctx context.Context, _ *live.State) ([]byte, error) { return nil, nil }
func (v plansLive) Changed(ctx context.Context, now *live.State, b live.Batch) ([]byte, error) {
	return nil, nil
}
