package supervise

import (
	"slices"
	"strings"

	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
)

// ordering is the services as package order knows them. Only the loop touches it.
type ordering struct {
	set   order.Set
	nodes map[string]order.Node // of units, and of what they refer to
	names []string              // Invariant: nodes[names[n]] is n, of a node in use
	units []*unit               // by node; nil: no unit has that name
	held  int                   // while not 0 nothing is decided: a set of things is being told
}

// node is that of a name, whoever has it.
func (o *ordering) node(name string) order.Node {
	n, ok := o.nodes[name]
	if !ok {
		n = o.set.Add()
		if int(n) == len(o.names) {
			o.names, o.units = append(o.names, ""), append(o.units, nil)
		}
		o.nodes[name], o.names[n] = n, name
	}
	return n
}

// drop forgets a node that nobody has and nobody refers to.
func (o *ordering) drop(n order.Node) {
	if o.names[n] != "" && o.units[n] == nil && len(o.set.Dependents(n)) == 0 && o.set.Fact(n).Turn == order.NoTurn {
		delete(o.nodes, o.names[n])
		o.names[n] = ""
		o.set.Drop(n)
	}
}

// meant is the node that a definition means by name: a service's, or that of a
// profile's gateway.
func (o *ordering) meant(name string) order.Node {
	if n, ok := o.nodes[name]; !ok || o.units[n] == nil {
		if gateway, ok := o.nodes[profiles.GatewayName(name)]; ok && o.units[gateway] != nil {
			return gateway
		}
	}
	return o.node(name)
}

// find returns the unit that a person means by name: a service, or the gateway
// of a profile. nil: there is none.
func (s *Supervisor) find(name string) *unit {
	if u := s.units[name]; u != nil {
		return u
	}
	return s.units[profiles.GatewayName(name)]
}

// tie makes u and its edges known, and untie takes them away.
func (s *Supervisor) tie(u *unit) {
	o := &s.order
	u.node = o.node(u.name)
	o.units[u.node] = u
	s.linkUp(u)
	s.relink(u)
	s.observe(u)
}

func (s *Supervisor) untie(u *unit) {
	o := &s.order
	o.units[u.node] = nil
	o.set.Withdraw(u.node)
	o.set.Observe(u.node, order.Fact{Phase: order.Absent})
	referred := o.set.Edges(u.node)
	o.set.Link(u.node, nil)
	s.relink(u)
	o.drop(u.node)
	for _, e := range referred {
		o.drop(e.To)
	}
}

// linkUp gives u's edges to the graph.
func (s *Supervisor) linkUp(u *unit) {
	var edges []order.Edge
	was := s.order.set.Edges(u.node)
	for kind, names := range [...][]string{order.Requires: u.definition.Requires, order.Wants: u.definition.Wants, order.After: u.definition.After} {
		for _, name := range names {
			if to := s.order.meant(name); to != u.node {
				edges = append(edges, order.Edge{To: to, Kind: order.Kind(kind)})
			}
		}
	}
	s.order.set.Link(u.node, edges)
	for _, e := range was {
		s.order.drop(e.To)
	}
}

// relink has those that may mean u by its name, or by its profile's, find out
// anew whom they mean.
func (s *Supervisor) relink(u *unit) {
	for _, name := range []string{strings.TrimPrefix(u.name, service.GatewayPrefix), u.name, profiles.GatewayName(u.name)} {
		n, ok := s.order.nodes[name]
		if !ok {
			continue
		}
		for _, d := range slices.Clone(s.order.set.Dependents(n)) {
			if other := s.order.units[d]; other != nil && other != u {
				s.linkUp(other)
			}
		}
	}
}

// observe tells what is seen of u.
func (s *Supervisor) observe(u *unit) {
	if s.order.units[u.node] == u {
		s.order.set.Observe(u.node, order.FactOf(u.state, u.policy))
	}
}

// follow does what follows from all that was told.
func (s *Supervisor) follow() {
	if s.order.held > 0 {
		return
	}
	s.order.held++ // what is done leads to more being told, and is done here in its turn
	defer func() { s.order.held-- }()
	for {
		a, more := s.order.set.Next()
		if !more {
			return
		}
		u := s.order.units[a.Node]
		switch {
		case u == nil:
		case a.Turn == order.NoTurn:
			s.hold(u, a.Decision)
		default:
			e := u.command
			u.turn, u.command = order.NoTurn, machine.Event{}
			if e.Kind == machine.Start && s.stopping {
				continue
			}
			s.step(u, e)
		}
	}
}

