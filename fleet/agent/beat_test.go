package agent

import "testing"

// TestOverdue holds that a member of which no beat is heard for the time of its lease is
// evicted, by one of those that live, and by the next one if that does not; and that nobody is
// evicted who lives.
func TestOverdue(t *testing.T) {
	const gone = "a"
	type asked struct {
		by string
		at int64
	}
	var all []asked
	now := 100 * second
	agents := map[string]*Agent{}
	for i, name := range []string{"m", "n", "o"} {
		a := New(Config{Member: name, TTL: testTTL}, nil)
		step := func(in Input) { in.Now = now; a.Step(in) }
		step(Input{Kind: Began})
		step(Input{Kind: Surveyed, Sent: now})
		step(Input{Kind: Granted, Lease: int64(i) + 2, TTL: testTTL, Sent: now})
		step(Input{Kind: Changed, Whole: true, Revision: 9, Changes: []Change{
			{Revision: 4, Value: &Space{4}},
			{Revision: 5, Name: gone, Value: &Member{Lease: 1}},
			{Revision: 6, Name: "m", Value: &Member{Lease: 2}},
			{Revision: 7, Name: "n", Value: &Member{Lease: 3}},
			{Revision: 8, Name: "o", Value: &Member{Lease: 4}},
		}})
		agents[name] = a
	}
	last := now
	for revision := int64(10); now < last+2*testTTL; now += second / 10 {
		var beats []Change
		for i, name := range []string{"m", "n", "o"} {
			beats = append(beats, Change{Revision: revision, Name: name, Value: &Member{Lease: int64(i) + 2}})
			revision++
		}
		for name, a := range agents {
			lease, _ := a.Session()
			var effects []Effect
			for _, in := range []Input{{Kind: Seen, Sent: now}, {Kind: Renewed, Lease: lease, Sent: now}, {Kind: Changed, Changes: beats}} {
				in.Now = now
				effects = append(effects, a.Step(in)...)
			}
			for _, e := range effects {
				if e.Kind != Evict {
					continue
				}
				if e.Name != gone || e.Lease != 1 || e.Revision != 5 || e.Space != 4 {
					t.Fatalf("%s has etcd evict %+v", name, e)
				}
				all = append(all, asked{name, now - last - testTTL})
			}
		}
	}
	first := map[string]int64{}
	for _, a := range all {
		if _, had := first[a.by]; !had {
			first[a.by] = a.at
		}
	}
	for i, name := range []string{"m", "n", "o"} {
		if at, asked := first[name]; !asked || at < int64(i+1)*second/2 || at > int64(i+1)*second/2+second/5 {
			t.Errorf("%s asks %d ms after the lease is over (%v)", name, at/1e6, asked)
		}
	}
}

// TestOverdueForLong holds that a member is evicted also if it has been silent for long: a fleet
// whose members come and go forgets the beats of sessions that are over, and not those of members
// that etcd has.
func TestOverdueForLong(t *testing.T) {
	now := 100 * second
	a := New(Config{Member: "m", TTL: testTTL}, nil)
	step := func(in Input) []Effect { in.Now = now; return a.Step(in) }
	step(Input{Kind: Began})
	step(Input{Kind: Surveyed, Sent: now})
	step(Input{Kind: Changed, Whole: true, Revision: 9, Changes: []Change{
		{Revision: 4, Value: &Space{4}},
		{Revision: 5, Name: "gone", Value: &Member{Lease: 1}},
		{Revision: 6, Name: "n", Value: &Member{Lease: 2}},
	}})
	for i := int64(0); i < 4; i++ { // n is restarted a few times
		step(Input{Kind: Changed, Changes: []Change{{Revision: 10 + i, Name: "n", Value: &Member{Lease: 10 + i}}}})
	}
	now += 21 * second // etcd had no quorum meanwhile, and a new leader gives the lease of gone its time again
	step(Input{Kind: Changed, Changes: []Change{{Revision: 20, Name: "n", Value: &Member{Lease: 20}}}})
	asked := false
	step(Input{Kind: Granted, Lease: 30, TTL: testTTL, Sent: now})
	for range 8 {
		now += second
		asked = asked || has(step(Input{Kind: Seen, Sent: now}), Evict)
		asked = asked || has(step(Input{Kind: Renewed, Lease: 30, Sent: now}), Evict)
	}
	if !asked {
		t.Error("a member that is gone is never evicted")
	}
}

