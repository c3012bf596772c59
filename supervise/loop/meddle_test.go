package loop

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/service"
	"rlminit/supervise/core"
	"rlminit/supervise/machine"
	"rlminit/supervise/order"
	"rlminit/supervise/registry"
	"rlminit/wire"
)

// What a simulation does to its services, and to their supervisor.

// remove has a service unregistered, or takes its slot out by hand. Neither is
// acknowledged: a supervisor that dies meanwhile may forget the first.
func (s *simulation) remove(name string) {
	w, now := s.world, s.now
	delete(s.wanted, name)
	s.orders.forget(name)
	if len(s.orders.rolling) > 0 {
		w.tally("removed when rolling")
	}
	if s.homes == nil && s.rand.IntN(2) == 0 {
		w.tally("removed", name)
		now.Registry.Drop(name)
		return
	}
	w.tally("taken out", name)
	if err := s.slots.Withdraw(name); err != nil {
		s.Fatal(err)
	}
	now.Registry.Notice(name)
}

// putBack registers a service anew when nothing is left of the one before. A
// supervisor that dies at once may not have published it.
func (s *simulation) putBack(name string) {
	w, now := s.world, s.now
	w.mu.Lock()
	for _, b := range w.table {
		if b.name == name {
			w.mu.Unlock()
			return
		}
	}
	delete(w.removed, name)
	w.mu.Unlock()
	w.tally("put back", name)
	delete(s.orders.unlike, name)
	s.orders.fresh = append(s.orders.fresh, name)
	desired, _ := s.recorded(name)
	p := registry.Ours(s.defs[name])
	p.Ours, p.Desired, p.Start = false, desired, desired != service.Stopped
	now.Registry.Register(p)
}

// meddle does something to the services or to the supervisor, or nothing.
func (s *simulation) meddle(everything context.Context) {
	names := slices.Sorted(maps.Keys(s.defs))
	name := names[s.rand.IntN(len(names))]
	w := s.world
	var known, leaving bool
	s.now.ask(func() {
		if u := s.now.fleet.units[name]; u != nil {
			known, leaving = true, u.state.Removed
		}
	})
	if s.homes != nil && (!known && s.homes.has(name) || s.rand.IntN(4) == 0 || len(s.orders.rolling) > 0 && s.rand.IntN(2) == 0) {
		s.housekeep(everything)
		return
	}
	if !known {
		s.meddled(names)
		s.putBack(name)
		return
	}
	switch luck := s.rand.IntN(100); {
	case s.homes != nil && luck < 3:
		w.tally("booted anew")
		s.reboot(everything)
	case s.homes != nil && 20 <= luck && luck < 32: // what is defined here is the configuration's
		if luck < 25 && !leaving && s.homes.has(name) {
			s.homes.out[profileOf(name)] = true
			s.remove(name)
		}
	case luck < 12:
		w.tally("replaced")
		s.succeed(everything)
	case luck < 20: // somebody kills a process
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, id := range slices.Sorted(maps.Keys(w.table)) {
			if b := w.table[id]; b.name == name && b.state == wire.ChildAlive {
				w.note("%s is killed", name)
				w.dies(b, -1, unix.SIGKILL)
			}
		}
	case luck < 26: // its definition changes
		d := new(*s.defs[name])
		if s.rand.IntN(2) == 0 {
			d.Environment = map[string]service.Value{"N": {Text: fmt.Sprint(s.rand.IntN(100))}}
		} else {
			s.probes(d)
		}
		if leaving {
			return // nobody registers it before it is gone
		}
		s.defs[name] = d
		s.meddled(names)
		s.changed(name)
		p := registry.Ours(d)
		p.Ours = false
		s.now.Registry.Register(p)
	case luck < 32 && !leaving:
		s.remove(name)
	case luck < 37:
		w.breakDisk(s.rand)
	case luck < 60:
		w.tally("commands")
		s.command(everything, names, name)
	case luck < 80:
		s.operate(everything, names)
	case luck < 86:
		s.cancel(everything)
	case luck < 90:
		w.breakStatus(s.rand)
	}
}

// meddled: a command or a new definition may start anything anew.
func (s *simulation) meddled(names []string) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	for _, name := range names {
		s.world.meddled(name)
	}
}

// changed: how a service is asked may have changed, and counting begins anew.
func (s *simulation) changed(name string) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.world.policies[name] = machine.PolicyOf(s.defs[name])
	if b := s.world.living(name); b != nil {
		b.changed, b.inRow = boottime(), 0
		b.passed = true // what runs needs no probe that was added later
	}
}

func (s *simulation) command(everything context.Context, names []string, name string) {
	s.meddled(names)
	now := s.now
	v := [...]string{"start", "start", "stop", "restart"}[s.rand.IntN(4)]
	var units, along []*unit
	now.ask(func() {
		for _, each := range names {
			if u := now.fleet.units[each]; u != nil && (each == name || s.rand.IntN(10) == 0) {
				units = append(units, u)
			}
		}
		if v != core.VerbStop {
			for _, u := range units {
				for _, other := range now.fleet.along(u) {
					if !slices.Contains(units, other) && !slices.Contains(along, other) {
						along = append(along, other)
					}
				}
			}
		}
	})
	want := wantOf(v)
	g := s.give(v, namesOf(units), namesOf(along), 0)
	failures, was := s.world.failures(), s.orders.before
	var outcomes []control.Outcome
	answered := s.attempt(everything, len(units), func() { outcomes = operate(now, v, units, true, g.uid, nil) })
	involved := namesOf(slices.Concat(units, along))
	unwritten := s.world.failures() > failures || !answered && failures > was
	if !answered || unwritten {
		s.orders.forget(involved...)
		for _, name := range involved {
			s.orders.unlike[name] = s.orders.unlike[name] || unwritten
		}
	}
	if !answered {
		for _, name := range involved {
			delete(s.wanted, name)
		}
		return
	}
	done := true
	for i, outcome := range outcomes {
		switch {
		case outcome.Problem != nil:
			done = false
			s.world.tally("refused", units[i].name)
			if v == "stop" { // it is carried out, and not recorded
				delete(s.wanted, units[i].name)
				s.orders.forget(units[i].name)
				s.orders.unlike[units[i].name] = true
			}
		case units[i].state.Removed, units[i].life.Turn() == order.Remove: // what is removed is not started any more
			delete(s.orders.intents, units[i].name)
		default:
			s.wanted[units[i].name] = want
			s.ordered(g, units[i].name)
		}
	}
	for _, u := range along {
		if done && !u.state.Removed && u.life.Turn() != order.Remove {
			s.wanted[u.name] = want
			s.ordered(g, u.name)
		} else {
			delete(s.wanted, u.name)
			delete(s.orders.intents, u.name)
		}
	}
}

// ordered takes note of a service of which a command was acknowledged and carried out.
func (s *simulation) ordered(g *given, name string) {
	s.orders.intents[name], s.orders.latest[name] = intentOf(g.verb != "stop"), g.uid
	delete(s.orders.unlike, name)
}

func namesOf(units []*unit) (names []string) {
	for _, u := range units {
		names = append(names, u.name)
	}
	return names
}
