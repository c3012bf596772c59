package supervise

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/service"
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
	if s.rand.IntN(2) == 0 {
		w.tally("removed", name)
		now.registry.Drop(name)
		return
	}
	w.tally("taken out", name)
	if err := s.slots.Withdraw(name); err != nil {
		s.Fatal(err)
	}
	now.registry.Notice(name)
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
	w.mu.Unlock()
	w.tally("put back", name)
	desired, _ := s.recorded(name)
	p := registry.Ours(s.defs[name])
	p.Ours, p.Desired, p.Start = false, desired, desired != service.Stopped
	now.registry.Register(p)
}

// meddle does something to the services or to the supervisor, or nothing.
func (s *simulation) meddle(everything context.Context) {
	names := slices.Sorted(maps.Keys(s.defs))
	name := names[s.rand.IntN(len(names))]
	w := s.world
	var known, leaving bool
	s.now.loop.ask(func() {
		if u := s.now.fleet.units[name]; u != nil {
			known, leaving = true, u.state.Removed
		}
	})
	if !known {
		s.meddled(names)
		s.putBack(name)
		return
	}
	switch luck := s.rand.IntN(100); {
	case luck < 12:
		w.tally("replaced")
		s.kill()
		s.replace(everything)
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
		s.now.registry.Register(p)
	case luck < 32 && !leaving:
		s.remove(name)
	case luck < 37:
		w.breakDisk(s.rand)
	case luck < 75:
		w.tally("commands")
		s.command(everything, names, name)
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
	v := [...]verb{verbStart, verbStart, verbStop, verbRestart}[s.rand.IntN(4)]
	var units, along []*unit
	now.loop.ask(func() {
		for _, each := range names {
			if u := now.fleet.units[each]; u != nil && (each == name || s.rand.IntN(10) == 0) {
				units = append(units, u)
			}
		}
		if v.intent == service.Running {
			for _, u := range units {
				for _, other := range now.fleet.along(u) {
					if !slices.Contains(units, other) && !slices.Contains(along, other) {
						along = append(along, other)
					}
				}
			}
		}
	})
	want := machine.WantUp
	if v.name == "stop" {
		want = machine.WantDown
	}
	s.world.mu.Lock()
	s.world.note("%s %v along %v", v.name, namesOf(units), namesOf(along))
	s.world.mu.Unlock()
	how := s.rand.IntN(10)
	switch how {
	case 1:
		s.world.killAfter(1 + s.rand.IntN(2*len(units)+1))
	case 2, 3:
		s.world.endAfter(1 + s.rand.IntN(4*len(units)+1))
	}
	var outcomes []control.Outcome
	go func() { outcomes = now.commands.operate(context.Background(), v, units, along, 1000, nil) }()
	switch how {
	case 0: // it is killed meanwhile
		time.Sleep(time.Duration(s.rand.Int64N(int64(10 * time.Millisecond))))
	default: // or in the middle of a write to the volume, or to the file of states, or not at all
		time.Sleep(time.Second)
	}
	synctest.Wait()
	s.world.killAfter(0)
	s.world.endAfter(0)
	if s.dead() || outcomes == nil {
		s.world.tally("killed in a command")
		s.kill()
		for _, u := range append(units, along...) {
			delete(s.wanted, u.name)
		}
		s.replace(everything)
		return
	}
	done := true
	for i, outcome := range outcomes {
		switch {
		case outcome.Problem != nil:
			done = false
			s.world.tally("refused", units[i].name)
			if v.name == "stop" { // it is carried out, and not recorded
				delete(s.wanted, units[i].name)
			}
		case units[i].state.Removed, units[i].order.turn == order.Remove: // what is removed is not started any more
		default:
			s.wanted[units[i].name] = want
		}
	}
	for _, u := range along {
		if done && !u.state.Removed && u.order.turn != order.Remove {
			s.wanted[u.name] = want
		} else {
			delete(s.wanted, u.name)
		}
	}
}

func namesOf(units []*unit) (names []string) {
	for _, u := range units {
		names = append(names, u.name)
	}
	return names
}
