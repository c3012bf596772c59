package explorelife

import (
	"math"
	"syscall"

	"rlminit/supervise/machine"
)

// key tells states apart by what can make a difference: times are relative, and
// those past the span that they are compared with are equal; texts, counters and
// the numbers of ids and timers are left out.
type key struct {
	want    machine.Want
	phase   machine.Phase
	probing machine.Probe
	health  machine.Health
	stopBy  machine.StopBy
	verdict machine.Verdict
	child   machine.Child

	removed, again, noRetry, blocked, readyEarly, adopted bool
	reloading, killed, goodRun, stuck, sameID             bool

	childLeft, fails, left, unready int
	sweepWith                       syscall.Signal
	sweepPause, stopWithin          int64
	watchdog, delay                 int64
	starts                          [2]int64
	times                           [11]int64
	fence                           string
	lease, ends                     int // of the state, and of its child
}

func keyOf(w World, p machine.Policy) key {
	s := w.State
	if ends := s.Phase == machine.Stopping || s.Phase == machine.Sweeping; ends && (s.Want == machine.WantDown || s.StartAgain) {
		// How this run ends decides nothing: it is followed by rest, or by a start
		// with a clean history.
		s.Starts, s.Tries, s.Unready, s.Verdict, s.GoodRun, s.ReadyAt, s.GoodAt = nil, 0, 0, "", false, 0, 0
	}
	at := func(t, past int64) int64 {
		if t == 0 {
			return math.MinInt64
		}
		return max(t-w.Now, -past)
	}
	k := key{
		want: s.Want, phase: s.Phase, probing: s.Probing, health: s.Health,
		stopBy: s.StopBy, verdict: s.Verdict, child: w.Child.State,
		removed: s.Removed, again: s.StartAgain, noRetry: s.NoRetry, blocked: s.Blocked != "",
		readyEarly: s.ReadyEarly, adopted: s.Adopted, reloading: s.Reloading,
		killed: s.Killed, goodRun: s.GoodRun, stuck: w.Child.Stuck, sameID: w.Child.ID == s.ID,
		childLeft: w.Child.Leftovers, fails: s.Fails, left: s.Leftovers, unready: s.Unready,
		sweepWith: s.SweepWith, sweepPause: s.SweepPause,
		stopWithin: s.StopWithin, watchdog: s.WatchdogNS,
		delay: int64(min(float64(p.Delay)*math.Pow(p.Factor, float64(s.Tries)), float64(p.MaxDelay))),
	}
	n := 0
	for _, t := range s.Starts {
		if t > w.Now-int64(p.Window) && n < len(k.starts) {
			k.starts[n] = at(t, int64(p.Window))
			n++
		}
	}
	var startedAt, goodAt int64
	if s.Phase == machine.Starting {
		startedAt = s.StartedAt
	}
	if p.Health || p.Watchdog > 0 {
		goodAt = s.GoodAt
	}
	d := s.Deadlines
	k.times = [...]int64{
		at(s.StopMax, 0),
		at(startedAt, int64(p.ReadyTimeout)+1),
		at(s.ReadyAt, int64(max(p.ResetAfter, p.HealthStartPeriod))),
		at(goodAt, int64(p.ResetAfter)),
		at(s.Timer.At, 1), at(d.Start, 1), at(d.Spawn, 1), at(d.Ready, 1),
		at(d.Watchdog, 1), at(d.Stop, 1), at(d.Sweep, 1),
	}
	k.fence, k.lease, k.ends = s.Lease.Fence, w.reach(s.Lease.At), w.reach(w.Child.Deadline)
	return k
}
