package agent

import "testing"

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
