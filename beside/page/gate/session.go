package gate

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"net/http"
	"slices"
	"strings"
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

// Below is the path below which sessions are: each at a further part of its own.
const Below = "/s/"

// Session is who is logged in.
type Session struct {
	Token   *Token
	Expires time.Time
	csrf    string
	key     string // the part of its path that nobody can guess; "": it needs none
	ended   chan struct{}
}

// Base is the path below which the pages of the session are, with a slash at its end. A
// browser sends the session's cookie there alone: cookies know no ports, so with another
// path every server of this host would be sent it.
func (s *Session) Base() string {
	if s == nil || s.key == "" {
		return "/"
	}
	return Below + s.key + "/"
}

// Path is the path of a page in the session.
func (s *Session) Path(page string) string { return s.Base() + strings.TrimPrefix(page, "/") }

// at tells whether the session is at the path with this key.
func (s *Session) at(key string) bool {
	return s.key != "" && subtle.ConstantTimeCompare([]byte(s.key), []byte(key)) == 1
}

// CSRF is what a form of this session carries, and a page of elsewhere cannot know.
func (s *Session) CSRF() string { return s.csrf }

// Ended is closed when somebody logs out of it.
func (s *Session) Ended() <-chan struct{} { return s.ended }

// newSession begins one, which is over with its token.
func newSession(token *Token, now time.Time) *Session {
	s := &Session{Token: token, Expires: now.Add(sessionTime).Truncate(time.Second), csrf: rand.Text(), key: rand.Text(), ended: make(chan struct{})}
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

// logOut ends a session, if it has not ended yet.
func (all *sessions) logOut(s *Session) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for digest, is := range all.open {
		if is == s {
			all.end(digest)
		}
	}
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

// cookieName is that of sessions. Two pages on one host, as by two ports of docker -p, do
// not log each other out: their sessions have different paths. With __Secure- no page that
// came without TLS can set it; __Host- would do so too, but not with a path.
func cookieName(secure bool) string {
	if secure {
		return "__Secure-rlminit"
	}
	return "rlminit"
}

// cookie is the one of a session; an empty value takes it away.
func (g *Gate) cookie(r *http.Request, s *Session, value string) *http.Cookie {
	c := &http.Cookie{
		Name: cookieName(g.secure(r)), Value: value, Path: s.Base(), Expires: s.Expires,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: g.secure(r),
	}
	if value == "" {
		c.Expires, c.MaxAge = time.Unix(1, 0), -1
	}
	return c
}
