package view

import (
	"log"
	"net/http"
	"net/url"
	"strings"

	"rlminit/beside/page/gate"
)

// Handler serves the pages behind the gate. Pages that need a session lie below the session's
// path, and nowhere else; where nobody needs to log in, at the root. Files and the form for the
// token are for everybody.
func (p *Pages) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /static/{file}", p.static)
	mux.HandleFunc("GET /login", p.door.login)
	mux.HandleFunc("POST /login", p.door.logIn)
	inside := p.inside()
	mux.Handle("/", p.door.entered(inside))
	if !p.gate.Open() {
		mux.Handle(gate.Below+"{key}/", p.door.entered(inside))
	}
	return mux
}

// inside has the pages of a session, by their paths below the session's.
func (p *Pages) inside() http.Handler {
	mux := http.NewServeMux()
	for pattern, show := range map[string]http.HandlerFunc{
		"GET /{$}":                     p.overview,
		"GET /service/{name}":          p.service,
		"GET /logs":                    p.search,
		"GET /events":                  p.eventsPage,
		"GET /operations":              p.showWhole("operations"),
		"GET /operations/{number}":     p.showWhole("operation"),
		"GET /operations/{id}/cancel":  p.allowed(Operate, p.deeds.confirmCancel),
		"POST /operations/{id}/cancel": p.allowed(Operate, p.deeds.cancel),
		"GET /fleet":                   p.fleetPage,
		"GET /boot":                    p.boot,
		"GET /jobs":                    p.showWhole("jobs"),
		"GET /jobs/{id}/cancel":        p.allowed(Operate, p.deeds.confirmJobCancel),
		"POST /jobs/{id}/cancel":       p.allowed(Operate, p.deeds.cancelJob),
		"GET /plans":                   p.showWhole("plans"),
		"GET /plans/{hash}":            p.planned.plan,
		"POST /plans/{hash}/approve":   p.allowed(Approve, p.planned.approve),
		"POST /plans/{hash}/withdraw":  p.allowed(Approve, p.planned.withdraw),
		"GET /revisions/{number}":      p.showWhole("revision"),
		"GET /rollback":                p.allowed(Approve, p.planned.confirmRollback),
		"POST /rollback":               p.allowed(Approve, p.planned.rollback),
		"GET /do":                      p.allowed(Operate, p.deeds.confirm),
		"POST /do":                     p.allowed(Operate, p.deeds.act),
		"GET /live":                    p.stream,
		"GET /login":                   p.door.login,
		"POST /logout":                 p.door.logOut,
		"/":                            p.nowhere,
	} {
		mux.Handle(pattern, show)
	}
	return mux
}

// door is where one logs in and out.
type door struct{ *base }

// entered hands the requests of a session on, by their path in it. Whoever is not logged
// in does that first, and a form that is none of the session's is refused.
func (p *door) entered(inside http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := p.gate.Enter(r, r.PathValue("key"))
		switch {
		case s == nil && r.Method == http.MethodPost, s == nil && pageOf(r) == "/live":
			p.Refused(w, r, http.StatusUnauthorized, "you are not logged in any more; log in, and try again")
			return
		case s == nil:
			p.askToken(w, r, http.StatusUnauthorized, r.URL.RequestURI(), "")
			return
		}
		r = r.WithContext(gate.With(r.Context(), s))
		if r.Method == http.MethodPost && !gate.Posted(w, r, s) {
			p.Refused(w, r, http.StatusForbidden, "this form is not of this session, or too large; go back, reload the page, and try again")
			return
		}
		http.StripPrefix(strings.TrimSuffix(s.Base(), "/"), inside).ServeHTTP(w, r)
	})
}

// pageOf is the path of a request's page in the session.
func pageOf(r *http.Request) string {
	if key := r.PathValue("key"); key != "" {
		return strings.TrimPrefix(r.URL.Path, gate.Below+key)
	}
	return r.URL.Path
}

// to leads to a page of the request's session.
func to(w http.ResponseWriter, r *http.Request, page string) {
	http.Redirect(w, r, gate.From(r.Context()).Path(page), http.StatusSeeOther)
}

func (p *base) nowhere(w http.ResponseWriter, r *http.Request) {
	p.Refused(w, r, http.StatusNotFound, "there is no such page")
}

// static serves what is embedded. The names have a digest in them, so a browser may keep
// what it has.
func (p *base) static(w http.ResponseWriter, r *http.Request) {
	a, ok := p.assets[r.PathValue("file")]
	if !ok {
		p.nowhere(w, r)
		return
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(a.data) // the browser may have gone
}

type loginBody struct {
	Next  string
	Wrong string
}

// login asks for a token, or leads on whoever is logged in.
func (p *door) login(w http.ResponseWriter, r *http.Request) {
	next := gate.Next(r.URL.Query().Get("next"))
	if gate.From(r.Context()) != nil || p.gate.Open() {
		to(w, r, next)
		return
	}
	p.askToken(w, r, http.StatusOK, next, "")
}

// askToken shows the form for a token. A browser keeps a SameSite=Strict cookie back when
// somebody follows a link of elsewhere into a session: then the page is asked for again,
// by itself and once.
func (p *door) askToken(w http.ResponseWriter, r *http.Request, status int, next, wrong string) {
	key := r.PathValue("key")
	asked := key != "" && pageOf(r) == "/login"
	if asked {
		next = r.URL.Query().Get("next")
	}
	if key != "" && !asked && r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		p.show(w, r, http.StatusOK, "again", page{Title: "One moment", Plain: true, Body: loginBody{Next: gate.Below + key + "/login?" + url.Values{"next": {gate.Next(next)}}.Encode()}})
		return
	}
	p.show(w, r, status, "login", page{Title: "Log in", Plain: true, Body: loginBody{Next: gate.Next(next), Wrong: wrong}})
}

func (p *door) logIn(w http.ResponseWriter, r *http.Request) {
	s, outcome, err := p.gate.LogIn(w, r)
	switch {
	case outcome == gate.Welcome:
		http.Redirect(w, r, s.Path(gate.Next(r.PostForm.Get("next"))), http.StatusSeeOther)
	case err != nil:
		log.Printf("nobody can log in: %v", err)
		p.askToken(w, r, http.StatusServiceUnavailable, r.PostForm.Get("next"), "no token can be checked: see the log of the page, rlminit logs page")
	case outcome == gate.TooMany:
		w.Header().Set("Retry-After", "10")
		p.askToken(w, r, http.StatusTooManyRequests, r.PostForm.Get("next"), "the token was not looked at: too many wrong ones are being tried; wait a little, and try again")
	case outcome == gate.NoForm:
		p.askToken(w, r, http.StatusBadRequest, "", "the form could not be read; try again")
	default:
		p.askToken(w, r, http.StatusUnauthorized, r.PostForm.Get("next"), "this is not the token, or it has expired")
	}
}

func (p *door) logOut(w http.ResponseWriter, r *http.Request) {
	p.gate.LogOut(w, r, gate.From(r.Context()))
	to(w, r, "/login") // the session's own: there the browser forgets its path
}
