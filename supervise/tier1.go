package supervise

import (
	"log/slog"

	"golang.org/x/sys/unix"

	"rlminit/cgroup"
	"rlminit/supervise/handover"
	"rlminit/supervise/link"
	"rlminit/supervise/machine"
	"rlminit/supervise/oom"
	"rlminit/wire"
)

// tier1 is PID 1 as we know it: what it said of itself, what it keeps for us, and
// its children, by their spawn ids, with who answers for each. It is the loop's,
// but for the link and what the welcome said.
type tier1 struct {
	link       *link.Link
	version    uint32 // of the protocol that it speaks with us
	generation uint32 // of tier 2 in this boot, from 1
	tagged     bool   // it can give tags
	terminal   bool   // the container has one, for a main command that is a service
	stops      bool   // the container was being stopped when we came

	tags      *handover.Tags          // which service or job has which; it has the table too
	held      handover.Held           // what it gave back and nobody has taken yet
	children  map[string][]wire.Child // that a predecessor left, by name, and nobody has taken yet
	nextID    uint64
	owned     map[uint64]Owner // Invariant: has no id of a service's run
	owners    []Owner          // of what is no service's run
	dismissed map[uint64]bool  // children that nobody answers for, until they have ended
	memory    *oom.Watch       // asked when one has ended
	leaves    cgroup.Leaves    // which it keeps for services and jobs

	unfit     func() error // why we are of no use to clients; nil: they are not served yet
	saidUnfit bool
}

func newTier1() tier1 {
	return tier1{
		tags: &handover.Tags{}, held: handover.Held{}, children: map[string][]wire.Child{},
		owned: map[uint64]Owner{}, dismissed: map[uint64]bool{},
		memory: oom.Open("/sys/fs/cgroup"), leaves: cgroup.Find(),
	}
}

// send sends it a message, with descriptors, and closes those in after.
func (t *tier1) send(m wire.Message, fds, after []int) { t.link.Send(m, fds, after) }

// pinged answers that we are alive, unless that alone is true: one whom nobody can
// ask for anything is to be replaced.
func (t *tier1) pinged(m *wire.Ping) {
	if t.unfit != nil {
		if err := t.unfit(); err != nil {
			if !t.saidUnfit {
				slog.Error("the supervisor is of no use: PID 1 is to replace it", "err", err)
			}
			t.saidUnfit = true
			return
		}
	}
	t.saidUnfit = false
	t.link.Send(&wire.Pong{Seq: m.Seq}, nil, nil)
}

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

// remember takes one message of the snapshot, and tells whether it was the last.
func (t *tier1) remember(m wire.Message, fds []int) (last bool) {
	switch m := m.(type) {
	case *wire.Welcome:
		t.version = m.Version
		t.generation, t.nextID, t.tagged = m.Generation, m.NextID, m.Tags
		t.stops, t.terminal = m.Stopping, m.Terminal
	case *wire.Child:
		t.children[m.Name] = append(t.children[m.Name], *m)
	case *wire.Held:
		t.held[m.Key] = fds
		return false
	case *wire.SnapshotEnd:
		return true
	case *wire.Ping:
		t.link.Send(&wire.Pong{Seq: m.Seq}, nil, nil)
	}
	wire.CloseAll(fds)
	return false
}

// Host has an owner asked about what a predecessor left. It is called before the
// boot.
func (t *tier1) Host(o Owner) { t.owners = append(t.owners, o) }

// NewID is the next spawn's, of which o is told. Only the loop calls it.
func (t *tier1) NewID(o Owner) uint64 {
	id := t.nextID
	t.nextID++
	t.owned[id] = o
	return id
}

// hearOwned takes a message to the owner of its spawn, and tells whether it has one.
func (t *tier1) hearOwned(m wire.Message) bool {
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
	o := t.owned[id]
	if o == nil {
		return false
	}
	if over {
		delete(t.owned, id)
	}
	o.Hear(m)
	return true
}

// Disown forgets a spawn whose exit was acknowledged and of which nothing is left.
func (t *tier1) Disown(id uint64) { delete(t.owned, id) }

// claimed gives owners the children that a predecessor left them.
func (t *tier1) claimed() {
	for name, children := range t.children {
		var rest []wire.Child
		for _, c := range children {
			if !t.claim(c) {
				rest = append(rest, c)
			}
		}
		if t.children[name] = rest; len(rest) == 0 {
			delete(t.children, name)
		}
	}
}

// claim gives a child to the owner whose it is, and tells whether there is one.
func (t *tier1) claim(c wire.Child) bool {
	for _, o := range t.owners {
		t.owned[c.ID] = o // who may disown it at once
		if o.Takes(c) {
			return true
		}
	}
	delete(t.owned, c.ID)
	return false
}

// dismiss ends a child that no unit answers for any more. Its exit will be
// acknowledged like any that nobody knows.
func (t *tier1) dismiss(name string, c wire.Child) {
	switch c.State {
	case wire.ChildExited, wire.ChildFailed:
		t.link.Send(&wire.Acknowledge{ID: c.ID}, nil, nil)
	default:
		slog.Warn("a process that no definition stands for is ended", "service", name, "pid", c.PID)
		t.dismissed[c.ID] = true
		t.link.Send(&wire.Signal{ID: c.ID, Signal: int32(unix.SIGKILL), Scope: wire.ScopeGroup}, nil, nil)
	}
}

// dismissing goes on with it: a spawn that was pending could not be signalled,
// and an exit may leave others behind.
func (t *tier1) dismissing(id uint64, e machine.Event) {
	switch {
	case !t.dismissed[id]:
	case e.Kind == machine.Spawned:
		t.link.Send(&wire.Signal{ID: id, Signal: int32(unix.SIGKILL), Scope: wire.ScopeGroup}, nil, nil)
	case e.Kind == machine.ExitedEvent:
		delete(t.dismissed, id)
		if e.Leftovers > 0 {
			t.link.Send(&wire.Signal{ID: id, Signal: int32(unix.SIGKILL), Scope: wire.ScopeLeftover}, nil, nil)
		}
	}
}
