package core

import (
	"slices"
	"time"

	"rlminit/supervise/machine"
	"rlminit/supervise/order"
)

// leastBudget is the shortest time in which services can stop by themselves.
const leastBudget = 100 * time.Millisecond

// end stops everything, in order and within the budget. What is wanted does not change:
// it runs again after the next boot.
func (s *Set) end() {
	s.stopping = true
	for _, o := range slices.Clone(s.Operations.operations) {
		if !o.Over() && o.names == nil && (!o.command.down() || o.command.Width > 0) {
			s.Operations.interrupt(o, "the container is stopping")
		}
	}
	depth := s.chains()
	longest := time.Duration(0)
	for _, chain := range depth {
		longest = max(longest, chain)
	}
	budget := s.input.Budget * 9 / 10 // the rest is for the sweeps of what the services leave behind
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

// chains are for each node the sum of the stop timeouts along the longest chain of
// dependents that must stop before it, its own included.
func (s *Set) chains() []time.Duration {
	longest, known := make([]time.Duration, len(s.lives)), make([]bool, len(s.lives))
	var measure func(n order.Node) time.Duration
	measure = func(n order.Node) time.Duration {
		if known[n] {
			return longest[n]
		}
		known[n], longest[n] = true, s.lives[n].definition.Policy.StopTimeout // ends the walk where somebody made a cycle
		before := time.Duration(0)
		for _, d := range s.order.Dependents(n) {
			if other := s.lives[d]; other != nil && Active(&other.state) {
				before = max(before, measure(d))
			}
		}
		longest[n] += before
		return longest[n]
	}
	for n, l := range s.lives {
		if l != nil {
			measure(order.Node(n))
		}
	}
	return longest
}
