package loop

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"rlminit/profiles"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/handover"
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
	"rlminit/supervise/process"
	"rlminit/supervise/serve"
)

// fleet is every supervised service, by its name and by its number in the core, which
// decides about all of them. Only the loop changes it.
type fleet struct {
	units map[string]*unit
	// commanders are the names of services that may command. Anybody may read it.
	commanders *sync.Map

	byNode []*unit // as the core numbers them; nil: no unit has that number

	set   core.Set
	alarm *alarm       // rings for the core's next deadline
	queue []core.Input // not empty: one of them is being applied, and those after it came from its effects
	rows  []core.Row   // that were remembered, by the input that is being applied

	apply  func(core.Input)
	absent func(name string) // told of a name that a definition refers to, and that no unit has
}

func newFleet() fleet {
	f := fleet{units: map[string]*unit{}, alarm: newAlarm(), commanders: new(sync.Map)}
	f.set.Limits = core.DefaultLimits()
	f.set.NoRoom = []string{handover.ErrNoTag.Error(), process.NoProcess}
	return f
}

// apply tells the core one thing, and carries out what follows in order. What an effect
// leads to in its turn waits until all effects before it are carried out.
func (l *Loop) apply(in core.Input) {
	f := &l.fleet
	if f.queue = append(f.queue, in); len(f.queue) > 1 {
		return
	}
	for i := 0; i < len(f.queue); i++ {
		l.applyOne(f.queue[i])
	}
	clear(f.queue)
	f.queue = f.queue[:0]
}

// applyOne is apply for one input.
func (l *Loop) applyOne(in core.Input) {
	f := &l.fleet
	in.Now, in.Wall, in.Rand = boottime(), time.Now().UnixNano(), l.random()
	var effects []core.Effect
	l.tier1.Number(func(next uint64) uint64 {
		in.NextID = next
		effects = f.set.Step(in)
		for i := range effects {
			if e := &effects[i]; e.Kind == core.Spawn {
				next = max(next, e.Action.ID+1)
			}
		}
		return next
	})
	for i := range effects {
		l.carryOut(&effects[i])
	}
	if len(f.rows) > 0 {
		f.queue = append(f.queue, core.Input{Kind: core.Remembered, Rows: f.rows})
		f.rows = nil
	}
	l.shutdown.checkStopped()
}

// carryOut carries out one effect.
func (l *Loop) carryOut(e *core.Effect) {
	switch e.Kind {
	case core.Absent:
		if l.fleet.absent != nil {
			l.fleet.absent(e.Name)
		}
	case core.Record:
		l.Commands.record(e.Command)
	case core.Refused:
		l.Commands.refused(e)
	case core.Told:
		l.Commands.told(e)
	case core.Forgot:
		l.Commands.forgot(e.Operation)
	case core.Prolonged:
		l.jobs.prolonged(l.fleet.byNode[e.Node], e.Action.At)
		l.spawner.Tell(e)
	case core.Acknowledge, core.Signal, core.Sweep:
		l.spawner.Tell(e)
	default:
		l.carryOutOn(e)
	}
}

// carryOutOn is carryOut for an effect that is about a unit.
func (l *Loop) carryOutOn(e *core.Effect) {
	u, a := l.fleet.byNode[e.Node], e.Action
	switch e.Kind {
	case core.Remember:
		row := core.Row{Life: e.Life, Version: e.Version}
		if l.Records.remember(u, e.After, e.Wants, row) {
			l.fleet.rows = append(l.fleet.rows, row)
		}
	case core.Spawn:
		u.process.launch = l.spawner.Begin(l.prep.starts(u), a.ID)
	case core.Wanted:
		l.Records.publishStatus(u)
		l.Records.recordSeen(u)
		l.jobs.turned(u)
	case core.StartProbe:
		l.probes.Start(e.Node, a, u.definition, l.probing(u, a.Probe))
	case core.StopProbe:
		l.probes.Stop(e.Node, a.Probe)
	case core.Changed:
		l.published(u, e)
		l.jobs.turned(u)
	}
}