// hold tells u what keeps it from starting, or that nothing does.
func (s *Supervisor) hold(u *unit, d order.Decision) {
	reason := s.reason(u, d)
	stuck := d.Held == order.Stuck
	changed := stuck != u.stuck
	u.stuck = stuck
	switch {
	case reason == u.state.Blocked:
		if changed {
			s.answer(u)
		}
	case reason == "":
		s.step(u, machine.Event{Kind: machine.DependenciesMet})
	default:
		s.step(u, machine.Event{Kind: machine.DependenciesUnmet, Reason: reason})
	}
}

// reason is what u waits for, in words; "": nothing.
func (s *Supervisor) reason(u *unit, d order.Decision) string {
	if d.Held == order.Free {
		return ""
	}
	if d.Edge.To == order.None {
		return "it is to be stopped"
	}
	name := s.order.names[d.Edge.To]
	if d.Circle {
		var way []string
		for _, n := range s.order.set.Circle(u.node, d.Edge.To) {
			way = append(way, s.order.names[n])
		}
		return "requires itself: " + strings.Join(way, " → ") + "; take one of them out, or what it requires"
	}
	how := "waits for "
	if d.Edge.Kind == order.Requires {
		how = "requires "
	}
	other := s.order.units[d.Edge.To]
	switch turn := s.order.set.Fact(d.Edge.To).Turn; {
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
		return how + name + ", which is " + other.plight()
	}
	return how + name + ", which is " + other.state.Public()
}

// reasonMax bounds a reason within a reason, which has one in it in its turn.
const reasonMax = 200

// plight is a state in words, for what waits on u.
func (u *unit) plight() string {
	state, reason := u.state.Public(), u.state.Reason
	if u.fault != "" && !u.active() {
		state, reason = "failed", u.fault
	}
	if len(reason) > reasonMax {
		reason = strings.ToValidUTF8(reason[:reasonMax], "") + "…"
	}
	if reason != "" && (state == "failed" || state == "waiting") {
		return state + " (" + reason + ")"
	}
	return state
}

// nodesOf are the nodes of units.
func nodesOf(units []*unit) []order.Node {
	nodes := make([]order.Node, len(units))
	for i, u := range units {
		nodes[i] = u.node
	}
	return nodes
}

// unitsOf are the units of nodes, by name.
func (s *Supervisor) unitsOf(nodes []order.Node) []*unit {
	units := make([]*unit, 0, len(nodes))
	for _, n := range nodes {
		if u := s.order.units[n]; u != nil {
			units = append(units, u)
		}
	}
	slices.SortFunc(units, byName)
	return units
}

// along returns the units that must, or should, be started with others and are
// not wanted yet.
func (s *Supervisor) along(units ...*unit) []*unit {
	return s.unitsOf(s.order.set.StartAlong(nodesOf(units)))
}

// command gives units a turn, each with the event that it is given then, and what
// goes along a restart.
func (s *Supervisor) command(t order.Turn, units, along []*unit, event func(*unit) machine.Event) {
	events := make(map[*unit]machine.Event, len(units))
	for _, u := range units {
		events[u] = event(u)
	}
	for _, n := range s.order.set.Command(t, nodesOf(units), nodesOf(along)) {
		u := s.order.units[n]
		was := u.turn
		u.turn = s.order.set.Fact(n).Turn
		e, named := events[u]
		switch {
		case u.turn == order.NoTurn:
			u.command = machine.Event{}
		case u.turn == t && named:
			u.command = e
		case u.turn != was: // it goes along
			u.command = event(u)
			u.command.Kind = machine.Restart
			if u.turn == order.Start {
				u.command.Kind = machine.Start
			}
		}
	}
	s.follow()
}

// Announce has names waited for that are yet to be registered, and will be started
// then; Withdraw takes that back from those that were not.
func (s *Supervisor) Announce(names []string) {
	s.ask(func() {
		for _, name := range names {
			if n := s.order.node(name); s.order.units[n] == nil && !s.stopping {
				s.order.set.Command(order.Start, []order.Node{n}, nil)
			}
		}
		s.follow()
	})
}

// Withdraw is for what was announced, whatever became of it.
func (s *Supervisor) Withdraw(names []string) {
	s.ask(func() {
		for _, name := range names {
			if n, ok := s.order.nodes[name]; ok && s.order.units[n] == nil {
				s.order.set.Withdraw(n)
				s.order.drop(n)
			}
		}
		s.follow()
	})
}

// Together has what f tells taken for one thing: nothing is decided before its
// end. f runs beside the loop.
func (s *Supervisor) Together(f func()) {
	s.ask(func() { s.order.held++ })
	f()
	s.ask(func() {
		s.order.held--
		s.follow()
	})
}
