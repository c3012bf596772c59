package supervise

import (
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
)

// follow does what follows from all that was told.
func (f *fleet) follow() {
	if f.order.held > 0 {
		return
	}
	f.order.held++ // what is done leads to more being told, and is done here in its turn
	defer func() { f.order.held-- }()
	for {
		a, more := f.order.set.Next()
		if !more {
			return
		}
		u := f.order.units[a.Node]
		switch {
		case u == nil:
		case a.Turn == order.NoTurn:
			f.hold(u, a.Decision)
		default:
			e := u.order.command
			u.order.turn, u.order.command = order.NoTurn, nil
			if e == nil || e.Kind == machine.Start && f.stopping {
				continue
			}
			f.step(u, *e)
		}
	}
}

// hold tells u what keeps it from starting, or that nothing does.
func (f *fleet) hold(u *unit, d order.Decision) {
	reason := f.reason(u, d)
	stuck := d.Held == order.Stuck
	changed := stuck != u.order.stuck
	u.order.stuck = stuck
	switch {
	case reason == u.state.Blocked:
		if changed {
			u.waiters.answer(u)
		}
	case reason == "":
		f.step(u, machine.Event{Kind: machine.DependenciesMet})
	default:
		f.step(u, machine.Event{Kind: machine.DependenciesUnmet, Reason: reason})
	}
}

// command gives units a turn, each with the event that it is given then, and what
// goes along a restart. In a container that is stopping nothing is started any more.
func (f *fleet) command(t order.Turn, units, along []*unit, event func(*unit) machine.Event) {
	if f.stopping && (t == order.Start || t == order.Restart) {
		return
	}
	events := make(map[*unit]machine.Event, len(units))
	for _, u := range units {
		events[u] = event(u)
	}
	for _, n := range f.order.set.Command(t, nodesOf(units), nodesOf(along)) {
		u := f.order.units[n]
		was := u.order.turn
		u.order.turn = f.order.set.Fact(n).Turn
		e, named := events[u]
		switch {
		case u.order.turn == order.NoTurn:
			u.order.command = nil
		case u.order.turn == t && named:
			u.order.command = &e
		case u.order.turn != was: // it goes along
			e = event(u)
			e.Kind = machine.Restart
			if u.order.turn == order.Start {
				e.Kind = machine.Start
			}
			u.order.command = &e
		}
	}
	f.follow()
}

// start gives u, alone, the command to start.
func (f *fleet) start(u *unit, e machine.Event) { f.startUnits([]*unit{u}, e) }

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
	f.command(order.Start, units, nil, func(*unit) machine.Event { return e })
	return nil
}

func (f *fleet) commandAlong(t order.Turn, units []*unit, e machine.Event) (along []*unit) {
	if f.stopping {
		return nil // all of them are stopped, and nothing comes back with another
	}
	along = f.unitsOf(f.order.set.StopAlong(t, nodesOf(units)))
	f.command(t, units, along, func(*unit) machine.Event { return e })
	return along
}
