package gate

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
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
	local  *Token // of everybody, where no tokens are needed
	now    func() time.Time
}

// New makes a gate. refuse must not be nil.
func New(set Settings, refuse Refuse) *Gate {
	g := &Gate{set: set, refuse: refuse, now: time.Now}
	if set.Tokens == nil {
		secret := make([]byte, 32)
		rand.Read(secret) // it never fails
		g.set.Tokens = fixed(secret)
		g.local = g.set.Tokens.all[0]
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

// hostName is a Host header without its port.
func hostName(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

// policy is what pages may load and where they may send something: only what is ours,
// and no script or style that is not a file of its own. So a log line that were not
// escaped could still do nothing.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// Wrap lets through to next what is called by a name of ours. What next serves is
// responsible for asking Enter who it is for.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		h.Set("Cache-Control", "no-store")
		if g.set.TLS {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if !g.named(r.Host) {
			g.refuse(w, r, http.StatusMisdirectedRequest, "this page is not called "+clip(r.Host)+" (a page of elsewhere could have its name point here); use its address, or add the name to page.hosts")
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

// named tells whether a Host is one that the page is called by. A name of elsewhere may
// have been made to point here (DNS rebinding), so that its pages count as ours with the
// browser; an address cannot. Ports do not matter: docker -p and ssh -L change them.
func (g *Gate) named(host string) bool {
	name := hostName(host)
	if name == "" {
		return false
	}
	if own(name) {
		return true
	}
	if slices.ContainsFunc(g.set.Hosts, func(h string) bool { return strings.EqualFold(strings.TrimSuffix(h, "."), name) }) {
		return true
	}
	at, _, err := net.SplitHostPort(g.set.Listen)
	if strings.HasPrefix(g.set.Listen, "unix:") {
		at, err = "", net.ErrClosed // it has no address
	}
	if err == nil && at != "" && strings.EqualFold(at, name) {
		return true
	}
	address, isAddress := parseAddress(name)
	if !isAddress {
		return false
	}
	listens, isListens := parseAddress(at)
	everywhere := err == nil && (at == "" || isListens && listens.IsUnspecified())
	return everywhere || isListens && listens == address
}

func parseAddress(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return a.Unmap(), err == nil
}

// ours tells whether a request that may change something was made by a page of ours.
// Sec-Fetch-Site counts, if there is one: with our Referrer-Policy, Origin is "null" for
// our own forms too.
func ours(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Host != "" && strings.EqualFold(origin.Host, r.Host)
}

// Enter returns the session of a request, or nil: whoever asks must log in first.
func (g *Gate) Enter(r *http.Request) *Session {
	if g.local != nil {
		return &Session{Token: g.local, Expires: g.now().Add(sessionTime)}
	}
	c, err := r.Cookie(cookieName(r, g.secure(r)))
	if err != nil {
		return nil
	}
	return g.set.Tokens.session(c.Value, g.now())
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
	TooMany // wrong ones, so that this one is not even slowed
	NoForm
)

// LogIn looks at the token in a form, and sets the cookie if it is right. A wrong one
// takes its time. The error says why no token at all can be right.
func (g *Gate) LogIn(w http.ResponseWriter, r *http.Request) (outcome int, err error) {
	if !readForm(w, r) {
		return NoForm, nil
	}
	token, err := g.set.Tokens.Find(strings.TrimSpace(r.PostForm.Get("token")), g.now())
	if token != nil {
		s := newSession(token, g.now())
		http.SetCookie(w, g.cookie(r, s.value(), s.Expires))
		return Welcome, nil
	}
	if !g.wrong.hold(r.Context(), g.from(r)) {
		return TooMany, err
	}
	return WrongToken, err
}

// LogOut takes the cookie away. The session itself is over with its time, or its token.
func (g *Gate) LogOut(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, g.cookie(r, "", time.Unix(1, 0)))
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

// Next is where to go after a login: a path of ours, whatever was asked for.
func Next(asked string) string {
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

// NewToken makes one that cannot be guessed: 128 bits.
func NewToken() string {
	b := make([]byte, 16)
	rand.Read(b) // it never fails
	return base64.RawURLEncoding.EncodeToString(b)
}
