package supervise

import (
	"log/slog"
	"time"

	"rlminit/supervise/machine"
	"rlminit/supervise/order"
	"rlminit/wire"
)

// ending is the container's end. The loop's alone.
type ending struct {
	awaited   int64  // the deadline of the latest shutdown; 0: none
	shutdowns int    // how often tier 1 has asked for it
	stopped   bool   // tier 1 is being told that all has
	giveBack  func() // gives the volume's lock back; nil: it was not taken
}

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
		s.jobs.stop()
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

// checkStopped tells tier 1, once, that every service has stopped.
func (s *Supervisor) checkStopped() {
	if !s.stopping || s.stopped || s.active > 0 || s.jobs.left {
		return
	}
	s.stopped = true
	s.purpose.tellCode()
	giveBack := s.giveBack
	go func() {
		s.settle(giveBack)
		s.link.Send(&wire.StopDone{}, nil, nil)
	}()
}
