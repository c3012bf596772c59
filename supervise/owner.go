package supervise

import "rlminit/wire"

// Owner answers for children of tier 1 that are no service's run: jobs, say. The
// loop calls it, and it never waits.
type Owner interface {
	// Takes tells whether a child that a predecessor spawned, as its name and
	// label show, is the owner's, which then answers for it.
	Takes(wire.Child) bool
	// Hear takes what tier 1 says of a spawn: Spawned, SpawnFailed, SpawnStuck,
	// Exited, Signalled or Cleared. Whoever hears of an exit has it acknowledged.
	Hear(wire.Message)
}

// Host has an owner asked about what a predecessor left. It is called before the
// boot.
func (s *Supervisor) Host(o Owner) { s.owners = append(s.owners, o) }

// NewID is the next spawn's, of which o is told. Only the loop calls it.
func (s *Supervisor) NewID(o Owner) uint64 {
	id := s.nextID
	s.nextID++
	s.owned[id] = o
	return id
}

// hearOwned takes a message to the owner of its spawn, and tells whether it has one.
func (s *Supervisor) hearOwned(m wire.Message) bool {
	var id uint64
	over := false
	switch m := m.(type) {
	case *wire.Spawned:
		id = m.ID
	case *wire.SpawnFailed:
		id, over = m.ID, true
	case *wire.SpawnStuck:
		id = m.ID
	case *wire.Exited:
		id = m.ID
	case *wire.Signalled:
		id = m.ID
	case *wire.Cleared:
		id = m.ID
	}
	o := s.owned[id]
	if o == nil {
		return false
	}
	if over {
		delete(s.owned, id)
	}
	o.Hear(m)
	return true
}

// Disown forgets a spawn whose exit was acknowledged and of which nothing is left.
func (s *Supervisor) Disown(id uint64) { delete(s.owned, id) }

// claimed gives owners the children that a predecessor left them.
func (s *Supervisor) claimed() {
	for name, children := range s.children {
		var rest []wire.Child
		for _, c := range children {
			taken := false
			for _, o := range s.owners {
				if taken = o.Takes(c); taken {
					s.owned[c.ID] = o
					break
				}
			}
			if !taken {
				rest = append(rest, c)
			}
		}
		if s.children[name] = rest; len(rest) == 0 {
			delete(s.children, name)
		}
	}
}
