package agent

import (
	"strings"
	"testing"
)

// lone is an agent that runs alice, which it is told about step by step.
type lone struct {
	t     *testing.T
	agent *Agent
	now   int64
}

func running(t *testing.T, c Config) *lone {
	c.Member, c.TTL, c.Settle = "m", testTTL, 1
	l := &lone{t: t, agent: New(c, nil), now: 100 * second}
	l.step(Input{Kind: Began})
	l.step(Input{Kind: Surveyed})
	l.step(Input{Kind: Changed, Whole: true, Revision: 5, Changes: []Change{{Revision: 1, Value: &Space{1}}, {Revision: 5, Name: "alice", Value: &Profile{Revision: 5, Text: "one"}}}})
	l.step(Input{Kind: Granted, Lease: 7, TTL: testTTL, Sent: l.now})
	l.step(Input{Kind: Changed, Revision: 6, Changes: []Change{{Revision: 6, Name: "m", Value: &Member{Lease: 7}}}})
	l.step(Input{Kind: Claimed, Name: "alice", Lease: 7, Fence: 9})
	l.step(Input{Kind: Prepared, Name: "alice", Fence: 9})
	if e := l.one(l.step(Input{Kind: Started, Name: "alice", Fence: 9}), Report); e.Revision != 5 || e.Text != "" {
		t.Fatalf("it runs: %+v", e)
	}
	return l
}

// claiming is an agent with a session, to which its box answered at seen, that hears all there is.
func claiming(t *testing.T, seen int64, all ...Change) *lone {
	l := &lone{t: t, agent: New(Config{Member: "m", TTL: testTTL, Settle: 2 * second}, nil), now: 100 * second}
	l.step(Input{Kind: Began})
	l.step(Input{Kind: Surveyed, Sent: l.now + seen})
	l.step(Input{Kind: Granted, Lease: 7, TTL: testTTL, Sent: l.now})
	l.step(Input{Kind: Changed, Whole: true, Revision: 9, Changes: append([]Change{{Revision: 1, Value: &Space{1}}, {Revision: 4, Name: "m", Value: &Member{Lease: 7}}}, all...)})
	return l
}

func (l *lone) step(in Input) []Effect {
	l.now += second / 10
	in.Now = l.now
	return append([]Effect(nil), l.agent.Step(in)...)
}

// later lets time pass, in which the session is renewed. What is to be done then is done at
// the next step.
func (l *lone) later(by int64) {
	l.now += by
	l.agent.seen, l.agent.session.sent = l.now, l.now
}

// one is the only effect of a kind.
func (l *lone) one(effects []Effect, k EffectKind) (found Effect) {
	l.t.Helper()
	n := 0
	for _, e := range effects {
		if e.Kind == k {
			found, n = e, n+1
		}
	}
	if n != 1 {
		l.t.Fatalf("%d effects of kind %d, not 1: %+v", n, k, effects)
	}
	return found
}

func (l *lone) declare(revision int64, text string) []Effect {
	p := &Profile{Revision: revision, Text: text}
	return l.step(Input{Kind: Changed, Revision: revision, Changes: []Change{{Revision: revision, Name: "alice", Value: p}}})
}

// TestRefusedDeclaration holds that a declaration that the box would refuse stops nothing,
// and that one that is put back changes nothing.
func TestRefusedDeclaration(t *testing.T) {
	l := running(t, Config{})
	effects := l.declare(20, "two")
	if e := l.one(effects, Try); e.Revision != 20 || e.Profile.Text != "two" || has(effects, Stop) {
		t.Fatalf("the box is asked first: %+v", effects)
	}
	if effects := l.declare(21, "three"); l.one(effects, Try).Revision != 21 {
		t.Fatalf("another one has come: %+v", effects)
	}
	if effects := l.step(Input{Kind: Tried, Name: "alice", Fence: 9, Revision: 20}); has(effects, Stop) || has(effects, Fail) {
		t.Fatalf("the answer is about an older one: %+v", effects)
	}
	effects = l.step(Input{Kind: Tried, Name: "alice", Fence: 9, Revision: 21, Failed: true, Text: "no"})
	if e := l.one(effects, Fail); !strings.Contains(e.Text, "no") || has(effects, Stop) {
		t.Fatalf("it is refused: %+v", effects)
	}
	if effects := l.step(Input{Kind: Tick}); has(effects, Try) || has(effects, Stop) {
		t.Fatalf("nothing else has come: %+v", effects)
	}
	for range 12 {
		l.later(5 * second)
	}
	if effects := l.step(Input{Kind: Tick}); l.one(effects, Try).Revision != 21 {
		t.Fatalf("it is asked about again, for rlminit may have other kinds now: %+v", effects)
	}
	l.step(Input{Kind: Tried, Name: "alice", Fence: 9, Revision: 21, Failed: true, Text: "no"})
	effects = l.declare(22, "one")
	if e := l.one(effects, Report); e.Revision != 22 || has(effects, Try) || has(effects, Stop) || !has(effects, Recover) {
		t.Fatalf("it was put back: %+v", effects)
	}
	l.declare(23, "four")
	if effects := l.step(Input{Kind: Tried, Name: "alice", Fence: 9, Revision: 23}); !has(effects, Stop) {
		t.Fatalf("the box would take it: %+v", effects)
	}
}

