package supervise

import (
	"log/slog"
	"time"

	"rlminit/supervise/machine"
	"rlminit/supervise/order"
	"rlminit/wire"
)

// beginShutdown carries out a shutdown that was asked for. Before everything is
// restored there is nothing to stop in order: tier 1 waits a second, and then
// sees to it by itself.
func (s *Supervisor) beginShutdown() {
	s.link.Send(&wire.StopBegun{}, nil, nil)
	s.shutdown(s.awaited)
}

// shutdown stops everything before the deadline, in order, as the container is
// stopping. What is wanted does not change: it runs again after the next boot.
func (s *Supervisor) shutdown(deadline int64) {
	hurried := s.shutdowns > 0
	s.shutdowns++
	s.stopping = true
	budget := time.Duration(deadline - boottime())
	if !hurried {
		if len(s.units) > 0 {
			slog.Info("stopping", "budget", budget.Round(time.Millisecond), "services", len(s.units))
		}
		s.notifyManager("STOPPING=1")
		s.stopJobs()
	}
	depth := s.chains()
	longest := time.Duration(0)
	for _, chain := range depth {
		longest = max(longest, chain)
	}
	// The last tenth is for the sweeps of what the services leave behind.
	budget = budget * 9 / 10
	s.command(order.Stop, s.all(), nil, func(u *unit) machine.Event {
		event := machine.Event{Kind: machine.Stop, Cause: "the container is stopping"}
		if hurried || budget < 100*time.Millisecond {
			event.Hurry = true
		} else if longest > budget {
			event.Within = int64(float64(u.policy.StopTimeout) * float64(budget) / float64(longest))
		} else {
			event.Within = int64(u.policy.StopTimeout)
		}
		return event
	})
	s.checkStopped()
}

// chains returns for each unit the sum of the stop timeouts along the longest
// chain of dependents that must stop before it, its own included.
func (s *Supervisor) chains() map[*unit]time.Duration {
	longest := make(map[*unit]time.Duration, len(s.units))
	var measure func(u *unit) time.Duration
	measure = func(u *unit) time.Duration {
		if known, ok := longest[u]; ok {
			return known
		}
		longest[u] = u.policy.StopTimeout // ends the walk where somebody made a cycle
		before := time.Duration(0)
		for _, n := range s.order.set.Dependents(u.node) {
			if other := s.order.units[n]; other != nil && other.active() {
				before = max(before, measure(other))
			}
		}
		longest[u] += before
		return longest[u]
	}
	for _, u := range s.units {
		measure(u)
	}
	return longest
}

// checkStopped tells tier 1, once, that every service has stopped.
func (s *Supervisor) checkStopped() {
	if !s.stopping || s.stopped || s.active > 0 || s.jobsLeft {
		return
	}
	s.stopped = true
	s.tellCode()
	giveBack := s.giveBack
	go func() {
		s.settle(giveBack)
		s.link.Send(&wire.StopDone{}, nil, nil)
	}()
}
