package view

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"rlminit/beside/page/live"
	"rlminit/control"
	"rlminit/internal/natural"
)

// row is a service in the overview.
type row struct {
	control.Service
	Is   shown
	Why  string
	Said string // the last line that it has written, of one that is not well
}

// Key orders rows: the ill ones first, then those that were restarted of late, then by name.
func (r row) Key() string {
	rank := r.Attention()
	if r.Crashed() {
		rank = min(rank, crashedRank)
	}
	return fmt.Sprintf("%d %s", rank, natural.Key(r.Name))
}

// crashedRank is the rank of a service that ended by itself of late: that of one with a mark.
const crashedRank = 3

// lately is how long a restart that nobody asked for is pointed out.
const lately = 10 * time.Minute

// Crashed tells whether it runs, but has ended by itself of late.
func (r row) Crashed() bool {
	return r.PID != nil && r.Restarts > 0 && r.LastExit != nil && time.Since(r.LastExit.At) < lately
}

// Again says how often it was restarted.
func (r row) Again() string { return "restarted " + times(r.Restarts) }

// Find is what the filter looks at.
func (r row) Find() string {
	words := []string{r.Name, label(r.Service), r.Is.Word}
	if r.Crashed() {
		words = append(words, "restarted")
	}
	if r.Kind != nil {
		words = append(words, *r.Kind)
	}
	return strings.ToLower(strings.Join(words, " "))
}

func rowOf(s control.Service) row { return row{Service: s, Is: stateOf(s), Why: clean(why(s))} }

// saidMost is of how many services the last line is asked for at once, and saidTime how
// long that may take.
const (
	saidMost = 10
	saidTime = 2 * time.Second
)

// withWords adds to the first rows of those that failed what they have said last: that is
// more often why than how the process ended. It is asked for without secrets.
func (p *base) withWords(ctx context.Context, rows []row) []row {
	ctx, cancel := context.WithTimeout(ctx, saidTime)
	defer cancel()
	var wait sync.WaitGroup
	asked := 0
	for i, s := range rows {
		if s.State != "failed" && s.State != "backoff" {
			continue
		}
		if asked++; asked > saidMost {
			break
		}
		wait.Go(func() { rows[i].Said = p.said(ctx, s.Name) })
	}
	wait.Wait()
	return rows
}

// said is the last line that a service has written itself, or "": without it its row is of
// use too.
func (p *base) said(ctx context.Context, name string) (last string) {
	_, _ = live.Ask(ctx, p.ask, func(ctx context.Context, c *control.Client) (struct{}, error) {
		return struct{}{}, c.Logs(ctx, name, control.LogOptions{Lines: saidLines, Redacted: true}, func(line []byte) error {
			if l := lineOf(line); l.Stream != "rlminit" && strings.TrimSpace(l.Text) != "" {
				last = l.Text
			}
			return nil
		})
	})
	return last
}

// saidLines is among how many of the last lines it is: others are rlminit's own.
const saidLines = 12

// counted is how many services are how.
type counted struct{ Ill, Failed, Moving, Well, Still, All int }

func (c *counted) add(is shown) {
	switch is.Tone {
	case ill:
		c.Ill++
	case moving:
		c.Moving++
	case well:
		c.Well++
	default:
		c.Still++
	}
	c.All++
}

func countAll(services []control.Service) (c counted) {
	for _, s := range services {
		c.add(stateOf(s))
		if s.Seen() == "failed" {
			c.Failed++
		}
	}
	return c
}

// underWay is what else wants attention: operations that run, plans that wait, and what is
// wrong with the container itself.
type underWay struct {
	Operations []operationBody
	Plans      int
	Reasons    []string
}

type overviewBody struct {
	Rows   []row
	Count  counted
	Failed int // that can be restarted here
	Now    underWay
	Filter filter
}

// filter is what the rows of a table are chosen by.
type filter struct {
	At, Of       string
	Query, State string
	States       []string
}

func filterOf(r *http.Request, at, of string, states ...string) filter {
	return filter{At: at, Of: of, Query: strings.TrimSpace(r.FormValue("q")), State: r.FormValue("state"), States: states}
}

func (f filter) fits(is shown, find string) bool {
	return (f.State == "" || is.Word == f.State || f.State == ill && is.Tone == ill) && strings.Contains(find, strings.ToLower(f.Query))
}

// failedOf is how many services that failed can be restarted here.
func (p *Pages) failedOf(c counted) int {
	if p.allow < Operate {
		return 0
	}
	return c.Failed
}

