package operation

import (
	"testing"
	"time"
)

const steady = 2 * time.Second

// Every course of a service of up to six moments: a strict gate is passed only by one run
// that was up and not unhealthy for the steady time; what was not up before the command
// fails by its own run alone; and whoever waits is told when time alone is to pass.
func TestAStrictGate(t *testing.T) {
	old := Seen{Is: Up, For: time.Hour, Run: 1, Active: true, Wanted: true}
	ending := Seen{Is: Ending, Run: 1, Active: true, Wanted: true}
	up := func(run uint64, d time.Duration) Seen {
		return Seen{Is: Up, For: d, Run: run, Active: true, Wanted: true}
	}
	sick := up(2, time.Second)
	sick.Unhealthy = true
	turn := up(2, steady)
	turn.Turn = true
	moments := []Seen{
		old, ending, up(2, 0), up(2, steady), sick, turn, up(3, 0),
		{Is: Backoff, Run: 2, Wanted: true},
		{Is: Broken, Run: 2, Wanted: true},
		{Is: Down, Run: 2},
		{Is: Ended, Run: 2, Wanted: true},
		{Is: Stuck, Run: 1, Wanted: true},
		{Is: Waiting, Run: 1, Wanted: true},
	}
	ends := map[string]int{}
	var walk func(gate Gate, fresh bool, depth int, last Seen)
	walk = func(gate Gate, fresh bool, depth int, last Seen) {
		for _, s := range moments {
			g := gate
			switch j := g.Look(s); {
			case j.Passed:
				if !s.serves() || s.For < steady || fresh && s.Run == 1 || j.Why != Nothing {
					t.Fatalf("%+v passes (fresh: %v)", s, fresh)
				}
				ends["passed"]++
			case j.Why != Nothing:
				if s.serves() && s.Run == gate.run || fresh && s.Run == 1 && s.Is != Stuck || s.Turn {
					t.Fatalf("%+v after %+v: %d", s, last, j.Why)
				}
				ends["failed"]++
			case depth > 0:
				if s.serves() && j.Wait <= 0 && !(fresh && s.Run == 1) {
					t.Fatalf("%+v: nobody looks again", s)
				}
				walk(g, fresh, depth-1, s)
			}
		}
	}
	walk(Gate{Strict: true, Steady: steady}, false, 5, Seen{})
	walk(Gate{Strict: true, Steady: steady, Fresh: true, Old: 1}, true, 5, Seen{})
	t.Logf("figure: %v", ends)
	if ends["passed"] == 0 || ends["failed"] == 0 {
		t.Errorf("%v", ends)
	}
}

// What is seen of a member, and what each kind of gate makes of it.
func TestGates(t *testing.T) {
	wanted := func(is Is) Seen { return Seen{Is: is, Run: 2, Wanted: true, Active: true} }
	unheard := wanted(Broken)
	unheard.Unheard = true
	fault := wanted(Up)
	fault.Fault = true
	busy := Seen{Is: Down, Busy: true}
	attempt, patient, down := Gate{}, Gate{Patient: true}, Gate{Down: true}
	for _, c := range []struct {
		what string
		gate Gate
		seen Seen
		want Judgement
	}{
		{"up", attempt, wanted(Up), Judgement{Passed: true}},
		{"a oneshot at its work", attempt, wanted(Working), Judgement{}},
		{"a oneshot at its work, for whoever waits", patient, wanted(Working), Judgement{Passed: true}},
		{"a daemon that ended well", attempt, wanted(Ended), Judgement{Passed: true}},
		{"the same, where it is to serve", Gate{Strict: true}, wanted(Ended), Judgement{Why: Failed}},
		{"the same, for whoever waits", patient, wanted(Ended), Judgement{Why: Failed}},
		{"the first attempt failed", attempt, wanted(Backoff), Judgement{Why: Tried}},
		{"the same, for whoever waits", patient, wanted(Backoff), Judgement{}},
		{"no room", attempt, wanted(NoRoom), Judgement{Why: Full}},
		{"stuck", attempt, wanted(Stuck), Judgement{Why: Held}},
		{"waiting", attempt, wanted(Waiting), Judgement{}},
		{"given up", attempt, wanted(Broken), Judgement{Why: Failed}},
		{"given up, and its last words are on their way", attempt, unheard, Judgement{}},
		{"stopped by somebody", attempt, Seen{Is: Down}, Judgement{Why: Stopped}},
		{"stopped, for whoever waits", patient, Seen{Is: Down}, Judgement{}},
		{"gone", attempt, Seen{Is: Gone}, Judgement{Why: Removed}},
		{"a fault", attempt, fault, Judgement{Why: Faulty}},
		{"down", down, Seen{Is: Down}, Judgement{Passed: true}},
		{"down, and a job of it runs", down, busy, Judgement{}},
		{"on its way down", down, Seen{Is: Ending, Active: true}, Judgement{}},
		{"started again", down, wanted(Ending), Judgement{Why: Started}},
		{"started again, for whoever waits", Gate{Down: true, Patient: true}, wanted(Ending), Judgement{}},
	} {
		if j := c.gate.Look(c.seen); j != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, j, c.want)
		}
	}
}

// Where there is no delay nothing is to be seen between two attempts, but that it was
// started again by itself.
func TestAnAttemptThatIsFollowedAtOnce(t *testing.T) {
	g := Gate{}
	first := Seen{Is: Starting, Run: 1, Active: true, Wanted: true}
	if j := g.Look(first); j != (Judgement{}) {
		t.Fatalf("%+v", j)
	}
	first.Run, first.Restarts = 2, 1
	if j := g.Look(first); j.Why != Tried {
		t.Errorf("%+v", j)
	}
}
