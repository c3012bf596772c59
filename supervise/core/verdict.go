package core

import (
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
	"rlminit/supervise/verdict"
)

// blocker is the service that keeps another from starting.
type blocker struct {
	life  *Life // nil: there is none, or fixed says how it is
	fixed verdict.Verdict
	onWay bool // it, or a service behind it, is on its way
}

// blockerOf is the blocker that a decision names.
func (s *Set) blockerOf(d order.Decision) blocker {
	switch {
	case d.Held == order.Free:
		return blocker{}
	case d.Cycle:
		return blocker{fixed: verdict.Ill}
	case d.Edge.To == order.None:
		return blocker{fixed: verdict.Pending}
	}
	other := s.lives[d.Edge.To]
	switch {
	case other == nil && s.order.Fact(d.Edge.To).Turn == order.Start:
		return blocker{fixed: verdict.Pending}
	case other == nil:
		return blocker{fixed: verdict.Ill}
	}
	return blocker{life: other, onWay: d.Held == order.OnWay}
}

// Verdict says whether a service is well, and why, at a time of the events' clock.
func (l *Life) Verdict(now int64) (verdict.Verdict, verdict.Code) {
	return verdict.Of(l.facts(now, l.waitsFor(now)))
}

// facts are those about the service itself; other is the verdict of its blocker.
func (l *Life) facts(now int64, other verdict.Verdict) verdict.Facts {
	d := l.definition
	return verdict.Facts{
		State: &l.state, Policy: d.Policy, Fault: d.Fault, Owed: l.wants.Owed,
		Restart:   l.turn == order.Start || l.turn == order.Restart || l.turn == order.Along,
		Stop:      l.turn.Stops() && l.turn != order.Restart && l.turn != order.Along,
		Scheduled: d.Scheduled, Enabled: d.Enabled, For: other, Now: now,
	}
}

// waitsFor is the verdict of the service at the end of the chain of those that wait for
// one another. A chain that does not end is a cycle.
func (l *Life) waitsFor(now int64) verdict.Verdict {
	at, slow := l, l // slow goes half as far, and is met in a cycle
	for n := 0; ; n++ {
		b := at.blocker
		if b.life == nil {
			return b.fixed
		}
		is, _ := verdict.Of(b.life.facts(now, verdict.Pending))
		switch {
		case is == verdict.OK && b.onWay:
			return verdict.Pending
		case is == verdict.OK: // it ended with success, and a service that requires it will never start
			return verdict.Ill
		case is != verdict.Pending || b.life.state.Phase != machine.Waiting:
			return is
		}
		at = b.life
		if n%2 == 1 {
			slow = slow.blocker.life
		}
		if slow == at {
			return verdict.Ill
		}
	}
}
