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
