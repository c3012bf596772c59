package supervise

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"rlminit/service"
	"rlminit/supervise/machine"
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
		now.ask(func() {
			now.leaving[name] = true
			now.remove(now.units[name], "its definition is gone", nil)
		})
		return
	}
	w.tally("taken out", name)
	if err := s.slots.withdraw(name); err != nil {
		s.Fatal(err)
	}
	now.noticed(name)
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
	s.publish(name)
	d := s.defs[name]
	now.ask(func() {
		u := now.define(proposal{name: name, value: d, source: service.Encode(d), start: true})
		s.equip(u)
	})
}

// meddle does something to the services or to the supervisor, or nothing.
func (s *simulation) meddle(everything context.Context) {
	names := slices.Sorted(maps.Keys(s.defs))
	name := names[s.rand.IntN(len(names))]
	w := s.world
	var known, leaving bool
	s.now.ask(func() { known, leaving = s.now.units[name] != nil, s.now.leaving[name] })
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
		d := s.defs[name]
		d.Environment = map[string]service.Value{"N": {Text: fmt.Sprint(s.rand.IntN(100))}}
		if leaving {
			return // nobody registers it before it is gone
		}
		s.defs[name] = d
		s.meddled(names)
		now := s.now
		now.ask(func() {
			now.redefine(now.units[name], proposal{name: name, value: d, source: service.Encode(d)})
		})
	case luck < 32 && !leaving:
		s.remove(name)
	case luck < 70:
		w.tally("commands")
		s.command(names, name)
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

func (s *simulation) command(names []string, name string) {
	s.meddled(names)
	now := s.now
	v := [...]verb{verbStart, verbStart, verbStop, verbRestart}[s.rand.IntN(4)]
	var units, along []*unit
	now.ask(func() {
		for _, each := range names {
			if u := now.units[each]; u != nil && (each == name || s.rand.IntN(10) == 0) {
				units = append(units, u)
			}
		}
		if v.intent == "running" {
			for _, u := range units {
				for _, other := range now.along(u) {
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
	var meant []string
	for _, u := range append(slices.Clone(units), along...) {
		meant = append(meant, u.name)
		if u.state.Removed {
			continue // what is removed is not started any more
		}
		s.wanted[u.name] = want
	}
	s.world.mu.Lock()
	s.world.note("%s %v", v.name, meant)
	s.world.mu.Unlock()
	now.operate(context.Background(), v, units, along, 1000, nil)
}
