package view

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"rlminit/beside/page/live"
)

// whole is a page all of which is rendered again when any of it may be another.
type whole struct {
	*base
	page
	view, key string // the template, and that with what it shows
	body      func(context.Context, *live.State) (any, error)
	types     []string // of the records after which it may be another
	ticks     bool     // it may be with time alone
	touched   bool     // it may be whenever a service is

	sent []byte // to all that have it open
	at   time.Time
}

// again is for how long what has not changed with time is not sent again.
const again = time.Minute

func (v *whole) Key() string { return v.key }

func (v *whole) Full(ctx context.Context, now *live.State) ([]byte, error) {
	body, err := v.body(ctx, now)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = v.part(&out, v.view, v.view, body)
	if !bytes.Equal(out.Bytes(), v.sent) {
		v.sent = nil // somebody has another one now than the others
	}
	return out.Bytes(), err
}

func (v *whole) Changed(ctx context.Context, now *live.State, b live.Batch) ([]byte, error) {
	happened := b.Any(v.types...) || v.touched && len(b.Touched) > 0
	if !happened && !(v.ticks && b.Tick) {
		return nil, nil
	}
	before := v.sent
	text, err := v.Full(ctx, now)
	if !happened && before != nil && bytes.Equal(text, before) && time.Since(v.at) < again {
		return nil, err
	}
	v.sent, v.at = text, time.Now()
	return text, err
}

// whole is such a page by the name of its view; nil: there is none.
func (p *Pages) whole(view, name string) *whole {
	w := &whole{base: p.base, view: view, key: view, page: page{Nav: view, Live: liveQuery(view, name)}, types: []string{"operation*", "transition"}}
	number, err := strconv.ParseUint(name, 10, 63)
	switch {
	case view == "operations":
		w.Title = "Operations"
		w.body = func(ctx context.Context, _ *live.State) (any, error) { return p.askOperations(ctx) }
	case view == "operation" && err == nil:
		w.Title, w.Nav, w.ticks = "Operation "+name, "operations", true
		w.body = func(ctx context.Context, _ *live.State) (any, error) { return p.askOperation(ctx, number) }
	case view == "jobs":
		w.Title, w.types, w.touched = "Jobs and schedules", []string{"job_*", "schedule_*"}, true
		w.body = func(ctx context.Context, now *live.State) (any, error) { return p.askJobs(ctx, now) }
	case view == "fleet":
		w.types, w.ticks = nil, true
		w.body = func(ctx context.Context, _ *live.State) (any, error) { return p.askFleet(ctx, filter{}), nil }
	case view == "plans":
		w.Title, w.types, w.ticks = "Plans and revisions", []string{"revision_*", "plan_*"}, true
		w.body = func(ctx context.Context, _ *live.State) (any, error) { return p.planned.askPlansAndRevisions(ctx) }
	case view == "revision" && err == nil:
		w.Title, w.Nav, w.types, w.ticks = "Revision "+name, "plans", []string{"revision_*"}, true
		w.body = func(ctx context.Context, _ *live.State) (any, error) { return p.planned.askRevision(ctx, int(number)) }
	default:
		return nil
	}
	if err == nil {
		w.key += " " + strconv.FormatUint(number, 10)
	}
	return w
}

// showWhole answers with such a page.
func (p *Pages) showWhole(view string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := p.whole(view, r.PathValue("number"))
		if v == nil {
			p.Refused(w, r, http.StatusNotFound, "there is no such "+view+": it has a number")
			return
		}
		var err error
		v.After = p.now(r)
		if v.Body, err = v.body(r.Context(), nil); err != nil {
			p.failed(w, r, err)
			return
		}
		p.show(w, r, http.StatusOK, view, v.page)
	}
}