// TestSaveUnderWay holds that what was saved while it ran is not taken for all its data, and
// that a save that fails is said, once for each cause.
func TestSaveUnderWay(t *testing.T) {
	l := running(t, Config{Every: second})
	l.later(second)
	l.one(l.step(Input{Kind: Tick}), Save)
	l.later(2 * second)
	if effects := l.step(Input{Kind: Tick}); has(effects, Save) {
		t.Fatalf("one save at a time: %+v", effects)
	}
	saved := func(failed bool, text string) []Effect {
		return l.step(Input{Kind: Saved, Name: "alice", Fence: 9, Failed: failed, Text: text})
	}
	if e := l.one(saved(true, "no room"), Report); e.Text != "no room" || e.Revision != 5 {
		t.Fatalf("it has failed: %+v", e)
	}
	l.later(second)
	l.one(l.step(Input{Kind: Tick}), Save)
	if effects := saved(true, "no room"); has(effects, Say) || has(effects, Report) {
		t.Fatalf("that was said: %+v", effects)
	}
	l.later(second)
	l.one(l.step(Input{Kind: Tick}), Save)
	if e := l.one(saved(false, ""), Report); e.Text != "" {
		t.Fatalf("it is stored again: %+v", e)
	}
	l.later(second)
	l.one(l.step(Input{Kind: Tick}), Save)
	for range 3 {
		l.later(5 * second) // a start that comes late has ended by then
	}
	l.step(Input{Kind: Leave})
	if effects := l.step(Input{Kind: Stopped, Name: "alice", Fence: 9}); has(effects, Save) || has(effects, Release) {
		t.Fatalf("a save of what ran is under way: %+v", effects)
	}
	if effects := saved(false, ""); !has(effects, Save) || has(effects, Release) {
		t.Fatalf("what has ended is to be saved: %+v", effects)
	}
	if e := l.one(saved(true, "no room"), Report); e.Text != "no room" || e.Revision != 0 {
		t.Fatalf("it does not run, and why: %+v", e)
	}
	l.now += 5 * second
	l.one(l.step(Input{Kind: Tick}), Save)
	saved(false, "")
	if phase := l.agent.Held()["alice"]; phase != nil && phase.Phase != Releasing {
		t.Fatalf("all is stored: %+v", phase)
	}
}

// TestDeclaredMeanwhile holds that an agent that begins has what was declared anew while none
// ran come about, and leaves what is as it is declared.
func TestDeclaredMeanwhile(t *testing.T) {
	for declared, anew := range map[int64]bool{5: false, 20: true} {
		l := &lone{t: t, agent: New(Config{Member: "m", TTL: testTTL}, nil), now: 100 * second}
		l.step(Input{Kind: Began, Lease: 7, TTL: testTTL, Sent: l.now})
		l.step(Input{Kind: Surveyed, Runs: []Run{{Name: "alice", Fence: 9}}})
		effects := l.step(Input{Kind: Changed, Whole: true, Revision: 20, Changes: []Change{
			{Revision: 6, Name: "m", Value: &Member{Lease: 7}},
			{Revision: 9, Name: "alice", Value: &Owner{Member: "m", Lease: 7, Fence: 9}},
			{Revision: 10, Name: "alice", Value: &Live{Fence: 9, Declared: 5}},
			{Revision: declared, Name: "alice", Value: &Profile{Revision: declared, Text: "two"}},
		}})
		if has(effects, Stop) || has(effects, Try) != anew {
			t.Errorf("declared at %d: %+v", declared, effects)
		}
	}
}

// TestProgressIsNoDeclaration holds that nothing is restarted by the next agent whose report was
// lost, of which how far its restore was is left.
func TestProgressIsNoDeclaration(t *testing.T) {
	l := &lone{t: t, agent: New(Config{Member: "m", TTL: testTTL}, nil), now: 100 * second}
	l.step(Input{Kind: Began, Lease: 7, TTL: testTTL, Sent: l.now})
	l.step(Input{Kind: Surveyed, Runs: []Run{{Name: "alice", Fence: 9}}})
	e := l.step(Input{Kind: Changed, Whole: true, Revision: 20, Changes: []Change{
		{Revision: 6, Name: "m", Value: &Member{Lease: 7}},
		{Revision: 9, Name: "alice", Value: &Owner{Member: "m", Lease: 7, Fence: 9}},
		{Revision: 10, Name: "alice", Value: &Live{Fence: 9, Doing: "its data is restored: 45 of 120 MB"}},
		{Revision: 5, Name: "alice", Value: &Profile{Revision: 5, Text: "two"}},
	}})
	if has(e, Try) {
		t.Errorf("it is restarted in vain: %+v", e)
	}
}