// find returns the unit that a person means by name: a service, or the gateway
// of a profile. nil: there is none.
func (f *fleet) find(name string) *unit {
	if u := f.units[name]; u != nil {
		return u
	}
	return f.units[profiles.GatewayName(name)]
}

// all returns every unit, by name.
func (f *fleet) all() []*unit { return slices.SortedFunc(maps.Values(f.units), byName) }

// All, Named, Find, Again and Core are serve.Services: who reads calls them.
func (f *fleet) All() iter.Seq[*serve.View] {
	return func(yield func(*serve.View) bool) {
		for _, u := range f.all() {
			if !yield(u.view()) {
				return
			}
		}
	}
}

func (f *fleet) Named(name string) *serve.View { return f.units[name].view() }
func (f *fleet) Find(name string) *serve.View  { return f.find(name).view() }
func (f *fleet) Core() *core.Set               { return &f.set }

func (f *fleet) Again(v *serve.View) *serve.View {
	if node := v.Life.Node(); node != order.None {
		return f.byNode[node].view()
	}
	now := *v
	now.State, now.Desired = *v.Life.State(), v.Life.Wants().Desired
	return &now
}

// add makes u one of the units, in the state that a predecessor left it in, if there is
// one. It is called while decisions are held back.
func (f *fleet) add(u *unit, state *machine.State, wants core.Wants) {
	f.units[u.name] = u
	f.levelled(u)
	profile, gateway := strings.CutPrefix(u.name, service.GatewayPrefix)
	if !gateway {
		profile = ""
	}
	f.apply(core.Input{Kind: core.Define, Name: u.name, Alias: profile, Definition: definitionOf(u), State: state, Wants: wants})
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
	f.commanders.Delete(u.name)
	f.byNode[node] = nil
}

// redefine tells the core of u's definition, which is another now.
func (f *fleet) redefine(u *unit) {
	f.levelled(u)
	f.apply(core.Input{Kind: core.Redefine, Node: u.life.Node(), Definition: definitionOf(u)})
}

// levelled notes whether u may command, for those who must not wait for the loop.
func (f *fleet) levelled(u *unit) {
	if u.ours && u.definition.Control == service.ControlAll {
		f.commanders.Store(u.name, true)
	} else {
		f.commanders.Delete(u.name)
	}
}

// definitionOf is what of u's definition the core knows.
func definitionOf(u *unit) *core.Definition {
	d := u.definition
	return &core.Definition{Policy: u.policy(), Requires: d.Requires, Wants: d.Wants, After: d.After, Title: u.title(), Fault: u.fault, Scheduled: d.Schedule != nil, Enabled: d.Enabled}
}

// nodesOf are the nodes of units; None of one that is gone.
func nodesOf(units []*unit) []order.Node {
	nodes := make([]order.Node, len(units))
	for i, u := range units {
		nodes[i] = u.life.Node()
	}
	return nodes
}

// having are the units of lives that are not gone.
func (f *fleet) having(lives []*core.Life) (units []*unit) {
	for _, l := range lives {
		if l.Node() != order.None {
			units = append(units, f.byNode[l.Node()])
		}
	}
	return units
}

// command gives units a turn, each with the event that it is given then.
func (f *fleet) command(t order.Turn, units []*unit, e machine.Event) {
	f.apply(core.Input{Kind: core.Give, Turn: t, Nodes: nodesOf(units), Event: e})
}

// start starts a unit in its turn.
func (f *fleet) start(u *unit, e machine.Event) {
	e.Kind = machine.Start
	f.command(order.Start, []*unit{u}, e)
}

// want has what is wanted of a unit be another, as is recorded of it.
func (f *fleet) want(u *unit, intent service.Intent) {
	f.apply(core.Input{Kind: core.Want, Node: u.life.Node(), Wants: core.Wants{Desired: intent}})
}
