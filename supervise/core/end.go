package core

import (
	"slices"
	"time"

	"rlminit/supervise/machine"
	"rlminit/supervise/order"
)

// leastBudget is the shortest time that services can stop by themselves in.
const leastBudget = 100 * time.Millisecond

// end stops everything, in order and within the budget. Desired states do not change:
// it runs again after the next boot.
func (s *Set) end() {
	s.stopping = true
	for _, o := range slices.Clone(s.Operations.operations) {
		if !o.Over() && o.names == nil && (!o.command.down() || o.command.Width > 0) {
			s.Operations.interrupt(o, "the container is stopping")
		}
	}
	longest := s.longestChain()
	budget := s.input.Budget * 9 / 10 // the rest is for the sweeps of leftovers
	hurry := s.input.Hurry || budget < leastBudget
	all := make([]order.Node, 0, len(s.lives))
	for n, l := range s.lives {
		if l != nil {
			all = append(all, order.Node(n))
		}
	}
	s.command(order.Stop, all, nil, func(l *Life) machine.Event {
		e := machine.Event{Kind: machine.Stop, Cause: "the container is stopping", Hurry: hurry}
		switch timeout := l.definition.Policy.StopTimeout; {
		case hurry:
		case longest > budget:
			e.Within = int64(float64(timeout) * float64(budget) / float64(longest))
		default:
			e.Within = int64(timeout)
		}
		return e
	})
}

// longestChain is the longest sum of the stop timeouts of services that stop one after the
// other.
func (s *Set) longestChain() (longest time.Duration) {
	chains, known := make([]time.Duration, len(s.lives)), make([]bool, len(s.lives)) // of what comes after each, with its own
	var measure func(n order.Node) time.Duration
	measure = func(n order.Node) time.Duration {
		if known[n] {
			return chains[n]
		}
		known[n] = true // ends the walk where somebody made a cycle
		for _, d := range s.order.Dependents(n) {
			chains[n] = max(chains[n], measure(d))
		}
		if l := s.lives[n]; l != nil && Active(&l.state) {
			chains[n] += l.definition.Policy.StopTimeout
		}
		return chains[n]
	}
	for n := range s.lives {
		longest = max(longest, measure(order.Node(n)))
	}
	return longest
}
