package gate

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// A token that follows a wrong one of its address waits before it is looked at, each
// longer than the one before, and only so many wait at a time: beyond that they are
// refused, unseen. A guess counts from when it comes, and waits its time to the end though
// its client hangs up: or whoever does not wait for the answer guesses as fast as it likes.
// Where many addresses guess, the first token of each waits too.
const (
	slowFirst      = 500 * time.Millisecond
	slowMost       = 8 * time.Second
	slowPerAddress = 4
	slowInTotal    = 64              // that wait; and from so many wrong ones on, all wait
	slowRemembered = 1024            // addresses
	slowForgotten  = 5 * time.Minute // after the last wrong one
)

// slowness counts wrong tokens.
type slowness struct {
	mu      sync.Mutex
	waiting int
	all     guesses // of all addresses; its waiting is not used
	by      map[netip.Addr]*guesses
}

// guesses are tokens that were wrong, or are not known to be right yet.
type guesses struct {
	wrong, waiting int
	last           time.Time
}

// count counts another one.
func (g *guesses) count(now time.Time) (before int) {
	if now.Sub(g.last) > slowForgotten {
		g.wrong = 0
	}
	before = g.wrong
	g.wrong++
	g.last = now
	return before
}

// wait waits as long as a token of an address has to before it may be looked at. seen is
// to be called with the outcome. It is nil if the token may not be looked at: too many
// wait, or its client has hung up.
func (s *slowness) wait(ctx context.Context, from netip.Addr) (seen func(right bool)) {
	pause, ok := s.enter(from, time.Now())
	if !ok {
		return nil
	}
	seen = func(right bool) { s.leave(from, right) }
	if pause == 0 {
		return seen
	}
	over := make(chan struct{})
	gone := make(chan struct{})
	time.AfterFunc(pause, func() {
		select {
		case <-gone:
			s.leave(from, false)
		case over <- struct{}{}:
		}
	})
	select {
	case <-over:
		return seen
	case <-ctx.Done():
		close(gone)
		return nil
	}
}

// enter counts a token that comes, and says how long it waits. False: too many do.
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
	if g.waiting >= slowPerAddress || s.waiting >= slowInTotal {
		g.last = now
		return 0, false
	}
	wrong := g.count(now)
	if s.all.count(now) >= slowInTotal {
		wrong = max(wrong, 1)
	}
	switch {
	case wrong > 5:
		pause = slowMost
	case wrong > 0:
		pause = min(slowMost, slowFirst<<(wrong-1))
	}
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

// leave has a token wait no longer. One that was right does not count.
func (s *slowness) leave(from netip.Addr, right bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting--
	g := s.by[from] // which is kept while one waits
	g.waiting--
	if right {
		g.wrong = max(0, g.wrong-1)
		s.all.wrong = max(0, s.all.wrong-1)
	}
}
