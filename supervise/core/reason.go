package core

import (
	"strings"

	"rlminit/supervise/machine"
	"rlminit/supervise/order"
)

// reason is the blocker of a life, in words; "": none.
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
	fact, other := s.order.Fact(d.Edge.To), s.lives[d.Edge.To]
	is := ""
	switch turn := fact.Turn; {
	case other == nil && turn == order.Start:
		is = "is yet to be registered"
	case other == nil:
		is = "does not exist"
	case turn == order.Start:
		is = "is to be started"
	case turn == order.Restart || turn == order.Along:
		is = "is being restarted"
	case turn != order.NoTurn:
		is = "is being stopped"
	case d.Held == order.OnWay && fact.Behind && fact.Held > order.OnWay: // not what keeps that one
		is = "comes after what is on its way"
	case fact.PassesOn(d.Held) && other.state.Blocked != "":
		is = brief(other.state.Blocked)
	case d.Held == order.Stuck:
		is = "is " + Condition(&other.state, other.definition.Fault)
	default:
		is = "is " + other.state.Public()
	}
	return how + name + ", which " + is
}

// reasonMax bounds a reason within a reason, which has one in it in its turn.
const reasonMax = 200

// Condition is the state of a service in words, with the reason of one that is not up.
// fault is why it has no usable definition; "": it has one.
func Condition(s *machine.State, fault string) string {
	is, reason := s.Public(), s.Reason
	if fault != "" && !Active(s) {
		is, reason = "failed", fault
	}
	if Unhealthy(s) {
		is = string(machine.Unhealthy)
	}
	if reason != "" && (is == "failed" || is == "waiting") {
		return is + " (" + brief(reason) + ")"
	}
	return is
}

// brief is a reason within a reason.
func brief(reason string) string {
	if len(reason) > reasonMax {
		return strings.ToValidUTF8(reason[:reasonMax], "") + "…"
	}
	return reason
}

// Unhealthy tells whether a service runs, and its health probe fails.
func Unhealthy(s *machine.State) bool {
	return s.Phase == machine.Running && s.Health == machine.Unhealthy
}
