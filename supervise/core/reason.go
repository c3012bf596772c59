package core

import (
	"strings"

	"rlminit/supervise/machine"
	"rlminit/supervise/order"
)

// reason is what a life waits for, in words; "": nothing.
func (s *Set) reason(l *Life, d order.Decision) string {
	if d.Held == order.Free {
		return ""
	}
	if d.Edge.To == order.None {
		return "it is to be stopped"
	}
	name := s.naming.names[d.Edge.To]
	if d.Cycle {
		var way []string
		for _, n := range s.order.RequiresCycle(l.node, d.Edge.To) {
			way = append(way, s.naming.names[n])
		}
		return "requires itself: " + strings.Join(way, " → ") + "; take one of them out, or what it requires"
	}
	how := "waits for "
	if d.Edge.Kind == order.Requires {
		how = "requires "
	}
	other := s.lives[d.Edge.To]
	switch turn := s.order.Fact(d.Edge.To).Turn; {
	case other == nil && turn == order.Start:
		return how + name + ", which is yet to be registered"
	case other == nil:
		return how + name + ", which does not exist"
	case turn == order.Start:
		return how + name + ", which is to be started"
	case turn == order.Restart || turn == order.Along:
		return how + name + ", which is being restarted"
	case turn != order.NoTurn:
		return how + name + ", which is being stopped"
	case d.Held == order.Stuck:
		return how + name + ", which is " + Plight(&other.state, other.definition.Fault)
	}
	return how + name + ", which is " + other.state.Public()
}

// reasonMax bounds a reason within a reason, which has one in it in its turn.
const reasonMax = 200

// Plight is the state of a service in words, for what waits on it. fault is why it has
// no usable definition; "": it has one.
func Plight(s *machine.State, fault string) string {
	is, reason := s.Public(), s.Reason
	if fault != "" && !Active(s) {
		is, reason = "failed", fault
	}
	if Unhealthy(s) {
		is = string(machine.Unhealthy)
	}
	if len(reason) > reasonMax {
		reason = strings.ToValidUTF8(reason[:reasonMax], "") + "…"
	}
	if reason != "" && (is == "failed" || is == "waiting") {
		return is + " (" + reason + ")"
	}
	return is
}

// Unhealthy tells whether a service runs, and its health probe fails.
func Unhealthy(s *machine.State) bool {
	return s.Phase == machine.Running && s.Health == machine.Unhealthy
}
