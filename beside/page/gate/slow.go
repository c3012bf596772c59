package gate

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// Wrong tokens are answered late: each of an address later than the one before, and only
// so many wait at a time. Beyond that they are refused at once. A right token is never
// kept waiting, whoever else is guessing from the same address.
const (
	slowFirst      = 500 * time.Millisecond
	slowMost       = 8 * time.Second
	slowPerAddress = 4
	slowInTotal    = 64
	slowRemembered = 1024            // addresses
	slowForgotten  = 5 * time.Minute // after the last wrong one
)

// slowness counts wrong tokens.
type slowness struct {
	mu      sync.Mutex
	waiting int
	by      map[netip.Addr]*guesses
}

type guesses struct {
	wrong, waiting int
	last           time.Time
}

// hold waits as long as a wrong token of an address has to, and tells whether it was let
// wait: false, too many do.
func (s *slowness) hold(ctx context.Context, from netip.Addr) bool {
	pause, ok := s.enter(from, time.Now())
	if !ok {
		return false
	}
	defer s.leave(from)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return true
}

func (s *slowness) enter(from netip.Addr, now time.Time) (pause time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.by[from]
	if g == nil {
		if len(s.by) >= slowRemembered && !s.forget(now) {
			return 0, false
		}
		if s.by == nil {
			s.by = map[netip.Addr]*guesses{}
		}
		g = &guesses{}
		s.by[from] = g
	}
	if now.Sub(g.last) > slowForgotten {
		g.wrong = 0
	}
	g.last = now
	if g.waiting >= slowPerAddress || s.waiting >= slowInTotal {
		return 0, false
	}
	pause = slowMost
	if g.wrong < 5 {
		pause = min(slowMost, slowFirst<<g.wrong)
	}
	g.wrong++
	g.waiting++
	s.waiting++
	return pause, true
}

// forget makes room for an address: that of one which has not guessed for a while, or
// else of the one that guessed longest ago. False: all are waiting.
func (s *slowness) forget(now time.Time) bool {
	var oldest netip.Addr
	var found *guesses
	for from, g := range s.by {
		switch {
		case g.waiting > 0:
		case now.Sub(g.last) > slowForgotten:
			delete(s.by, from)
		case found == nil || g.last.Before(found.last):
			oldest, found = from, g
		}
	}
	if len(s.by) >= slowRemembered && found != nil {
		delete(s.by, oldest)
	}
	return len(s.by) < slowRemembered
}

func (s *slowness) leave(from netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting--
	if g := s.by[from]; g != nil {
		g.waiting--
	}
}
