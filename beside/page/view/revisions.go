package view

import (
	"cmp"
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"rlminit/beside/page/live"
	"rlminit/control"
	"rlminit/plan"
)

// revisionBody is a revision as it is shown.
type revisionBody struct {
	control.Revision
	Done       int // steps it is done with
	CanApprove bool
	Lines      []string // the end of the log of the service that it was rolled back for
}

// Short is the beginning of its hash.
func (b revisionBody) Short() string { return shortHash(b.Hash) }

func shortHash(hash string) string {
	if len(hash) > 19 {
		return hash[:19] + "…"
	}
	return hash
}

func (p *planPages) revisionOf(r control.Revision) revisionBody {
	b := revisionBody{Revision: r, CanApprove: p.allow >= Approve}
	for i, s := range b.Steps {
		if s.State == "passed" || s.State == "undone" || s.State == "stuck" {
			b.Done++
		}
		b.Steps[i].Reason, _ = firstLine(s.Reason)
	}
	b.Held = clean(b.Held)
	b.Reason, b.Lines = firstLine(b.Reason)
	return b
}

// firstLine is a reason without the log that stands below it, and the lines of that.
func firstLine(reason string) (first string, rest []string) {
	lines := strings.Split(reason, "\n")
	for _, line := range lines[1:] {
		rest = append(rest, clean(line))
	}
	return clean(lines[0]), rest
}

func (p *planPages) askRevisions(ctx context.Context) (bodies []revisionBody, err error) {
	all, err := live.Ask(ctx, p.ask, func(ctx context.Context, c *control.Client) ([]control.Revision, error) { return c.Revisions(ctx) })
	for _, r := range slices.Backward(all) {
		bodies = append(bodies, p.revisionOf(r))
	}
	return bodies, err
}

// askRevision asks for one of all that are remembered: the request for one alone would
// wait for it to change.
func (p *planPages) askRevision(ctx context.Context, number int) (revisionBody, error) {
	all, err := p.askRevisions(ctx)
	if err != nil {
		return revisionBody{}, err
	}
	for _, b := range all {
		if b.Revision.Revision == number {
			return b, nil
		}
	}
	return revisionBody{}, control.NewProblem(control.KindNoSuchName, "no revision "+itoa(number)+"; see the list of plans and revisions")
}

// rollbackBody is what a rollback would do.
type rollbackBody struct {
	Revision int // that it goes back to the end of; negative: what was before the last
	Plan     *plan.Plan
	Request  string
	Why      string
	Deletes  []string
}

// rollbackOf reads which revision a rollback goes back to; nil: what was before the last.
func rollbackOf(form string) (to *int, wrong string) {
	if form == "" {
		return nil, ""
	}
	n, err := strconv.Atoi(form)
	if err != nil || n < 0 {
		return nil, "to is the number of a revision, and not " + strconv.Quote(clean(form))
	}
	return &n, ""
}

func (p *planPages) confirmRollback(w http.ResponseWriter, r *http.Request) {
	b := rollbackBody{Revision: -1, Request: newRequest()}
	to, wrong := rollbackOf(r.FormValue("to"))
	if wrong != "" {
		p.Refused(w, r, http.StatusBadRequest, wrong)
		return
	}
	if to != nil {
		b.Revision = *to
	}
	found, err := ask(r, p.base, func(ctx context.Context, c *control.Client) (control.Revision, error) {
		return c.Rollback(ctx, control.RollbackRequest{Revision: to, DryRun: true, AllowDelete: true, By: by(r), Request: b.Request})
	})
	switch {
	case err != nil:
		_, b.Why = statusOf(err)
	case found.Plan == "":
		b.Why = "there is nothing to take back: " + found.State
	default:
		if b.Plan, err = plan.Read([]byte(found.Plan)); err != nil {
			b.Why = err.Error()
		} else {
			b.Deletes = deletesOf(b.Plan)
		}
	}
	p.show(w, r, http.StatusOK, "rollback", page{Title: "Roll back?", Nav: "plans", Body: b})
}

func deletesOf(p *plan.Plan) (names []string) {
	for _, c := range p.Changes {
		if c.Action == plan.Delete {
			names = append(names, c.Name)
		}
	}
	return names
}

// newRequest is a key under which a request is carried out once, however often a form is
// sent.
func newRequest() string { return "page-" + rand.Text() }

func (p *planPages) rollback(w http.ResponseWriter, r *http.Request) {
	form := r.PostForm
	to, wrong := rollbackOf(form.Get("to"))
	gating, unsteady := gatingOf(form)
	if wrong = cmp.Or(wrong, unsteady); wrong != "" {
		p.Refused(w, r, http.StatusBadRequest, wrong)
		return
	}
	revision, err := ask(r, p.base, func(ctx context.Context, c *control.Client) (control.Revision, error) {
		return c.Rollback(ctx, control.RollbackRequest{
			Revision: to, AllowDelete: form.Get("delete") == "yes", By: by(r), Request: requestOf(form.Get("request")), Gating: gating,
		})
	})
	p.begun(w, r, revision, err)
}

// requestOf is the key that a form carries, or a new one.
func requestOf(form string) string {
	if form == "" || len(form) > 100 {
		return newRequest()
	}
	return form
}

// gatingOf is how a revision that is begun here is carried out: as rlminit apply does, but
// for how long each service is to be ready, which the form says.
func gatingOf(form url.Values) (g control.Gating, wrong string) {
	steady, err := strconv.Atoi(cmp.Or(form.Get("steady"), "30"))
	if err != nil || steady < 0 || steady > steadyMost {
		return g, "steady is a number of seconds from 0 to " + itoa(steadyMost) + ", and not " + strconv.Quote(clean(form.Get("steady")))
	}
	return control.Gating{SteadyMS: int64(steady) * 1000, TimeoutMS: 120_000, Rolling: 1}, ""
}

// steadyMost is the most that may be asked for, in seconds.
const steadyMost = 3600

// begun shows the revision that a request began, or why it began none.
func (p *planPages) begun(w http.ResponseWriter, r *http.Request, revision control.Revision, err error) {
	if err == nil && revision.State == control.RevisionUnchanged {
		p.Refused(w, r, http.StatusOK, "there is nothing to do: everything is as the plan has it")
		return
	}
	number := itoa(revision.Revision)
	p.done(w, r, err, "began revision "+number+": "+revision.Hash, "/revisions/"+number)
}
