package spawn

import (
	"log/slog"
	"sync"

	"golang.org/x/sys/unix"

	"rlminit/supervise/handover"
	"rlminit/supervise/link"
	"rlminit/wire"
)

// Tier1 is PID 1 as its supervisor knows it: what it said of itself, what it keeps for
// us, and its children, by their spawn ids, with who answers for each. Anybody may call
// it; what a predecessor left is the loop's.
type Tier1 struct {
	Link    *link.Link
	Welcome wire.Welcome // its first word

	Tags     *handover.Tags          // which service or job has which
	Held     handover.Held           // what it gave back and nobody has taken yet
	Children map[string][]wire.Child // that a predecessor left, by name, and nobody has taken yet

	owners []Owner // of what is no service's run

	mu     sync.Mutex
	nextID uint64
	owned  map[uint64]Owner // Invariant: has no id of a service's run
}

// Owner answers for children of tier 1 that are no service's run: jobs, say. The
// loop calls it, and it never waits. It is an alias, so that serve.Spawns, which does not
// know this package, can write it out.
type Owner = interface {
	// Takes tells whether a child that a predecessor spawned, as its name shows, is
	// the owner's, which then answers for it.
	Takes(wire.Child) bool
	// Hear takes what tier 1 says of a spawn: Spawned, SpawnFailed, SpawnStuck,
	// Exited, Signalled or Cleared. Whoever hears of an exit has it acknowledged.
	Hear(wire.Message)
}

// NewTier1 is a Tier1 that has said nothing yet.
func NewTier1() *Tier1 {
	return &Tier1{Tags: &handover.Tags{}, Held: handover.Held{}, Children: map[string][]wire.Child{}, owned: map[uint64]Owner{}}
}

// Send sends it a message, with descriptors, and closes those in after.
func (t *Tier1) Send(m wire.Message, fds, after []int) { t.Link.Send(m, fds, after) }

// Hold has it hold copies of descriptors.
func (t *Tier1) Hold(m *wire.Hold, fds []int) { t.Send(m, fds, nil) }

// Recall takes one message of the snapshot, and tells whether it was the last.
func (t *Tier1) Recall(m wire.Message, fds []int) (last bool) {
	switch m := m.(type) {
	case *wire.Welcome:
		t.Welcome, t.nextID = *m, m.NextID
	case *wire.Child:
		t.Children[m.Name] = append(t.Children[m.Name], *m)
	case *wire.Held:
		t.Held[m.Key] = fds
		return false
	case *wire.SnapshotEnd:
		return true
	case *wire.Ping:
		t.Send(&wire.Pong{Seq: m.Seq}, nil, nil)
	}
	wire.CloseAll(fds)
	return false
}

// Host has an owner asked about what a predecessor left. It is called before the
// boot.
func (t *Tier1) Host(o Owner) { t.owners = append(t.owners, o) }

// NewID is the next spawn's, of which o is told.
func (t *Tier1) NewID(o Owner) (id uint64) {
	t.Number(func(next uint64) uint64 {
		id, t.owned[next] = next, o
		return next + 1
	})
	return id
}

// Number lets somebody give spawns ids, from next on, and say which is the next one then.
func (t *Tier1) Number(give func(next uint64) (after uint64)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nextID = max(t.nextID, give(t.nextID))
}

// Hear takes a message to the owner of its spawn, and tells whether it has one.
func (t *Tier1) Hear(m wire.Message) bool {
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
	t.mu.Lock()
	o := t.owned[id]
	if over {
		delete(t.owned, id)
	}
	t.mu.Unlock()
	if o != nil {
		o.Hear(m)
	}
	return o != nil
}

// Disown forgets a spawn whose exit was acknowledged and of which nothing is left.
func (t *Tier1) Disown(id uint64) { t.own(id, nil) }

func (t *Tier1) own(id uint64, o Owner) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owned[id] = o; o == nil {
		delete(t.owned, id)
	}
}

// Claim gives owners the children that a predecessor left them.
func (t *Tier1) Claim() {
	for name, children := range t.Children {
		var rest []wire.Child
		for _, c := range children {
			if !t.claim(c) {
				rest = append(rest, c)
			}
		}
		if t.Children[name] = rest; len(rest) == 0 {
			delete(t.Children, name)
		}
	}
}

// claim gives a child to the owner whose it is, and tells whether there is one.
func (t *Tier1) claim(c wire.Child) bool {
	for _, o := range t.owners {
		t.own(c.ID, o) // who may disown it at once
		if o.Takes(c) {
			return true
		}
	}
	t.Disown(c.ID)
	return false
}

// Dismiss ends a child that no service answers for any more.
func (t *Tier1) Dismiss(c wire.Child) {
	t.own(c.ID, dismissed{t})
	dismissed{t}.Takes(c)
}

// dismissed is the Owner of children that nobody answers for. A spawn that is under way
// cannot be signalled, and an exit may leave others behind.
type dismissed struct{ *Tier1 }

func (t dismissed) Takes(c wire.Child) bool {
	switch c.State {
	case wire.ChildExited, wire.ChildFailed:
		t.forget(c.ID)
	default:
		slog.Warn("a process that no definition stands for is ended", "service", c.Name, "pid", c.PID)
		t.kill(c.ID, wire.ScopeGroup)
	}
	return true
}

func (t dismissed) Hear(m wire.Message) {
	switch m := m.(type) {
	case *wire.Spawned:
		t.kill(m.ID, wire.ScopeGroup)
	case *wire.SpawnFailed:
		t.forget(m.ID)
	case *wire.Exited:
		if m.Exit.Leftovers > 0 {
			t.kill(m.ID, wire.ScopeLeftover)
		}
		t.forget(m.ID)
	}
}

func (t *Tier1) kill(id uint64, scope wire.Scope) {
	t.Send(&wire.Signal{ID: id, Signal: int32(unix.SIGKILL), Scope: scope}, nil, nil)
}

// forget has the end of a spawn acknowledged, of which nobody is told any more.
func (t *Tier1) forget(id uint64) {
	t.Disown(id)
	t.Send(&wire.Acknowledge{ID: id}, nil, nil)
}