func (p *Pages) overview(w http.ResponseWriter, r *http.Request) {
	after := p.now(r)
	services, err := p.ask.Services(r.Context())
	if err != nil {
		p.failed(w, r, err)
		return
	}
	b := overviewBody{Count: countAll(services)}
	b.Filter = filterOf(r, ".", "Services", ill, "failed", "backoff", "unhealthy", "waiting", "starting", "stopping", "outdated", "running", "scheduled", "exited", "stopped")
	b.Failed = p.failedOf(b.Count)
	for _, s := range services {
		if one := rowOf(s); b.Filter.fits(one.Is, one.Find()) {
			b.Rows = append(b.Rows, one)
		}
	}
	slices.SortFunc(b.Rows, func(a, b row) int { return strings.Compare(a.Key(), b.Key()) })
	b.Rows = p.withWords(r.Context(), b.Rows)
	b.Now = p.underWay(r.Context(), true)
	p.show(w, r, http.StatusOK, "overview", page{Head: headOf(services), Title: "Services", Nav: "overview", Live: "view=overview", After: after, Body: b})
}

// underWay asks what is, all at once. What cannot be told is left out: the overview is more
// use without it than not at all.
func (p *Pages) underWay(ctx context.Context, health bool) (u underWay) {
	var wait sync.WaitGroup
	wait.Go(func() {
		operations, _ := live.Ask(ctx, p.ask, func(ctx context.Context, c *control.Client) ([]control.Operation, error) { return c.Operations(ctx) })
		for _, o := range operations {
			if !o.Over() {
				u.Operations = append(u.Operations, p.operationOf(o))
			}
		}
	})
	wait.Go(func() { u.Plans = p.planned.waiting(ctx) })
	if health {
		wait.Go(func() {
			h, _ := live.Ask(ctx, p.ask, func(ctx context.Context, c *control.Client) (control.Health, error) {
				return c.Health(ctx, "alive", nil)
			})
			u.Reasons = slices.Concat(h.Reasons, h.Walls, h.Unsent)
			for i := range u.Reasons {
				u.Reasons[i] = clean(u.Reasons[i])
			}
		})
	}
	wait.Wait()
	return u
}

// overviewLive is the overview as it changes.
type overviewLive struct{ p *Pages }

func (overviewLive) Key() string { return "overview" }

func (v overviewLive) Full(ctx context.Context, now *live.State) ([]byte, error) {
	var out bytes.Buffer
	if err := v.rows(ctx, &out, now.Services); err != nil {
		return nil, err
	}
	if err := v.summary(&out, now.Services); err != nil {
		return nil, err
	}
	if err := v.p.part(&out, "overview", "underway", v.p.underWay(ctx, true)); err != nil {
		return nil, err
	}
	// Rows of services that are gone meanwhile are not known here: the script removes those
	// that are not among these.
	err := v.p.part(&out, "overview", "only", now.Services)
	return out.Bytes(), err
}

// rows renders rows in a table of their own: outside of one, HTML has none.
func (v overviewLive) rows(ctx context.Context, out *bytes.Buffer, services []control.Service) error {
	if len(services) == 0 {
		return nil
	}
	var rows []row
	for _, s := range services {
		rows = append(rows, rowOf(s))
	}
	out.WriteString("<table data-rows><tbody>")
	for _, r := range v.p.withWords(ctx, rows) {
		if err := v.p.part(out, "overview", "row", r); err != nil {
			return err
		}
	}
	out.WriteString("</tbody></table>")
	return nil
}

// summary renders how many services are how, and what can be done about those that failed.
func (v overviewLive) summary(out *bytes.Buffer, services []control.Service) error {
	count := countAll(services)
	if err := v.p.part(out, "overview", "summary", count); err != nil {
		return err
	}
	return v.p.part(out, "overview", "deeds", v.p.failedOf(count))
}

// calmed are the services whose restarts were pointed out until a little while ago.
func calmed(services []control.Service) (names []string) {
	for _, s := range services {
		if s.Restarts > 0 && s.LastExit != nil && time.Since(s.LastExit.At) > lately && time.Since(s.LastExit.At) < lately+time.Minute {
			names = append(names, s.Name)
		}
	}
	return names
}

func (v overviewLive) Changed(ctx context.Context, now *live.State, b live.Batch) ([]byte, error) {
	var out bytes.Buffer
	var touched []control.Service
	names := slices.Collect(maps.Keys(b.Touched))
	if b.Tick {
		names = append(names, calmed(now.Services)...)
	}
	for _, name := range names {
		if s, ok := now.Service(name); ok {
			touched = append(touched, s)
		} else if err := v.p.part(&out, "overview", "gone", name); err != nil {
			return nil, err
		}
	}
	if err := v.rows(ctx, &out, touched); err != nil {
		return nil, err
	}
	if len(b.Touched) > 0 {
		if err := v.summary(&out, now.Services); err != nil {
			return nil, err
		}
	}
	if b.Tick || b.Any("operation*") {
		if err := v.p.part(&out, "overview", "underway", v.p.underWay(ctx, b.Tick)); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}
