package spawn

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"rlminit/service"
	"rlminit/supervise/link"
	"rlminit/supervise/process"
	"rlminit/wire"
)

// A launch alone is stuck after two seconds; among others that come to their end it
// has time, but not for ever.
func TestStuckIn(t *testing.T) {
	const s = time.Second
	for _, c := range []struct{ had, lastEnd, left time.Duration }{
		{0, time.Hour, 2 * s},
		{2 * s, time.Hour, 0},
		{2 * s, 2 * s, 0},
		{2 * s, s / 2, 3 * s / 2},
		{19 * s, 0, s},
		{20 * s, 0, 0},
		{21 * s, 0, -s},
		{s, 0, 2 * s},
	} {
		if left := stuckIn(c.had, c.lastEnd); left != c.left {
			t.Errorf("after %s, the last end %s ago: %s left, want %s", c.had, c.lastEnd, left, c.left)
		}
	}
}

// sent is what tier 1 is told.
type sent struct {
	mu   sync.Mutex
	text []string
}

func (s *sent) tier1() *Tier1 {
	t := NewTier1()
	t.Link = link.To(func(o link.Outgoing) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch m := o.Message.(type) {
		case *wire.Signal:
			s.text = append(s.text, fmt.Sprintf("%d to %d, scope %d", m.Signal, m.ID, m.Scope))
		case *wire.Acknowledge:
			s.text = append(s.text, fmt.Sprintf("acknowledge %d", m.ID))
		}
	})
	return t
}

func (s *sent) check(t *testing.T, tier1 *Tier1, want ...string) {
	t.Helper()
	tier1.Link.Flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.text, want) {
		t.Errorf("sent: %q, want %q", s.text, want)
	}
	s.text = nil
}

// A probe's program that is given up before it runs could not be signalled: it
// is ended when it is there.
func TestAProbeThatIsGivenUpBeforeItRuns(t *testing.T) {
	var s sent
	tier1 := s.tier1()
	p := NewDriver(tier1, &Preparer{}).Programs
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.driver.Prepare = func(Service) process.Prepared { return process.Prepared{} }
	of := Service{Definition: service.Default("web"), Probe: []string{"ask"}}
	if err := p.Probe(ctx, of, 0, nil); err == nil || err.Error() != "ask did not end in time" {
		t.Error(err)
	}
	id := tier1.NewID(p) - 1
	kill := fmt.Sprintf("9 to %d, scope %d", id, wire.ScopeGroup)
	s.check(t, tier1, kill)
	tier1.Hear(&wire.Spawned{ID: id, PID: 107})
	s.check(t, tier1, kill)
	tier1.Hear(&wire.Exited{ID: id, Exit: wire.Exit{Signal: 9}})
	s.check(t, tier1, fmt.Sprintf("acknowledge %d", id))
	if tier1.owned[id] != nil {
		t.Error("it has ended, and somebody answers for it")
	}
}

// A child that nobody answers for is ended whatever it is at, with what it leaves behind.
func TestDismissed(t *testing.T) {
	var s sent
	tier1 := s.tier1()
	kill := fmt.Sprintf("9 to 5, scope %d", wire.ScopeGroup)
	tier1.Dismiss(wire.Child{ID: 5, State: wire.ChildPending})
	s.check(t, tier1, kill)
	tier1.Hear(&wire.Spawned{ID: 5, PID: 105})
	s.check(t, tier1, kill)
	tier1.Hear(&wire.Exited{ID: 5, Exit: wire.Exit{Signal: 9, Leftovers: 2}})
	s.check(t, tier1, fmt.Sprintf("9 to 5, scope %d", wire.ScopeLeftover), "acknowledge 5")
	tier1.Dismiss(wire.Child{ID: 6, State: wire.ChildExited})
	s.check(t, tier1, "acknowledge 6")
}

// No two spawns have one id, whoever gives them.
func TestNumbers(t *testing.T) {
	tier1 := NewTier1()
	p := NewDriver(tier1, &Preparer{}).Programs
	a := tier1.NewID(p)
	var b uint64
	tier1.Number(func(next uint64) uint64 { b = next; return next + 3 })
	c := tier1.NewID(p)
	if b != a+1 || c != b+3 {
		t.Error(a, b, c)
	}
}
