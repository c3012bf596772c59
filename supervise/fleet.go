package supervise

import (
	"maps"
	"slices"
	"strings"
	"time"

	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
)

// fleet is every supervised service, by its name and as package order knows it, and
// what lies between them: a command on some of them is given to each in its turn.
// Only the loop touches it.
type fleet struct {
	units    map[string]*unit
	sorted   []*unit // units by name; nil: they have changed since
	order    ordering
	booted   bool // all that the boot found is known
	active   int  // units of which a process may exist
	timers   *timers
	stopping bool // the container is: nothing is started any more

	step func(*unit, machine.Event) // what befalls one of them

	absent func(name string) // told of a name that a definition refers to, and that no unit has
}

func newFleet() fleet {
	return fleet{units: map[string]*unit{}, timers: newTimers(), order: ordering{nodes: map[string]order.Node{}}}
}

// ordering is the services as package order knows them. Only the loop touches it.
type ordering struct {
	set   order.Set
	nodes map[string]order.Node // of units, and of what they refer to
	names []string              // Invariant: nodes[names[n]] is n, of a node in use
	units []*unit               // by node; nil: no unit has that name
	held  int                   // while not 0 nothing is decided: a set of things is being told
}

// ordered is a unit among the others.
type ordered struct {
	node    order.Node
	turn    order.Turn     // Invariant: as the set has it
	command *machine.Event // what it is given in its turn; nil: it has none
	stuck   bool           // what it waits for will not come up by itself
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
func (f *fleet) find(name string) *unit {
	if u := f.units[name]; u != nil {
		return u
	}
	return f.units[profiles.GatewayName(name)]
}

// all returns every unit, by name. Only the loop calls it. The slice stays as it is:
// who calls does not change it.
func (f *fleet) all() []*unit {
	if len(f.sorted) != len(f.units) {
		f.sorted = slices.SortedFunc(maps.Values(f.units), byName)
	}
	return f.sorted
}

// add makes u one of the units, and remove takes it out.
func (f *fleet) add(u *unit) {
	f.units[u.name], f.sorted = u, nil
}

func (f *fleet) remove(u *unit) {
	delete(f.units, u.name)
	f.sorted = nil
}

// tie makes u and its edges known, and untie takes them away.
func (f *fleet) tie(u *unit) {
	o := &f.order
	u.order.node = o.node(u.name)
	o.units[u.order.node] = u
	f.linkUp(u)
	f.relink(u)
	f.observe(u)
}

func (f *fleet) untie(u *unit) {
	o := &f.order
	o.units[u.order.node] = nil
	o.set.Withdraw(u.order.node)
	o.set.Observe(u.order.node, order.Fact{Phase: order.Absent})
	referred := o.set.Edges(u.order.node)
	o.set.Link(u.order.node, nil)
	f.relink(u)
	o.drop(u.order.node)
	for _, e := range referred {
		o.drop(e.To)
	}
}

// linkUp gives u's edges to the graph.
func (f *fleet) linkUp(u *unit) {
	var edges []order.Edge
	was := f.order.set.Edges(u.order.node)
	for kind, names := range [...][]string{order.Requires: u.definition.Requires, order.Wants: u.definition.Wants, order.After: u.definition.After} {
		for _, name := range names {
			to := f.order.meant(name)
			if f.order.units[to] == nil && f.absent != nil {
				f.absent(name)
			}
			if to != u.order.node {
				edges = append(edges, order.Edge{To: to, Kind: order.Kind(kind)})
			}
		}
	}
	f.order.set.Link(u.order.node, edges)
	for _, e := range was {
		f.order.drop(e.To)
	}
}

// relink has those that may mean u by its name, or by its profile's, find out
// anew whom they mean.
func (f *fleet) relink(u *unit) {
	for _, name := range []string{strings.TrimPrefix(u.name, service.GatewayPrefix), u.name, profiles.GatewayName(u.name)} {
		n, ok := f.order.nodes[name]
		if !ok {
			continue
		}
		for _, d := range slices.Clone(f.order.set.Dependents(n)) {
			if other := f.order.units[d]; other != nil && other != u {
				f.linkUp(other)
			}
		}
	}
}

// observe tells what is seen of u.
func (f *fleet) observe(u *unit) {
	if f.order.units[u.order.node] == u {
		f.order.set.Observe(u.order.node, order.FactOf(u.state, u.policy()))
	}
}

// nodesOf are the nodes of those units that are there: one that is gone has none, and
// another may have its number.
func nodesOf(units []*unit) []order.Node {
	nodes := make([]order.Node, 0, len(units))
	for _, u := range units {
		if u.state.Phase != machine.Gone {
			nodes = append(nodes, u.order.node)
		}
	}
	return nodes
}

// unitsOf are the units of nodes, by name.
func (f *fleet) unitsOf(nodes []order.Node) []*unit {
	units := make([]*unit, 0, len(nodes))
	for _, n := range nodes {
		if u := f.order.units[n]; u != nil {
			units = append(units, u)
		}
	}
	slices.SortFunc(units, byName)
	return units
}

// along returns the units that must, or should, be started with others and are
// not wanted yet.
func (f *fleet) along(units ...*unit) []*unit {
	return f.unitsOf(f.order.set.StartAlong(nodesOf(units)))
}

// chains returns for each unit the sum of the stop timeouts along the longest
// chain of dependents that must stop before it, its own included.
func (f *fleet) chains() map[*unit]time.Duration {
	longest := make(map[*unit]time.Duration, len(f.units))
	var measure func(u *unit) time.Duration
	measure = func(u *unit) time.Duration {
		if known, ok := longest[u]; ok {
			return known
		}
		longest[u] = u.policy().StopTimeout // ends the walk where somebody made a cycle
		before := time.Duration(0)
		for _, n := range f.order.set.Dependents(u.order.node) {
			if other := f.order.units[n]; other != nil && other.active() {
				before = max(before, measure(other))
			}
		}
		longest[u] += before
		return longest[u]
	}
	for _, u := range f.units {
		measure(u)
	}
	return longest
}

// reason is what u waits for, in words; "": nothing.
func (f *fleet) reason(u *unit, d order.Decision) string {
	if d.Held == order.Free {
		return ""
	}
	if d.Edge.To == order.None {
		return "it is to be stopped"
	}
	name := f.order.names[d.Edge.To]
	if d.Circle {
		var way []string
		for _, n := range f.order.set.Circle(u.order.node, d.Edge.To) {
			way = append(way, f.order.names[n])
		}
		return "requires itself: " + strings.Join(way, " → ") + "; take one of them out, or what it requires"
	}
	how := "waits for "
	if d.Edge.Kind == order.Requires {
		how = "requires "
	}
	other := f.order.units[d.Edge.To]
	switch turn := f.order.set.Fact(d.Edge.To).Turn; {
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