// TestSlowBox holds that a member whose box takes a third of a lease to say what it has keeps its
// session and claims.
func TestSlowBox(t *testing.T) {
	l := claiming(t, -7*second/2, Change{Revision: 6, Name: "alice", Value: &Profile{Revision: 6, Text: "one"}})
	begun, claimed := l.now, false
	for end := l.now + 120*second; l.now < end && !claimed; {
		var es []Effect
		if l.now-begun >= 7*second/2 { // poll: the next one begins when this one is answered
			es = l.step(Input{Kind: Seen, Sent: begun})
			begun = l.now
		} else {
			es = l.step(Input{Kind: Tick})
		}
		if has(es, Renew) {
			es = append(es, l.step(Input{Kind: Renewed, Lease: 7, Sent: l.now})...)
		}
		claimed = claimed || has(es, Claim) || l.agent.Held()["alice"] != nil
	}
	if !claimed {
		t.Error("it never claims")
	}
}

// TestMoveSoonAfterStart holds that what could not be given back yet, since a start of it may
// be under way, runs until it can be, and is then stopped and given back at once.
func TestMoveSoonAfterStart(t *testing.T) {
	for what, to := range map[string]Change{
		"a move":  {Revision: 21, Name: "alice", Value: &Move{To: "n", Revision: 21}},
		"a drain": {Revision: 21, Name: "m", Value: &Drain{}},
	} {
		l := running(t, Config{})
		l.step(Input{Kind: Changed, Revision: 20, Changes: []Change{{Revision: 20, Name: "n", Value: &Member{Lease: 8}}}})
		if e := l.step(Input{Kind: Changed, Revision: 21, Changes: []Change{to}}); has(e, Stop) {
			t.Errorf("%s: it is stopped, and cannot be given back yet: %+v", what, e)
		}
		gone := l.agent.Held()["alice"].gone
		if next := l.agent.Next(); next > gone+1 {
			t.Errorf("%s: it is looked at again at %d, and it may go at %d", what, next, gone)
		}
		l.later(gone - l.now)
		l.one(l.step(Input{}), Stop)
		if e := l.step(Input{Kind: Stopped, Name: "alice", Fence: 9}); !has(e, Save) {
			t.Errorf("%s: %+v", what, e)
		}
		l.one(l.step(Input{Kind: Saved, Name: "alice", Fence: 9}), Release)
	}
}

// TestBackOffCountsFromTheFailure holds that a profile that could not be started waits since
// then, and not once more when its member is lost later.
func TestBackOffCountsFromTheFailure(t *testing.T) {
	for gone, want := range map[int64]int64{second: 8 * second, 20 * second: 20 * second} { // since the failure
		l := claiming(t, 0, Change{Revision: 6, Name: "alice", Value: &Profile{Revision: 6}},
			Change{Revision: 7, Name: "alice", Value: &Owner{Member: "n", Lease: 8, Fence: 7}})
		failed := l.now
		l.step(Input{Kind: Changed, Changes: []Change{{Revision: 10, Name: "alice", Value: &Backoff{Count: 3, Member: "o"}}}})
		l.later(failed + gone - l.now)
		effects := l.step(Input{Kind: Changed, Changes: []Change{{Revision: 11, Name: "alice", Gone: true, Value: (*Owner)(nil)}}}) // given back
		for !has(effects, Claim) && l.now < failed+60*second {
			l.later(0)
			effects = l.step(Input{Kind: Tick})
		}
		if took := l.now - failed; took < want || took > want+second {
			t.Errorf("given back %d s after the failure, it is claimed after %d ms", gone/second, took/1e6)
		}
	}
}

// TestLostWaitsForNoNewcomer holds that what a lost member had is claimed by one that has been
// there, though one that would come first has just come and claims nothing yet.
func TestLostWaitsForNoNewcomer(t *testing.T) {
	first := &Member{Lease: 8, Weight: 1e9}
	l := claiming(t, 0, Change{Revision: 5, Name: "n", Value: first},
		Change{Revision: 6, Name: "alice", Value: &Profile{Revision: 6}},
		Change{Revision: 7, Name: "alice", Value: &Owner{Member: "n", Lease: 8, Fence: 7}},
		Change{Revision: 8, Name: "alice", Value: &Mark{Fence: 7}})
	l.later(2 * testTTL)
	again := *first
	again.Lease = 9
	effects := l.step(Input{Kind: Changed, Changes: []Change{
		{Revision: 10, Name: "n", Gone: true, Value: (*Member)(nil)},
		{Revision: 11, Name: "alice", Gone: true, Value: (*Owner)(nil)},
		{Revision: 12, Name: "n", Value: &again}, // its container is there again
	}})
	from := l.now
	for !has(effects, Claim) && l.now < from+10*second {
		l.later(0)
		effects = l.step(Input{Kind: Tick})
	}
	if took := l.now - from; took > second {
		t.Errorf("it is claimed after %d ms", took/1e6)
	}
}
