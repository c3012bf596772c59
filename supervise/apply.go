package supervise

import (
	"maps"
	"slices"
	"strings"
	"time"

	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
	"rlminit/wire"
)

// fleet is every supervised service, by its name and by its number in the core, which
// decides about all of them. Only the loop touches it.
type fleet struct {
	units  map[string]*unit
	sorted []*unit // units by name; nil: they have changed since
	byNode []*unit // as the core numbers them; nil: no unit has that number

	set     core.Set
	alarm   *alarm       // rings for the core's next deadline
	queue   []core.Input // not empty: one of them is being applied, and those after it came from its effects
	changed []*unit      // by the input that is being applied

	apply  func(core.Input)
	absent func(name string) // told of a name that a definition refers to, and that no unit has
}

func newFleet() fleet {
	return fleet{units: map[string]*unit{}, alarm: newAlarm()}
}

// apply tells the core one thing, and carries out what follows in order. What an effect
// leads to in its turn waits until all effects before it are carried out.
func (s *Supervisor) apply(in core.Input) {
	f := &s.fleet
	if f.queue = append(f.queue, in); len(f.queue) > 1 {
		return
	}
	for i := 0; i < len(f.queue); i++ {
		s.applyOne(f.queue[i])
	}
	clear(f.queue)
	f.queue = f.queue[:0]
}

// applyOne is apply for one input. Whoever waits for a unit is answered when what follows
// from its change is decided and told.
func (s *Supervisor) applyOne(in core.Input) {
	f := &s.fleet
	in.Now, in.Wall, in.Rand, in.NextID = boottime(), time.Now().UnixNano(), s.random(), s.tier1.nextID
	effects := f.set.Step(in)
	for i := range effects { // nobody else is to have their ids
		if e := &effects[i]; e.Kind == core.Spawn {
			s.tier1.nextID = max(s.tier1.nextID, e.Action.ID+1)
		}
	}
	for i := range effects {
		s.carryOut(&effects[i])
	}
	if len(f.changed) == 0 {
		return
	}
	for _, u := range f.changed {
		u.waiters.answer(u)
		s.commands.rolls.stir(u)
	}
	clear(f.changed)
	f.changed = f.changed[:0]
	s.ending.checkStopped()
}

// carryOut carries out one effect.
func (s *Supervisor) carryOut(e *core.Effect) {
	if e.Kind == core.Absent {
		if s.fleet.absent != nil {
			s.fleet.absent(e.Name)
		}
		return
	}
	u, a := s.fleet.byNode[e.Node], e.Action
	switch e.Kind {
	case core.Remember:
		s.records.remember(u, e.After)
	case core.Spawn:
		s.launcher.beginLaunch(u, a.ID)
	case core.Signal:
		scope := wire.ScopeGroup
		if a.Scope == machine.ScopeMain {
			scope = wire.ScopeMain
		}
		s.tier1.link.Send(&wire.Signal{ID: a.ID, Signal: int32(a.Signal), Scope: scope}, nil, nil)
	case core.Sweep:
		s.tier1.link.Send(&wire.Signal{ID: a.ID, Signal: int32(a.Signal), Scope: wire.ScopeLeftover}, nil, nil)
	case core.Acknowledge:
		u.kept.ended = append(u.kept.ended, a.ID)
	case core.StartProbe:
		s.prober.startProbe(u, a)
	case core.StopProbe:
		s.prober.stopProbe(u, a.Probe)
	case core.Changed:
		s.fleet.changed = append(s.fleet.changed, u)
		s.published(u, e)
	}
}

// step tells the core what befalls one unit.
func (s *Supervisor) step(u *unit, e machine.Event) {
	s.apply(core.Input{Kind: core.Happened, Node: u.life.Node(), Event: e})
}

// together has what f tells taken for one thing: nothing is decided before its end.
func (f *fleet) together(tell func()) {
	f.apply(core.Input{Kind: core.Hold})
	tell()
	f.apply(core.Input{Kind: core.Release})
}

// find returns the unit that a person means by name: a service, or the gateway
// of a profile. nil: there is none.
func (f *fleet) find(name string) *unit {
	if u := f.units[name]; u != nil {
		return u
	}
	return f.units[profiles.GatewayName(name)]
}

