package supervise

import (
	"fmt"
	"slices"
	"strings"

	"rlminit/profiles"
	"rlminit/supervise/machine"
)

// What one service is to another, strongest first.
type bond int

const (
	requires bond = iota // must be up, and is started along
	wants                // is started along, and waited for until it has settled
	after                // is waited for if it is starting
)

// bonds calls see for each service that u names, and whether it exists.
func (s *Supervisor) bonds(u *unit, see func(name string, other *unit, b bond)) {
	for _, kind := range []struct {
		names []string
		bond  bond
	}{
		{u.definition.Requires, requires},
		{u.definition.Wants, wants},
		{u.definition.After, after},
	} {
		for _, name := range kind.names {
			see(name, s.find(name), kind.bond)
		}
	}
}

// find returns the unit that a person means by name: a service, or the gateway
// of a profile. nil: there is none.
func (s *Supervisor) find(name string) *unit {
	if u := s.units[name]; u != nil {
		return u
	}
	return s.units[profiles.GatewayName(name)]
}

// tie notes who depends on u's bonds, and untie forgets it.
func (s *Supervisor) tie(u *unit)   { s.retie(u, true) }
func (s *Supervisor) untie(u *unit) { s.retie(u, false) }

func (s *Supervisor) retie(u *unit, tied bool) {
	s.bonds(u, func(name string, _ *unit, _ bond) {
		for _, key := range []string{name, profiles.GatewayName(name)} {
			if !tied {
				delete(s.dependents[key], u)
				if len(s.dependents[key]) == 0 {
					delete(s.dependents, key)
				}
				continue
			}
			if s.dependents[key] == nil {
				s.dependents[key] = make(map[*unit]struct{})
			}
			s.dependents[key][u] = struct{}{}
		}
	})
}

// blocked says what u waits for, or "", and whether that is stuck: it is not on
// its way up, and nothing but a person or a retry will get it there.
func (s *Supervisor) blocked(u *unit) (reason string, stuck bool) {
	s.bonds(u, func(name string, other *unit, b bond) {
		if reason != "" {
			return
		}
		switch {
		case other == nil && b == requires:
			reason, stuck = fmt.Sprintf("requires %s, which does not exist", name), true
		case other == nil:
		case b == requires && other.stop != nil:
			reason = "requires " + name + ", which is being stopped"
		case b == requires && !other.state.Satisfies(other.policy):
			circle := s.circle(u, other)
			stuck = other.stuck && other.state.Phase == machine.Waiting || other.atRest() || circle != nil
			reason = "requires " + name + ", which is " + other.state.Public()
			if circle != nil {
				reason = "requires itself: " + strings.Join(circle, " → ") + "; take one of them out, or what it requires"
			} else if stuck {
				reason = "requires " + name + ", which is " + other.plight()
			}
		case b != requires && other.state.Want == machine.WantUp && !other.state.Settled() &&
			other.state.Phase != machine.Backoff && !s.waitsFor(other, u):
			reason = "waits for " + name + ", which is " + other.state.Public()
		}
	})
	return reason, stuck
}

// atRest tells whether u will not get further by itself: a oneshot that runs will.
func (u *unit) atRest() bool {
	return u.state.Settled() && !(u.policy.Oneshot && u.state.Phase == machine.Running)
}

// circle is the shortest way on which u, by way of other, requires itself; nil:
// it does not. Static definitions have no cycle, but slots that somebody
// published may make one.
func (s *Supervisor) circle(u, other *unit) []string {
	before := map[*unit]*unit{other: u}
	for queue := []*unit{other}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if at == u {
			names := []string{u.name}
			for at = before[u]; at != u; at = before[at] {
				names = append(names, at.name)
			}
			names = append(names, u.name)
			slices.Reverse(names)
			return names
		}
		for _, name := range at.definition.Requires {
			next := s.find(name)
			if _, seen := before[next]; next == nil || seen {
				continue
			}
			before[next] = at
			queue = append(queue, next)
		}
	}
	return nil
}

// waitsFor tells whether a waits, over any number of bonds, for b: then b need
// not wait for a.
func (s *Supervisor) waitsFor(a, b *unit) bool {
	seen := map[*unit]bool{}
	var reach func(*unit) bool
	reach = func(u *unit) bool {
		if u == b {
			return true
		}
		if u == nil || seen[u] {
			return false
		}
		seen[u] = true
		found := false
		s.bonds(u, func(_ string, other *unit, _ bond) { found = found || reach(other) })
		return found
	}
	return reach(a)
}

// reasonMax bounds a reason within a reason, which has one in it in its turn.
const reasonMax = 200

// plight is a state in words, for what waits on u.
func (u *unit) plight() string {
	state, reason := u.state.Public(), u.state.Reason
	if len(reason) > reasonMax {
		reason = strings.ToValidUTF8(reason[:reasonMax], "") + "…"
	}
	if reason != "" && (state == "failed" || state == "waiting") {
		return state + " (" + reason + ")"
	}
	return state
}

// weigh tells u whether what it depends on lets it start.
func (s *Supervisor) weigh(u *unit) {
	now, stuck := s.blocked(u)
	u.stuck = stuck
	if now == u.state.Blocked {
		return
	}
	if now == "" {
		s.step(u, machine.Event{Kind: machine.DependenciesMet})
	} else {
		s.step(u, machine.Event{Kind: machine.DependenciesUnmet, Reason: now})
	}
}

// ripple lets those who depend on u, and those whose stop waits for u, go on.
func (s *Supervisor) ripple(u *unit) {
	if s.adopting {
		return
	}
	for _, other := range s.dependentsBy(u.name) {
		s.weigh(other)
	}
	if !u.active() || u.state.Phase == machine.Parked {
		s.bonds(u, func(_ string, other *unit, _ bond) {
			if other != nil && other.stop != nil {
				s.tryStop(other)
			}
		})
	}
}

// dependentsBy returns those who name a service among what they depend on.
func (s *Supervisor) dependentsBy(name string) []*unit {
	units := make([]*unit, 0, len(s.dependents[name]))
	for u := range s.dependents[name] {
		units = append(units, u)
	}
	slices.SortFunc(units, byName)
	return units
}

// along returns the units that must, or should, be started with u and are not
// wanted yet, those that depend on nothing first.
func (s *Supervisor) along(u *unit) []*unit {
	var order []*unit
	seen := map[*unit]bool{}
	var visit func(*unit)
	visit = func(v *unit) {
		if seen[v] {
			return
		}
		seen[v] = true
		s.bonds(v, func(_ string, other *unit, b bond) {
			if other != nil && b != after {
				visit(other)
			}
		})
		if v != u && !v.wanted() {
			order = append(order, v)
		}
	}
	visit(u)
	return order
}

// dependentsOf returns the units that cannot run without u: those that require
// it, and those that require these.
func (s *Supervisor) dependentsOf(u *unit) []*unit {
	var all []*unit
	seen := map[*unit]bool{u: true}
	queue := []*unit{u}
	for len(queue) > 0 {
		v := queue[0]
		queue = queue[1:]
		for other := range s.dependents[v.name] {
			if seen[other] {
				continue
			}
			needs := false
			s.bonds(other, func(_ string, dependency *unit, b bond) {
				needs = needs || dependency == v && b == requires
			})
			if needs {
				seen[other] = true
				all = append(all, other)
				queue = append(queue, other)
			}
		}
	}
	slices.SortFunc(all, byName)
	return all
}
