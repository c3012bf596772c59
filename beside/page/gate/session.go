package gate

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net"
	"net/http"
	"time"
)

// sessionTime is how long somebody who has logged in need not do so again.
const sessionTime = 12 * time.Hour

// A session is a cookie that only who has its token can make: the time of its end and a
// nonce, and their authenticator with the token as the key. So nothing is kept of it
// here, it outlives this process, and it is over when the token is taken out of the file.
const (
	nonceSize  = 16
	cookieSize = 8 + nonceSize + sha256.Size
)

// Session is who is logged in.
type Session struct {
	Token   *Token
	Expires time.Time
	nonce   string
}

// CSRF is what a form of this session carries, and a page of elsewhere cannot know.
func (s *Session) CSRF() string {
	return base64.RawURLEncoding.EncodeToString(s.Token.keyed("form", s.nonce))
}

// newSession begins one, which is over with its token.
func newSession(token *Token, now time.Time) *Session {
	nonce := make([]byte, nonceSize)
	rand.Read(nonce) // it never fails
	s := &Session{Token: token, Expires: now.Add(sessionTime).Truncate(time.Second), nonce: string(nonce)}
	if !token.Expires.IsZero() && token.Expires.Before(s.Expires) {
		s.Expires = token.Expires.Truncate(time.Second)
	}
	return s
}

func (s *Session) value() string {
	head := binary.BigEndian.AppendUint64(nil, uint64(s.Expires.Unix()))
	head = append(head, s.nonce...)
	return base64.RawURLEncoding.EncodeToString(append(head, s.Token.keyed("session", string(head))...))
}

// session returns the session that a cookie is of, or nil.
func (t *Tokens) session(value string, now time.Time) *Session {
	raw, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil || len(raw) != cookieSize {
		return nil
	}
	head, mac := raw[:8+nonceSize], raw[8+nonceSize:]
	all, _ := t.read() // of a file that cannot be read there are none, and Find says why
	for _, token := range all {
		if !hmac.Equal(mac, token.keyed("session", string(head))) {
			continue
		}
		expires := time.Unix(int64(binary.BigEndian.Uint64(head)), 0)
		if !now.Before(expires) || token.over(now) {
			return nil
		}
		return &Session{Token: token, Expires: expires, nonce: string(head[8:])}
	}
	return nil
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