// ofSpawn is the unit whose run a spawn id is; nil: it is no unit's.
func (f *fleet) ofSpawn(id uint64) *unit {
	if life := f.set.OfSpawn(id); life != nil {
		return f.byNode[life.Node()]
	}
	return nil
}

// all returns every unit, by name. Only the loop calls it. The slice stays as it is:
// who calls does not change it.
func (f *fleet) all() []*unit {
	if len(f.sorted) != len(f.units) {
		f.sorted = slices.SortedFunc(maps.Values(f.units), byName)
	}
	return f.sorted
}

// add makes u one of the units, in the state that a predecessor left it in, if there is
// one. It is called while decisions are held back.
func (f *fleet) add(u *unit, state *machine.State) {
	f.units[u.name], f.sorted = u, nil
	profile, gateway := strings.CutPrefix(u.name, service.GatewayPrefix)
	if !gateway {
		profile = ""
	}
	f.apply(core.Input{Kind: core.Define, Name: u.name, Alias: profile, Definition: definitionOf(u), State: state})
	u.life = f.set.Find(u.name)
	u.state = u.life.State()
	node := u.life.Node()
	if missing := int(node) + 1 - len(f.byNode); missing > 0 {
		f.byNode = append(f.byNode, make([]*unit, missing)...)
	}
	f.byNode[node] = u
}

// remove takes u out, which had that node.
func (f *fleet) remove(u *unit, node order.Node) {
	delete(f.units, u.name)
	f.sorted = nil
	f.byNode[node] = nil
}

// redefine tells the core of u's definition, which is another now.
func (f *fleet) redefine(u *unit) {
	f.apply(core.Input{Kind: core.Redefine, Node: u.life.Node(), Definition: definitionOf(u)})
}

// definitionOf is what of u's definition the core knows.
func definitionOf(u *unit) *core.Definition {
	d := u.definition
	return &core.Definition{Policy: u.policy(), Requires: d.Requires, Wants: d.Wants, After: d.After, Fault: u.fault}
}

// nodesOf are the nodes of units; None of one that is gone.
func nodesOf(units []*unit) []order.Node {
	nodes := make([]order.Node, len(units))
	for i, u := range units {
		nodes[i] = u.life.Node()
	}
	return nodes
}

// unitsOf are the units of nodes, by name.
func (f *fleet) unitsOf(nodes []order.Node) []*unit {
	units := make([]*unit, len(nodes))
	for i, n := range nodes {
		units[i] = f.byNode[n]
	}
	slices.SortFunc(units, byName)
	return units
}

// along returns the units that must, or should, be started with others and are
// not wanted yet.
func (f *fleet) along(units ...*unit) []*unit {
	return f.unitsOf(f.set.StartAlong(nodesOf(units)))
}

// command gives units a turn, each with the event that it is given then, and what
// goes along with them.
func (f *fleet) command(t order.Turn, units, along []*unit, e machine.Event) {
	f.apply(core.Input{Kind: core.Command, Turn: t, Nodes: nodesOf(units), Along: nodesOf(along), Event: e})
}

// stopUnits stops units in reverse order of dependency, and what requires them
// first, which waits then and comes back when they do.
func (f *fleet) stopUnits(units []*unit, e machine.Event) (along []*unit) {
	e.Kind = machine.Stop
	return f.commandAlong(order.Stop, units, e)
}

// restartUnits restarts units: a stop in reverse order, and a start in order.
func (f *fleet) restartUnits(units []*unit, e machine.Event) (along []*unit) {
	e.Kind = machine.Restart
	return f.commandAlong(order.Restart, units, e)
}

// startUnits starts units in order.
func (f *fleet) startUnits(units []*unit, e machine.Event) (along []*unit) {
	e.Kind = machine.Start
	f.command(order.Start, units, nil, e)
	return nil
}

func (f *fleet) commandAlong(t order.Turn, units []*unit, e machine.Event) (along []*unit) {
	if f.set.Stopping() {
		return nil // all of them are stopped, and nothing comes back with another
	}
	along = f.unitsOf(f.set.StopAlong(t, nodesOf(units)))
	f.command(t, units, along, e)
	return along
}
