package view

import (
	"log"
	"net/http"
	"net/url"

	"rlminit/beside/page/gate"
)

// Handler is what is behind the gate.
func (p *Pages) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /static/{file}", p.static)
	mux.HandleFunc("GET /login", p.door.login)
	mux.HandleFunc("POST /login", p.door.logIn)
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
		"POST /logout":                 p.door.logOut,
		"/":                            p.nowhere,
	} {
		mux.Handle(pattern, p.door.entered(show))
	}
	return mux
}

// door is where one logs in and out.
type door struct{ *base }

// entered has who is not logged in do that first, and refuses a form that is none of the
// session's.
func (p *door) entered(show http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := p.gate.Enter(r)
		switch {
		case s == nil && r.Method == http.MethodPost, s == nil && r.URL.Path == "/live":
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
		show(w, r)
	})
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

func (p *door) login(w http.ResponseWriter, r *http.Request) {
	if p.gate.Enter(r) != nil {
		http.Redirect(w, r, gate.Next(r.URL.Query().Get("next")), http.StatusSeeOther)
		return
	}
	p.askToken(w, r, http.StatusOK, r.URL.Query().Get("next"), "")
}

// askToken shows the form for a token. A browser keeps a SameSite=Strict cookie back when
// somebody follows a link of elsewhere: then the page is asked for again, by itself.
func (p *door) askToken(w http.ResponseWriter, r *http.Request, status int, next, wrong string) {
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Method == http.MethodGet && r.URL.Path != "/login" {
		p.show(w, r, http.StatusOK, "again", page{Title: "One moment", Plain: true, Body: loginBody{Next: "/login?" + url.Values{"next": {gate.Next(next)}}.Encode()}})
		return
	}
	p.show(w, r, status, "login", page{Title: "Log in", Plain: true, Body: loginBody{Next: gate.Next(next), Wrong: wrong}})
}

func (p *door) logIn(w http.ResponseWriter, r *http.Request) {
	outcome, err := p.gate.LogIn(w, r)
	switch {
	case outcome == gate.Welcome:
		http.Redirect(w, r, gate.Next(r.PostForm.Get("next")), http.StatusSeeOther)
	case err != nil:
		log.Printf("nobody can log in: %v", err)
		p.askToken(w, r, http.StatusServiceUnavailable, r.PostForm.Get("next"), "no token can be checked: see the log of the page, rlminit logs page")
	case outcome == gate.TooMany:
		w.Header().Set("Retry-After", "10")
		p.askToken(w, r, http.StatusTooManyRequests, r.PostForm.Get("next"), "this is not the token; too many wrong ones are being tried, so wait a little before the next")
	case outcome == gate.NoForm:
		p.askToken(w, r, http.StatusBadRequest, "", "the form could not be read; try again")
	default:
		p.askToken(w, r, http.StatusUnauthorized, r.PostForm.Get("next"), "this is not the token, or it has expired")
	}
}

func (p *door) logOut(w http.ResponseWriter, r *http.Request) {
	p.gate.LogOut(w, r)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