// TestFull holds that nobody is evicted, no claim of a lost member is taken over and nothing
// moves while etcd has no space, and that the first two wait for a lease after the key space was
// put again: no beat was heard before.
func TestFull(t *testing.T) {
	l := claiming(t, 0, Change{Revision: 5, Name: "n", Value: &Member{Lease: 8}}, Change{Revision: 5, Name: "o", Value: &Member{Lease: 9}},
		Change{Revision: 6, Name: "alice", Value: &Profile{Revision: 6}},
		Change{Revision: 7, Name: "alice", Value: &Owner{Member: "n", Lease: 8, Fence: 7}},
		Change{Revision: 8, Name: "alice", Value: &Mark{Fence: 7}})
	l.step(Input{Kind: Changed, Changes: []Change{{Revision: 10, Gone: true, Value: (*Space)(nil)}}})
	l.step(Input{Kind: Changed, Changes: []Change{{Revision: 11, Name: "alice", Gone: true, Value: (*Owner)(nil)}, {Revision: 11, Name: "n", Gone: true, Value: (*Member)(nil)}}})
	wait := func(until int64) (claimed, evicted bool) {
		for !(claimed && evicted) && l.now < until {
			l.later(second / 4)
			for _, e := range l.step(Input{Kind: Tick}) {
				claimed = claimed || e.Kind == Claim && e.Space == 20
				evicted = evicted || e.Kind == Evict && e.Space == 20
				if e.Kind == Renew {
					l.step(Input{Kind: Renewed, Lease: 7, Sent: l.now, Full: l.agent.View().Space == 0})
					l.step(Input{Kind: Seen, Sent: l.now})
				}
			}
		}
		return claimed, evicted
	}
	if claimed, evicted := wait(l.now + 10*testTTL); claimed || evicted {
		t.Errorf("without space: it claims: %v, it evicts: %v", claimed, evicted)
	}
	if !l.agent.View().Full() {
		t.Error("etcd is not said to be full")
	}
	l.step(Input{Kind: Changed, Changes: []Change{{Revision: 20, Value: &Space{20}}}})
	if claimed, evicted := wait(l.now + testTTL - second); claimed || evicted {
		t.Errorf("soon after there is space: it claims: %v, it evicts: %v", claimed, evicted)
	}
	if claimed, evicted := wait(l.now + 5*second); !claimed || !evicted {
		t.Errorf("a lease after there is space: it claims: %v, it evicts: %v", claimed, evicted)
	}
}

// TestMovesWaitForSpace holds that nothing is given back for a move while etcd has no space, for
// nobody could claim it, and that it is once there is some.
func TestMovesWaitForSpace(t *testing.T) {
	l := running(t, Config{})
	l.step(Input{Kind: Changed, Changes: []Change{{Revision: 20, Name: "n", Value: &Member{Lease: 8}}, {Revision: 21, Gone: true, Value: (*Space)(nil)}}})
	l.later(l.agent.Held()["alice"].gone - l.now)
	if e := l.step(Input{Kind: Changed, Changes: []Change{{Revision: 22, Name: "alice", Value: &Move{To: "n", Revision: 22}}}}); has(e, Stop) {
		t.Errorf("without space it is stopped for a move: %+v", e)
	}
	l.one(l.step(Input{Kind: Changed, Changes: []Change{{Revision: 23, Value: &Space{23}}}}), Stop)
}
