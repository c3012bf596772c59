package view

import (
	"context"
	"net/http"

	"rlminit/beside/page/live"
	"rlminit/control"
	"rlminit/plan"
)

// planPages are the pages of plans and revisions.
type planPages struct{ *base }

// planBody is a plan that waits, as it is shown.
type planBody struct {
	control.ProposedPlan
	Is         *plan.Plan // nil: its text is not known here, or cannot be read
	Request    string
	CanApprove bool
	Wrong      string // why an approval of it was refused
}

// Short is the beginning of its hash.
func (b planBody) Short() string { return shortHash(b.Hash) }

// Title names the plan, and how much it deletes.
func (b planBody) Title() string {
	if b.Summary.Delete > 0 {
		return "Plan " + b.Short() + ": " + count(b.Summary.Delete, "deletion", "deletions")
	}
	return "Plan " + b.Short()
}

// Counts says in words what it does.
func (b planBody) Counts() (all []string) {
	s := b.Summary
	for _, of := range []struct {
		n    int
		what string
	}{{s.Create, "to create"}, {s.Update, "to change"}, {s.Start, "to start"}, {s.Stop, "to stop"}, {s.Delete, "to delete"}} {
		if of.n > 0 {
			all = append(all, itoa(of.n)+" "+of.what)
		}
	}
	if s.Restarts > 0 {
		all = append(all, count(s.Restarts, "process is restarted", "processes are restarted"))
	}
	if len(all) == 0 {
		all = append(all, "nothing changes")
	}
	return all
}

type plansBody struct {
	Plans      []planBody
	Revisions  []revisionBody
	CanApprove bool
}

func (p *planPages) askPlans(ctx context.Context) (bodies []planBody, err error) {
	all, err := live.Ask(ctx, p.ask, func(ctx context.Context, c *control.Client) ([]control.ProposedPlan, error) {
		return control.Plans{Client: c}.List(ctx)
	})
	for _, one := range all {
		one.Why = clean(one.Why)
		bodies = append(bodies, planBody{ProposedPlan: one, CanApprove: p.allow >= Approve})
	}
	return bodies, err
}

// waiting is how many plans wait; 0 also where that cannot be told.
func (p *planPages) waiting(ctx context.Context) int {
	all, _ := p.askPlans(ctx)
	return len(all)
}

func (p *planPages) askPlansAndRevisions(ctx context.Context) (b plansBody, err error) {
	if b.Plans, err = p.askPlans(ctx); err == nil {
		b.Revisions, err = p.askRevisions(ctx)
	}
	b.CanApprove = p.allow >= Approve
	return b, err
}

func (p *planPages) askPlan(r *http.Request, hash string) (b planBody, err error) {
	one, err := ask(r, p.base, func(ctx context.Context, c *control.Client) (control.ProposedPlan, error) {
		return control.Plans{Client: c}.Get(ctx, hash)
	})
	b = planBody{ProposedPlan: one, Request: newRequest(), CanApprove: p.allow >= Approve}
	b.Why = clean(b.Why)
	if one.Plan != "" {
		if b.Is, err = plan.Read([]byte(one.Plan)); err != nil {
			return b, err
		}
	}
	return b, err
}

func (p *planPages) plan(w http.ResponseWriter, r *http.Request) {
	b, err := p.askPlan(r, r.PathValue("hash"))
	if err != nil {
		p.failed(w, r, err)
		return
	}
	p.show(w, r, http.StatusOK, "plan", page{Title: b.Title(), Nav: "plans", Body: b})
}

// approve has a plan applied. What is sent is the hash that the page has shown: a plan that
// is another by now is refused by the supervisor, and why is shown beside the plan.
func (p *planPages) approve(w http.ResponseWriter, r *http.Request) {
	hash, form := r.PathValue("hash"), r.PostForm
	gating, wrong := gatingOf(form)
	if wrong != "" {
		p.Refused(w, r, http.StatusBadRequest, wrong)
		return
	}
	revision, err := ask(r, p.base, func(ctx context.Context, c *control.Client) (control.Revision, error) {
		return c.Apply(ctx, control.ApplyRequest{
			Approve: hash, By: by(r), AllowDelete: form.Get("delete") == "yes", Request: requestOf(form.Get("request")), Gating: gating,
		})
	})
	if err != nil {
		status, why := statusOf(err)
		if b, gone := p.askPlan(r, hash); gone == nil {
			b.Wrong = why
			p.show(w, r, status, "plan", page{Title: b.Title(), Nav: "plans", Body: b})
			return
		}
	}
	p.begun(w, r, revision, err)
}

// withdraw takes a plan off the list.
func (p *planPages) withdraw(w http.ResponseWriter, r *http.Request) {
	_, err := ask(r, p.base, func(ctx context.Context, c *control.Client) (struct{}, error) {
		return struct{}{}, control.Plans{Client: c}.Withdraw(ctx, r.PathValue("hash"), by(r))
	})
	p.done(w, r, err, "withdrew plan "+r.PathValue("hash"), "/plans")
}
