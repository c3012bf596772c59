package operation

import (
	"strings"
	"testing"
	"time"
)

// Every course of a service of up to six moments, with a later command, or a cancel,
// at any of them: a gate is passed only by one run that was in service for the
// steady time, and what follows from a command is never blamed on the service.
func TestGateBlamesNobodyForACommand(t *testing.T) {
	const steady = 2 * time.Second
	old := Seen{InService: true, For: time.Hour, Run: 1, Wanted: true, How: "running"}
	down := Seen{Run: 1, Wanted: true, How: "stopping"}
	up := func(run uint64, d time.Duration) Seen {
		return Seen{InService: true, For: d, Run: run, Wanted: true, How: "running"}
	}
	sick := up(2, time.Second)
	sick.InService, sick.Unhealthy = false, true
	moments := []Seen{old, down, up(2, 0), up(2, steady), sick, up(3, 0), {Run: 2, Ended: true, Wanted: true, How: "failed"}, {Run: 2, Ended: true, Down: true, How: "stopped"}}
	standings := []Standing{{}, {Operation: 7, State: Superseded, Reason: "by operation 8"}, {Operation: 7, State: Cancelled}}
	ends := map[string]int{}
	var walk func(gate Gate, fresh bool, depth int, last Seen)
	walk = func(gate Gate, fresh bool, depth int, last Seen) {
		for _, s := range moments {
			for _, standing := range standings {
				g := gate
				j := g.Look(s, standing)
				switch {
				case standing.Over():
					if j.Passed || !strings.Contains(j.Why, "operation ") {
						t.Fatalf("after %+v, %+v in an operation that is %s: %+v", last, s, standing.State, j)
					}
					ends["halted"]++
				case j.Passed:
					if !s.InService || s.For < steady || fresh && s.Run == 1 || j.Why != "" {
						t.Fatalf("%+v passes (fresh: %v)", s, fresh)
					}
					ends["passed"]++
				case j.Why != "":
					if s.Run == gate.run && s.InService || fresh && s.Run == 1 {
						t.Fatalf("%+v after %+v: %s", s, last, j.Why)
					}
					ends["failed"]++
				case depth > 0:
					if s.InService && j.Wait <= 0 && !(fresh && s.Run == 1) {
						t.Fatalf("%+v: nobody looks again", s)
					}
					walk(g, fresh, depth-1, s)
				}
			}
		}
	}
	walk(Gate{Steady: steady}, false, 5, Seen{})
	walk(Gate{Steady: steady, Fresh: true, Old: 1}, true, 5, Seen{})
	t.Logf("figure: %v", ends)
	for _, what := range []string{"halted", "passed", "failed"} {
		if ends[what] == 0 {
			t.Errorf("none has %s", what)
		}
	}
}

// What is to be down passes when nothing of it is left, and not while it is.
func TestGateDown(t *testing.T) {
	g := Gate{Down: true}
	if j := g.Look(Seen{Run: 1}, Standing{}); j != (Judgement{}) {
		t.Errorf("while it stops: %+v", j)
	}
	if j := g.Look(Seen{Run: 1, Wanted: true}, Standing{}); j.Why != "somebody has started it" {
		t.Errorf("started again: %+v", j)
	}
	if j := g.Look(Seen{Run: 1, Down: true}, Standing{}); !j.Passed {
		t.Errorf("when it is down: %+v", j)
	}
}

// A restart of what has ended, and waits for what will not come up by itself, is over.
func TestGateOfWhatCannotStart(t *testing.T) {
	g := Gate{Fresh: true, Old: 1}
	waits := Seen{Run: 1, Wanted: true, How: "waiting (requires db, which is starting)"}
	if j := g.Look(waits, Standing{}); j.Passed || j.Why != "" {
		t.Errorf("as long as it may start: %+v", j)
	}
	waits.Ended, waits.Stuck = true, true
	if j := g.Look(waits, Standing{}); j.Passed || j.Why == "" {
		t.Errorf("%+v", j)
	}
}
