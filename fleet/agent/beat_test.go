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
				if e.Name != gone || e.Lease != 1 || e.Revision != 5 {
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
