package operation

import (
	"math/rand/v2"
	"testing"
	"time"
)

// member is a service in a model of a rolling restart.
type member struct {
	up     bool
	since  int // when it came up
	run    uint64
	taken  bool
	broken bool // its next run does not get up
	failed bool
	sick   bool // it runs, and is not well until it is restarted
}

func (m member) seen(now int) Seen {
	s := Seen{Is: Ending, Unhealthy: m.up && m.sick, For: time.Duration(now-m.since) * time.Second, Run: m.run, Wanted: true}
	switch {
	case m.failed:
		s.Is = Broken
	case m.up:
		s.Is = Up
	}
	return s
}

// However members die and come back meanwhile, and fall ill, none is taken while as many
// as the limit are out of service, but one that is ill, and no more of these at once;
// it comes to an end; and at the end each has a new run, or it stopped at one that is
// named.
func TestRollingKeepsTheRestInService(t *testing.T) {
	ends, ill := map[bool]int{}, map[bool]bool{}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		n, limit, steady := 1+r.IntN(40), 1+r.IntN(5), r.IntN(4)
		roll := NewRoll(n, limit, Gate{Strict: true, Fresh: true, Steady: time.Duration(steady) * time.Second})
		members := make([]member, n)
		for i := range members {
			members[i] = member{up: r.IntN(10) > 0, run: uint64(i + 1)}
			members[i].broken = r.IntN(60) == 0
			members[i].sick = seed%2 == 0 && r.IntN(8) == 0
		}
		next := uint64(n + 1)
		deaths := r.IntN(2)
		for now := 1; ; now++ {
			if now > 5000 {
				t.Fatalf("seed %d: it comes to no end", seed)
			}
			seen := make([]Seen, n)
			out, under := 0, 0
			for i, m := range members {
				seen[i] = m.seen(now)
				if !seen[i].serves() {
					out++
				}
			}
			v := take(roll, seen)
			for i, m := range members {
				if m.taken && !roll.Done[i] {
					under++
				}
			}
			if v.Take >= 0 {
				m := &members[v.Take]
				if out >= limit && (!m.up || !m.sick || under >= limit) {
					t.Fatalf("seed %d: %d is taken while %d of %d are out, %d by its doing", seed, v.Take, out, limit, under)
				}
				ill[m.sick] = true
				if m.taken {
					t.Fatalf("seed %d: %d is taken twice", seed, v.Take)
				}
				m.up, m.taken, m.failed, m.sick = false, true, false, false
				continue
			}
			if v.Failed >= 0 {
				if !members[v.Failed].failed && v.Why != Early {
					t.Fatalf("seed %d: it stops at %d, which has not failed: %d", seed, v.Failed, v.Why)
				}
				ends[false]++
				break
			}
			if v.Over {
				for i, m := range members {
					if m.run <= uint64(i+1) || !m.taken {
						t.Fatalf("seed %d: it is over, and %d has its old run", seed, i)
					}
				}
				ends[true]++
				break
			}
			for i := range members {
				m := &members[i]
				switch {
				case m.up && r.IntN(500) < deaths: // by itself; it comes back later
					m.up, m.sick = false, false
				case m.up && !m.taken && seed%2 == 0 && r.IntN(500) == 0:
					m.sick = true
				case !m.up && !m.failed && r.IntN(3) == 0:
					m.run, next = next, next+1
					if m.failed = m.broken; !m.failed {
						m.up, m.since = true, now
					}
				}
			}
		}
	}
	if ends[true] < 100 || ends[false] < 100 || !ill[true] {
		t.Errorf("too few of one kind: %v, %v", ends, ill)
	}
}

// One that dies before it has been ready for long enough is where it stops.
func TestRollingStopsAtWhatIsNotSteady(t *testing.T) {
	roll := NewRoll(2, 1, Gate{Strict: true, Fresh: true, Steady: 2 * time.Second})
	up := func(run uint64, d time.Duration) Seen { return Seen{Is: Up, For: d, Run: run, Wanted: true} }
	if v := take(roll, []Seen{up(1, time.Hour), up(2, time.Hour)}); v.Take != 0 {
		t.Fatalf("%+v", v)
	}
	if v := roll.Next([]Seen{{Is: Ending, Run: 1, Wanted: true}, up(2, time.Hour)}); v.Take >= 0 || v.Failed >= 0 {
		t.Fatalf("while it is stopped: %+v", v)
	}
	if v := roll.Next([]Seen{up(3, time.Second), up(2, time.Hour)}); v.Take >= 0 || v.Wait != time.Second {
		t.Fatalf("before it is steady: %+v", v)
	}
	if v := roll.Next([]Seen{up(4, 0), up(2, time.Hour)}); v.Failed != 0 || v.Why != Early {
		t.Fatalf("with another run: %+v", v)
	}
}

// take is Next for an operation that takes at once whom it comes to.
func take(r *Roll, seen []Seen) Verdict {
	v := r.Next(seen)
	if v.Take >= 0 {
		r.Take(v.Take, seen[v.Take].Run)
	}
	return v
}

// A member that is come to counts as out of service until it is taken, and is not judged.
func TestComingCountsAsOut(t *testing.T) {
	roll := NewRoll(2, 1, Gate{Down: true})
	roll.Blind = true
	well := Seen{Is: Up, Run: 1, For: time.Hour, Wanted: true}
	stopped := Seen{Is: Up, Run: 1, Wanted: true}
	if v := roll.Next([]Seen{stopped, well}); v.Take != 0 || !roll.Coming(0) || roll.Taken(0) {
		t.Fatalf("%+v", v)
	}
	if v := roll.Next([]Seen{stopped, well}); v.Take >= 0 || v.Failed >= 0 || v.Over {
		t.Errorf("beside one that is being recorded: %+v", v)
	}
	roll.Skip(0)
	if v := roll.Next([]Seen{well, well}); v.Take != 1 {
		t.Errorf("when it is left out: %+v", v)
	}
}
