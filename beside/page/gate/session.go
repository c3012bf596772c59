package gate

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// sessionTime is how long somebody who has logged in need not do so again.
	sessionTime = 12 * time.Hour
	// sessionsOfOne is how many sessions a token has at a time: with a further one the
	// oldest ends.
	sessionsOfOne = 64
)

// Session is who is logged in.
type Session struct {
	Token   *Token
	Expires time.Time
	csrf    string
	ended   chan struct{}
}

// CSRF is what a form of this session carries, and a page of elsewhere cannot know.
func (s *Session) CSRF() string { return s.csrf }

// Ended is closed when somebody logs out of it.
func (s *Session) Ended() <-chan struct{} { return s.ended }

// newSession begins one, which is over with its token.
func newSession(token *Token, now time.Time) *Session {
	s := &Session{Token: token, Expires: now.Add(sessionTime).Truncate(time.Second), csrf: rand.Text(), ended: make(chan struct{})}
	if !token.Expires.IsZero() && token.Expires.Before(s.Expires) {
		s.Expires = token.Expires.Truncate(time.Second)
	}
	return s
}

// sessions are those that are open, by the digest of what the cookie has. They are kept
// in memory alone: the end of the page is the end of all of them, and a session that
// somebody has logged out of cannot come back.
type sessions struct {
	mu   sync.Mutex
	open map[[sha256.Size]byte]*Session
}

// begin opens one and returns what its cookie is to have.
func (all *sessions) begin(s *Session, now time.Time) (cookie string) {
	cookie = rand.Text() + rand.Text()
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.open == nil {
		all.open = map[[sha256.Size]byte]*Session{}
	}
	maps.DeleteFunc(all.open, func(_ [sha256.Size]byte, s *Session) bool { return !now.Before(s.Expires) })
	var same [][sha256.Size]byte
	for key, other := range all.open {
		if other.Token.is(s.Token) {
			same = append(same, key)
		}
	}
	if len(same) >= sessionsOfOne {
		all.end(slices.MinFunc(same, func(a, b [sha256.Size]byte) int { return all.open[a].Expires.Compare(all.open[b].Expires) }))
	}
	all.open[sha256.Sum256([]byte(cookie))] = s
	return cookie
}

// find returns the session of a cookie, or nil.
func (all *sessions) find(cookie string, now time.Time) *Session {
	all.mu.Lock()
	defer all.mu.Unlock()
	s := all.open[sha256.Sum256([]byte(cookie))]
	if s == nil || !now.Before(s.Expires) {
		return nil
	}
	return s
}

// logOut ends the session of a cookie.
func (all *sessions) logOut(cookie string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.end(sha256.Sum256([]byte(cookie)))
}

func (all *sessions) end(key [sha256.Size]byte) {
	if s := all.open[key]; s != nil {
		close(s.ended)
		delete(all.open, key)
	}
}

// is tells whether a token is the same as another, which may have been read at another time.
func (t *Token) is(other *Token) bool { return subtle.ConstantTimeCompare(t.sum[:], other.sum[:]) == 1 }

// holds tells whether the file still has a token, and its time is not over.
func (t *Tokens) holds(token *Token, now time.Time) bool {
	all, _ := t.read() // of a file that cannot be read there are none, and Find says why
	return slices.ContainsFunc(all, func(is *Token) bool { return is.is(token) && !is.over(now) })
}

// cookieName is that of the session. Browsers keep cookies by host and not by port: two
// pages on one host, as by two ports of docker -p, must not log each other out.
func cookieName(r *http.Request, secure bool) string {
	name := "rlminit"
	if secure {
		name = "__Host-rlminit"
	}
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		name += "-" + port
	}
	return name
}

// cookie is the one that has a session; an empty value takes it away.
func (g *Gate) cookie(r *http.Request, value string, expires time.Time) *http.Cookie {
	c := &http.Cookie{
		Name: cookieName(r, g.secure(r)), Value: value, Path: "/", Expires: expires,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: g.secure(r),
	}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}
