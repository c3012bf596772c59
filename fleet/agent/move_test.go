package agent

import "testing"

// TestMoveTakenBack holds that a move to the member that has the profile takes the one to
// another back: at once while it runs, and also while it is stopped and its data cannot be
// stored.
func TestMoveTakenBack(t *testing.T) {
	a := New(Config{Member: "m", TTL: testTTL}, nil)
	now := 100 * second
	step := func(in Input) []Effect {
		now++
		in.Now = now
		return append([]Effect(nil), a.Step(in)...)
	}
	move := func(to string, revision int64) []Effect {
		return step(Input{Kind: Changed, Changes: []Change{{Name: "alice", Revision: revision, Value: &Move{To: to, Revision: revision}}}})
	}
	gone := func() {
		step(Input{Kind: Changed, Changes: []Change{{Name: "alice", Gone: true, Value: (*Move)(nil)}}})
	}
	alice := func(k Kind) Input { return Input{Kind: k, Name: "alice", Fence: 9} }
	step(Input{Kind: Began, Lease: 5, TTL: testTTL, Sent: now - second})
	step(Input{Kind: Surveyed, Runs: []Run{{Name: "alice", Fence: 9}}})
	step(Input{Kind: Changed, Whole: true, Revision: 20, Changes: []Change{
		{Value: &Space{1}},
		{Name: "m", Value: &Member{}},
		{Name: "n", Value: &Member{Capacity: 1}},
		{Name: "bob", Value: &Owner{Member: "n", Fence: 10}},
		{Name: "alice", Value: &Profile{}},
		{Name: "alice", Value: &Owner{Member: "m", Lease: 5, Fence: 9}},
	}})
	if move("n", 21); a.Held()["alice"].Phase != Running {
		t.Fatal("n is full, and alice does not go on at m")
	}
	if effects := move("m", 22); !has(effects, Moved) {
		t.Errorf("alice is at m, and the move to it stays: %+v", effects)
	}
	gone()
	step(Input{Kind: Changed, Changes: []Change{{Name: "bob", Gone: true, Value: (*Owner)(nil)}}})
	now += 2 * testTTL // what was started is sure to be over once it is stopped
	a.session.sent, a.seen = now, now
	move("n", 23)
	step(alice(Stopped))
	if effects := move("m", 24); has(effects, Prepare) || a.Held()["alice"].Phase != Saving {
		t.Fatalf("what becomes of the data is not known yet: %+v", effects)
	}
	failed := alice(Saved)
	failed.Failed = true
	if effects := step(failed); !has(effects, Prepare) {
		t.Fatalf("its data cannot be stored, and it does not start again: %+v", effects)
	}
	step(alice(Prepared))
	if effects := step(alice(Started)); !has(effects, Moved) || !has(effects, Report) || has(effects, Release) {
		t.Errorf("it runs again under its claim: %+v", effects)
	}
}

// TestForeignNames holds that a member whose box has something else of a name takes no profile
// of that name, and says so with each beat; others take it.
func TestForeignNames(t *testing.T) {
	v := NewView()
	v.Apply(Change{Name: "m0", Value: &Member{Foreign: []string{"plain"}}})
	v.Apply(Change{Name: "m1", Value: &Member{}})
	if at := v.Place("plain"); len(at) != 1 || at[0] != "m1" || v.Rank("plain", "m0") != -1 || v.Why("m0", "plain") == "" || v.Why("m0", "other") != "" {
		t.Errorf("plain goes to %v: %s", at, v.Why("m0", "plain"))
	}
	a := New(Config{Member: "m0"}, v)
	v.Apply(Change{Name: "plain", Value: &Profile{Revision: 1}})
	for _, names := range [][]string{{"plain", "fleet"}, {"fleet"}} {
		in := Input{Kind: Seen, Now: 1}
		for _, name := range names {
			in.Runs = append(in.Runs, Run{Name: name, Foreign: true})
		}
		a.Step(in)
		if got := a.foreignDeclared(); len(got) != len(names)-1 {
			t.Errorf("of %q it says %q", names, got)
		}
	}
}
