package core

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/service"
	"rlminit/supervise/operation"
)

// rolling is a rolling stop of n services that has come to one of them, which is recorded.
func rolling(t *testing.T, n int) (*Set, *Operation) {
	s := many(t, n)
	c := &Command{ID: 1, Verb: VerbStop, Want: service.Stopped, Width: 1}
	for _, l := range s.lives {
		c.Lives = append(c.Lives, l)
		step(s, Input{Kind: Remembered, Rows: []Row{{l, l.known.rows}}})
	}
	step(s, Input{Kind: Commanded, Command: c})
	acknowledged(s, step(s, Input{Kind: Recorded, Command: c}))
	o := s.Operations.Get(1)
	if o.State != operation.StateRunning || o.left != n {
		t.Fatalf("%s, and %d are left", o.State, o.left)
	}
	return s, o
}

func step(s *Set, in Input) []Effect {
	in.Now, in.NextID = 1<<50, 1<<40
	return s.Step(in)
}

// acknowledged records what is to be recorded and remembers what is to be remembered, until
// nothing is.
func acknowledged(s *Set, effects []Effect) {
	var answers []Input
	for _, e := range effects {
		switch e.Kind {
		case Record:
			answers = append(answers, Input{Kind: Recorded, Command: e.Command})
		case Remember:
			answers = append(answers, Input{Kind: Remembered, Rows: []Row{{e.Life, e.Version}}})
		}
	}
	for _, in := range answers {
		acknowledged(s, step(s, in))
	}
}

// To end a rolling operation costs what it concerns: of ten times as many services it takes
// ten times as long, and not a hundred times. Time is that of this thread alone, the
// shortest of some.
func TestEndOfARollingOperationIsLinear(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for name, end := range map[string]func(*Set, *Operation){
		"cancelled": func(s *Set, _ *Operation) { step(s, Input{Kind: Cancel, ID: 1}) },
		"halted": func(s *Set, o *Operation) {
			s.scheduler.halt(o, operation.Verdict{Failed: 0, Why: operation.Failed})
			step(s, Input{Kind: Due})
		},
		"superseded": func(s *Set, o *Operation) {
			c := &Command{ID: 2, Verb: VerbStart, Want: service.Running, Lives: o.lives}
			step(s, Input{Kind: Commanded, Command: c})
			step(s, Input{Kind: Recorded, Command: c})
		},
		"stopped with the container": func(s *Set, _ *Operation) { step(s, Input{Kind: End}) },
	} {
		least := map[int]int64{}
		for _, n := range []int{1000, 10_000} {
			for range 2 {
				s, o := rolling(t, n)
				runtime.GC()
				began := threadTime()
				end(s, o)
				took := threadTime() - began
				if !o.Over() {
					t.Fatalf("%s of %d: it is %s", name, n, o.State)
				}
				if was, measured := least[n]; !measured || took < was {
					least[n] = took
				}
			}
		}
		if few, lots := least[1000], least[10_000]; lots > 40*few {
			t.Errorf("%s: of 1,000 services %d µs, of 10,000 %d µs", name, few/1000, lots/1000)
		} else {
			t.Logf("figure: rolling %s: of 1,000 services %d µs, of 10,000 %d µs", name, few/1000, lots/1000)
		}
	}
}

func threadTime() int64 {
	var is unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &is)
	return is.Nano()
}

// A cancelled rolling operation leaves the services that it has not come to as they are:
// nothing of them is recorded, and nothing is done.
func TestCancellationTouchesNobody(t *testing.T) {
	s, o := rolling(t, 1000)
	desired := 0
	for _, e := range step(s, Input{Kind: Cancel, ID: 1}) {
		if e.Kind != Told {
			t.Errorf("effect %d of %s follows", e.Kind, s.naming.names[max(e.Node, 0)])
		}
	}
	for i, l := range o.lives {
		if m := o.Members[i]; m.State != operation.StateCancelled || m.Reason == "" {
			t.Fatalf("%s is %s", m.Name, m.State)
		}
		if l.wants.Desired == service.Stopped {
			desired++
		}
	}
	if desired != 1 {
		t.Errorf("%d services are wanted stopped", desired)
	}
}
