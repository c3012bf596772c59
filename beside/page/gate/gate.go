package gate

import (
	"context"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Settings say where the page is, and for whom.
type Settings struct {
	Listen string   // HOST:PORT or unix:PATH
	Tokens *Tokens  // nil: none are needed, as on a socket with the rights of a file
	Hosts  []string // more names that it is called by
	TLS    bool     // it speaks TLS itself
	Behind bool     // a proxy speaks it, and says in X-Forwarded-For for whom
}

// Refuse answers who is not let in: with a page, if a person is likely to read it.
type Refuse func(w http.ResponseWriter, r *http.Request, status int, why string)

// Gate is in front of everything that the page serves.
type Gate struct {
	set    Settings
	refuse Refuse
	wrong  slowness
	logged sessions
	local  *Session // of everybody, where no tokens are needed
	now    func() time.Time
}

// New makes a gate. refuse must not be nil.
func New(set Settings, refuse Refuse) *Gate {
	g := &Gate{set: set, refuse: refuse, now: time.Now}
	if set.Tokens == nil {
		g.local = newSession(&Token{}, g.now())
		g.local.key = ""
	}
	return g
}

// Open tells whether everybody who reaches the page is let in.
func (g *Gate) Open() bool { return g.local != nil }

// secure tells whether cookies may go over TLS alone. Where a browser reaches us as its own
// machine, as by docker -p 127.0.0.1:9118:9118, nothing need speak it.
func (g *Gate) secure(r *http.Request) bool {
	if g.set.TLS || !g.set.Behind {
		return g.set.TLS
	}
	return r.Header.Get("X-Forwarded-Proto") == "https" || !own(hostName(r.Host))
}

// own tells whether a name means the machine of whoever uses it, RFC 6761.
func own(name string) bool {
	address, is := parseAddress(name)
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || is && address.IsLoopback()
}

// hostName is a Host header without its port, or "": it is none, as with a port that is
// no number.
func hostName(host string) string {
	u, err := url.Parse("http://" + host)
	if err != nil || u.Host != host {
		return ""
	}
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}

// policy is what pages may load and where they may send something: only what is ours,
// and no script or style that is not a file of its own. So a log line that were not
// escaped could still do nothing.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'self'"

// Wrap lets through to next what is called by a name of ours. What next serves is
// responsible for asking Enter who it is for.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin") // no other origin is told the path of a session
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		h.Set("Cache-Control", "no-store")
		if g.set.TLS {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if !g.named(r) {
			g.refuse(w, r, http.StatusMisdirectedRequest, "this page is not called "+clip(r.Host)+" (a page of elsewhere could have its name point here); if that is right, add the name or address, without its port, to page.hosts of the configuration")
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost {
			h.Set("Allow", "GET, HEAD, POST")
			g.refuse(w, r, http.StatusMethodNotAllowed, "only GET, HEAD and POST are understood here")
			return
		}
		if r.Method == http.MethodPost && !ours(r) {
			g.refuse(w, r, http.StatusForbidden, "this request comes from a page of elsewhere; open the page itself, and try again there")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// clip shortens a text of a stranger to what a message can show.
func clip(s string) string {
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return `"` + strings.ToValidUTF8(s, "?") + `"`
}

// named tells whether a request is for a name or address that the page is called by: one
// of the browser's own machine, one of hosts, the address that is listened on, or the one
// that the connection has come to. Any other name may have been made to point here (DNS
// rebinding), so that its pages count as ours with the browser. Ports do not matter:
// docker -p and ssh -L change them.
func (g *Gate) named(r *http.Request) bool {
	name := hostName(r.Host)
	if name == "" {
		return false
	}
	if own(name) || slices.ContainsFunc(g.set.Hosts, func(h string) bool { return sameHost(h, name) }) {
		return true
	}
	if at, _, err := net.SplitHostPort(g.set.Listen); err == nil && !strings.HasPrefix(g.set.Listen, "unix:") && sameHost(at, name) {
		address, _ := parseAddress(at)
		return !address.IsUnspecified()
	}
	at, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return at != nil && sameHost(at.IP.String(), name)
}

// sameHost tells whether two names are one, or two ways to write one address.
func sameHost(a, b string) bool {
	at, isAddress := parseAddress(a)
	bt, _ := parseAddress(b)
	return strings.EqualFold(strings.TrimSuffix(a, "."), b) || isAddress && at == bt
}

func parseAddress(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return a.Unmap(), err == nil
}

// ours tells whether a request that may change something was made by a page of ours.
// Sec-Fetch-Site counts, if there is one. Browsers without it send Origin, which our
// Referrer-Policy leaves as it is: with no-referrer it would be "null" for our own forms
// too.
func ours(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Host != "" && strings.EqualFold(origin.Host, r.Host)
}

// Enter returns the session of a request that was made below the path with this key, or
// nil: whoever asks must log in first. Key and cookie must belong together. A server at
// another port of this host can have browsers send cookies of its own with ours, so all
// of the name are looked at.
func (g *Gate) Enter(r *http.Request, key string) *Session {
	if g.local != nil {
		return g.local
	}
	for _, c := range r.CookiesNamed(cookieName(g.secure(r))) {
		if s := g.logged.find(c.Value, g.now()); s != nil && s.at(key) && g.Holds(s) {
			return s
		}
	}
	return nil
}

// Holds tells whether a session that somebody has entered goes on: its time is not over,
// nobody has logged out of it, and its token is still in the file.
func (g *Gate) Holds(s *Session) bool {
	if s == g.local {
		return true
	}
	select {
	case <-s.ended:
		return false
	default:
		return g.now().Before(s.Expires) && g.set.Tokens.holds(s.Token, g.now())
	}
}

// formMost bounds the body of a POST, in bytes.
const formMost = 64 << 10

// Posted reads the form of a POST, of up to 64 KB, and tells whether it is one of this
// session's pages: its field csrf is the session's.
func Posted(w http.ResponseWriter, r *http.Request, s *Session) bool {
	if !readForm(w, r) {
		return false
	}
	return subtle.ConstantTimeCompare([]byte(r.PostForm.Get("csrf")), []byte(s.CSRF())) == 1
}

func readForm(w http.ResponseWriter, r *http.Request) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if strings.TrimSpace(kind) != "application/x-www-form-urlencoded" {
		return false
	}
	r.Body = http.MaxBytesReader(w, r.Body, formMost)
	return r.ParseForm() == nil
}

// The outcomes of a login.
const (
	Welcome = iota
	WrongToken
	TooMany // wrong ones, so that this one is not looked at
	NoForm
)

// LogIn looks at the token in a form. If it is right, it returns the session that begins,
// and sets its cookie. The error says why no token at all can be right.
func (g *Gate) LogIn(w http.ResponseWriter, r *http.Request) (s *Session, outcome int, err error) {
	if !readForm(w, r) {
		return nil, NoForm, nil
	}
	if g.local != nil {
		return g.local, Welcome, nil
	}
	seen := g.wrong.wait(r.Context(), g.from(r))
	if seen == nil {
		return nil, TooMany, nil
	}
	token, err := g.set.Tokens.Find(strings.TrimSpace(r.PostForm.Get("token")), g.now())
	seen(token != nil)
	if token != nil {
		s := newSession(token, g.now())
		http.SetCookie(w, g.cookie(r, s, g.logged.begin(s, g.now())))
		return s, Welcome, nil
	}
	return nil, WrongToken, err
}

// LogOut ends a session, and takes its cookie away.
func (g *Gate) LogOut(w http.ResponseWriter, r *http.Request, s *Session) {
	g.logged.logOut(s)
	http.SetCookie(w, g.cookie(r, s, ""))
}

// from is the address that a request comes from. Of a proxy it is what that has added
// last: what stands before, the client can have written.
func (g *Gate) from(r *http.Request) netip.Addr {
	if g.set.Behind {
		all := strings.Join(r.Header.Values("X-Forwarded-For"), ",")
		last := strings.TrimSpace(all[strings.LastIndexByte(all, ',')+1:])
		if a, ok := parseAddress(last); ok {
			return group(a)
		}
	}
	if a, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return group(a.Addr().Unmap())
	}
	return netip.Addr{}
}

// group is what one person has: of IPv6 that is a network of 64 bits.
func group(a netip.Addr) netip.Addr {
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

// Next is where to go after a login: the path of a page of ours in a session, whatever was
// asked for. The session's part of a path is left out.
func Next(asked string) string {
	if below, is := strings.CutPrefix(asked, Below); is {
		_, page, _ := strings.Cut(below, "/")
		asked = "/" + page
	}
	u, err := url.Parse(asked)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(asked, "/") || strings.HasPrefix(asked, "//") || strings.ContainsAny(asked, "\\\r\n\t") || strings.HasPrefix(asked, "/login") {
		return "/"
	}
	if u.Query().Has("token") {
		return u.EscapedPath() // nobody may read it out of the address again
	}
	return asked
}

type sessionKey struct{}

// With returns a context that carries a session; From gives it back.
func With(ctx context.Context, s *Session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// From is the session of a request that came through.
func From(ctx context.Context) *Session {
	s, _ := ctx.Value(sessionKey{}).(*Session)
	return s
}
