// Package view makes the pages: what of the supervisor's answers a person wants to see,
// as HTML, and the requests that a person's click becomes.
//
// It owns nothing that changes. Whatever it shows goes through html/template, which
// escapes it, and text of services through clean before. It asks for no secret, and shows
// none. A request that changes something is refused here if page.allow does not permit it,
// and by the control socket again.
package view

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"rlminit/beside/page/gate"
	"rlminit/beside/page/live"
	"rlminit/control"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static/*
var staticFiles embed.FS

// Allow is what may be done on the page: each level may do what those before may.
type Allow int

// The levels, as page.allow has them.
const (
	Read Allow = iota
	Operate
	Approve
)

// ParseAllow reads one.
func ParseAllow(s string) (Allow, error) {
	switch s {
	case "", "read":
		return Read, nil
	case "operate":
		return Operate, nil
	case "approve":
		return Approve, nil
	}
	return Read, fmt.Errorf("cannot allow %q: it is read, operate or approve", s)
}

// Pages are all of them.
type Pages struct {
	*base
	planned *planPages
	deeds   *deedPages
	door    *door
	tails   *live.Tails
	turns   chan struct{} // of searches
}

// base is what every page is made by.
type base struct {
	ask   *live.Supervisor
	hub   *live.Hub
	gate  *gate.Gate
	allow Allow
	fleet string // where the agent of the fleet answers; "": there is none

	askers    *askers
	templates map[string]*template.Template // by the page's name
	assets    map[string]asset              // by the name under which they are served
	names     map[string]string             // of the asset, by the file's name
}

type asset struct {
	kind string // of its content
	data []byte
}

// New makes the pages. fleet is where the agent of the fleet answers; "": nowhere. Refused is what its gate is to call, and Behind is to be called with
// that.
func New(ask *live.Supervisor, hub *live.Hub, allow Allow, fleet string) (*Pages, error) {
	b := &base{ask: ask, hub: hub, allow: allow, fleet: fleet, askers: &askers{}, templates: map[string]*template.Template{}, assets: map[string]asset{}, names: map[string]string{}}
	if err := b.embed(); err != nil {
		return nil, err
	}
	if err := b.parse(); err != nil {
		return nil, err
	}
	p := &Pages{base: b, planned: &planPages{b}, deeds: &deedPages{b}, door: &door{b}, turns: make(chan struct{}, searchesMost)}
	p.tails = live.NewTails(ask, p.logLines)
	return p, nil
}

// embed names the files that are served by what is in them.
func (p *base) embed() error {
	files, err := fs.ReadDir(staticFiles, "static")
	if err != nil {
		return err
	}
	for _, f := range files {
		data, err := staticFiles.ReadFile("static/" + f.Name())
		if err != nil {
			return err
		}
		sum, ext := sha256.Sum256(data), path.Ext(f.Name())
		name := strings.TrimSuffix(f.Name(), ext) + "-" + hex.EncodeToString(sum[:6]) + ext
		kind := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}[ext]
		p.assets[name], p.names[f.Name()] = asset{kind: kind, data: data}, name
	}
	return nil
}

// parse reads the templates: each page is the layout with its own parts, and has those of
// parts.html.
func (p *base) parse() error {
	funcs := template.FuncMap{
		"asset": func(name string) string { return "/static/" + p.names[name] },
		"stamp": stamp, "clock": clock, "size": sizeText, "took": tookText, "clean": clean, "state": stateOf, "label": label,
		"join": strings.Join, "tone": toneOf, "mark": markOf, "who": who,
	}
	shared, err := template.New("shared").Funcs(funcs).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html")
	if err != nil {
		return err
	}
	files, err := fs.ReadDir(templateFiles, "templates")
	if err != nil {
		return err
	}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".html")
		if name == "layout" || name == "parts" {
			continue
		}
		one, err := shared.Clone()
		if err == nil {
			one, err = one.ParseFS(templateFiles, "templates/"+f.Name())
		}
		if err != nil {
			return err
		}
		p.templates[name] = one
	}
	return nil
}

// Behind has the pages know the gate before them.
func (p *base) Behind(g *gate.Gate) { p.gate = g }

// page is what the layout shows, and the body of one page in it.
type page struct {
	Title  string
	Head   *head  // nil: it is not known how the services are, or nobody is logged in
	Nav    string // which entry of the navigation it is
	Live   string // the query of its live view; "": it has none
	After  string // up to where it shows what has happened
	Plain  bool   // without navigation: nobody is logged in
	CSRF   string
	Fleet  bool   // there is one to show
	Open   bool   // nobody needs to log in here
	Base   string // the path that links are below
	Here   string // this very page, as a link
	By     string
	Allow  Allow
	Notice string // what went wrong
	Body   any
}

// Titled is the title without the number of services that are ill.
func (p page) Titled() string {
	if p.Head == nil || p.Head.Box == "" {
		return p.Title + " · rlminit"
	}
	return p.Title + " · " + p.Head.Box + " · rlminit"
}

// CanOperate and CanApprove say which buttons there are.
func (p page) CanOperate() bool { return p.Allow >= Operate }

// CanApprove is for plans and rollbacks.
func (p page) CanApprove() bool { return p.Allow >= Approve }

// show answers with a page.
func (p *base) show(w http.ResponseWriter, r *http.Request, status int, name string, pg page) {
	s := gate.From(r.Context())
	if s != nil {
		pg.CSRF, pg.By = s.CSRF(), s.Token.By()
	}
	pg.Base, pg.Here = s.Base(), here(r)
	if pg.Head == nil && !pg.Plain && name != "problem" { // which shows that nobody answers
		pg.Head = p.headNow(r.Context())
	}
	pg.Allow, pg.Open, pg.Fleet = p.allow, p.gate.Open(), p.fleet != ""
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	// What comes first is sent while the rest is made: a browser shows it already.
	out := bufio.NewWriterSize(w, pieceSize)
	if err := p.templates[name].ExecuteTemplate(out, "layout", pg); err == nil {
		_ = out.Flush() // the browser may have gone
	}
}

// here is a link to the page of a request. One with a token in it is shown to nobody.
func here(r *http.Request) string {
	at := r.URL.RequestURI()
	if r.URL.Query().Has("token") {
		at = r.URL.EscapedPath()
	}
	return "./" + strings.TrimPrefix(at, "/")
}

// pieceSize is in what pieces pages are sent, in bytes: the first has all that is above the
// fold.
const pieceSize = 16 << 10

// part renders one template of parts.html, or of a page, as a fragment.
func (p *base) part(out *bytes.Buffer, page, name string, data any) error {
	return p.templates[page].ExecuteTemplate(out, name, data)
}

// Refused answers who is not let in, or what cannot be shown.
func (p *base) Refused(w http.ResponseWriter, r *http.Request, status int, why string) {
	p.show(w, r, status, "problem", page{Title: http.StatusText(status), Plain: gate.From(r.Context()) == nil, Body: problemBody{Status: status, Why: why}})
}

type problemBody struct {
	Status int
	Why    string
}

// failed answers with what the supervisor says.
func (p *base) failed(w http.ResponseWriter, r *http.Request, err error) {
	status, why := statusOf(err)
	p.Refused(w, r, status, why)
}

// statusOf is how a refusal of the supervisor's is answered to a browser.
func statusOf(err error) (status int, why string) {
	var problem *control.Problem
	switch {
	case errors.As(err, &problem) && problem.Status >= 400 && problem.Status < 600:
		return problem.Status, problem.Detail
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, "the supervisor has not answered in time; try again"
	}
	return http.StatusBadGateway, err.Error()
}

// ask is live.Ask for a page's request.
func ask[T any](r *http.Request, p *base, request func(context.Context, *control.Client) (T, error)) (T, error) {
	return live.Ask(r.Context(), p.ask, request)
}

// now is the position up to which a page that is asked for now will show everything.
func (p *base) now(r *http.Request) string {
	if s := p.hub.Now(); s != nil && s.At.Seq > 0 {
		return s.At.String()
	}
	at, err := p.ask.Last(r.Context())
	if err != nil || at.Seq == 0 {
		return ""
	}
	return at.String()
}

// stamp is a time as HTML has it.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// clock is a time for people, in UTC as logs have it.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }
