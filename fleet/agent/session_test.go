package agent

import (
	"testing"
	"time"
)

// has tells whether there is an effect of a kind.
func has(effects []Effect, k EffectKind) bool {
	for _, e := range effects {
		if e.Kind == k {
			return true
		}
	}
	return false
}

// TestClearBeforeASession holds that no session begins while anything may be left in the
// box of what ran under another.
func TestClearBeforeASession(t *testing.T) {
	a := New(Config{Member: "m"}, nil)
	now := second
	step := func(in Input) []Effect {
		now += second / 10
		in.Now = now
		return a.Step(in)
	}
	if effects := step(Input{Kind: Began}); !has(effects, Survey) || has(effects, Grant) {
		t.Fatalf("at first the box is asked what it has: %+v", effects)
	}
	if effects := step(Input{Kind: Surveyed, Runs: []Run{{Name: "alice", Fence: 7}}}); has(effects, Grant) {
		t.Fatal("a session begins while alice runs")
	}
	if effects := step(Input{Kind: Changed, Whole: true, Revision: 9}); !has(effects, Stop) || has(effects, Grant) {
		t.Fatalf("what runs without a claim is stopped first: %+v", effects)
	}
	step(Input{Kind: Stopped, Name: "alice", Fence: 7, Failed: true})
	now += 2 * second
	if effects := step(Input{Kind: Tick}); !has(effects, Stop) || has(effects, Grant) {
		t.Fatalf("nobody knows whether it is stopped: it is to be stopped again: %+v", effects)
	}
	if effects := step(Input{Kind: Stopped, Name: "alice", Fence: 7}); !has(effects, Grant) {
		step(Input{Kind: Tick})
		if !has(step(Input{Kind: Tick}), Grant) {
			t.Fatal("the box is clear, and no session begins")
		}
	}
}

// TestClearOfOtherFences holds that an agent that takes a session over holds on to what the
// box runs under a claim of it, and stops what runs under any other fence.
func TestClearOfOtherFences(t *testing.T) {
	a := New(Config{Member: "m", TTL: testTTL}, nil)
	now := 100 * second
	step := func(in Input) []Effect {
		now++
		in.Now = now
		return append([]Effect(nil), a.Step(in)...)
	}
	step(Input{Kind: Began, Lease: 5, TTL: testTTL, Sent: now - second})
	step(Input{Kind: Surveyed, Runs: []Run{{Name: "alice", Fence: 7}, {Name: "bob", Fence: 8}}})
	effects := step(Input{Kind: Changed, Whole: true, Revision: 20, Changes: []Change{
		{Name: "alice", Value: &Profile{}},
		{Name: "bob", Value: &Profile{}},
		{Name: "alice", Value: &Owner{Member: "m", Lease: 5, Fence: 9}},
		{Name: "bob", Value: &Owner{Member: "m", Lease: 5, Fence: 8}},
	}})
	stopped := map[string]bool{}
	for _, e := range effects {
		if e.Kind == Stop {
			stopped[e.Name] = true
		}
	}
	if !stopped["alice"] || stopped["bob"] {
		t.Errorf("alice runs under another fence than the claim's, and bob does not; stopped are %v", stopped)
	}
	if h := a.Held()["bob"]; h == nil || h.Phase != Running {
		t.Errorf("bob is to go on: %+v", h)
	}
}

// TestMuteBox holds that a member whose box does not answer lets its lease run out, that it
// begins no other one until the box has said what is left, and that one whose box answers
// again in time keeps it.
func TestMuteBox(t *testing.T) {
	for _, c := range []struct {
		mute time.Duration
		kept bool
	}{{8 * time.Second, true}, {60 * time.Second, false}} {
		a := New(Config{Member: "m", TTL: testTTL}, nil)
		now, lease := 100*second, int64(5)
		step := func(in Input) []Effect {
			in.Now = now
			effects := append([]Effect(nil), a.Step(in)...)
			for _, e := range effects {
				if e.Kind == Renew {
					a.Step(Input{Kind: Renewed, Now: now, Lease: e.Lease, Sent: now})
				}
			}
			return effects
		}
		step(Input{Kind: Began, Lease: lease, TTL: testTTL, Sent: now})
		step(Input{Kind: Surveyed})
		step(Input{Kind: Changed, Whole: true, Revision: 20, Changes: []Change{
			{Name: "alice", Value: &Profile{}}, {Name: "alice", Value: &Owner{Member: "m", Lease: lease, Fence: 9}},
		}})
		over := now + int64(c.mute)
		for from := now; now < over; now += second / 10 {
			if effects := step(Input{Kind: Tick}); has(effects, Renew) && now > from+testTTL/3 {
				t.Fatalf("the lease is renewed %s after the box answered", time.Duration(now-from))
			}
		}
		effects := step(Input{Kind: Seen, Sent: now})
		if at, _ := a.Session(); (at == lease) != c.kept || has(effects, Renew) != c.kept || has(effects, Grant) {
			t.Errorf("after %s the session is %x, and the effects are %+v", c.mute, at, effects)
		}
	}
}

// TestOldSessionInTheWay holds that the session before is revoked with each attempt to begin
// another one: the first may have met an etcd that answers nothing.
func TestOldSessionInTheWay(t *testing.T) {
	a := New(Config{Member: "m", TTL: testTTL}, nil)
	now := 100 * second
	step := func(in Input) []Effect {
		in.Now = now
		return append([]Effect(nil), a.Step(in)...)
	}
	step(Input{Kind: Began, Lease: 5, TTL: testTTL, Sent: now})
	step(Input{Kind: Surveyed, Sent: now})
	now += testTTL // no beat is confirmed
	for attempt := range 3 {
		effects := step(Input{Kind: Tick})
		if !has(effects, Revoke) || !has(effects, Grant) {
			t.Fatalf("attempt %d: %+v", attempt, effects)
		}
		step(Input{Kind: NotGranted, Text: "it is there already"})
		now += 2 * second
	}
	step(Input{Kind: Tick})
	step(Input{Kind: Granted, Lease: 6, TTL: testTTL, Sent: now})
	if lease, _ := a.Session(); lease != 6 || has(step(Input{Kind: Tick}), Revoke) {
		t.Errorf("the session is %d", lease)
	}
}
