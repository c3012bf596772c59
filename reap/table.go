package reap

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/threads"
	"rlminit/wire"
)

// state is tier 1's view of a child.
type state uint8

const (
	gone    state = iota // not in the table: never was, or forgotten
	pending              // a thread is spawning it
	alive
	exited // collected, and not acknowledged
	failed // never ran, and not acknowledged
	states
)

// event is what happens to a child.
type event uint8

const (
	accepted     event = iota // Spawn, and the policy allows it
	refused                   // Spawn, and the policy does not
	started                   // the program was executed
	fell                      // a step of the spawn failed, and the process is collected
	stuck                     // the spawn has taken too long
	ended                     // the process was collected
	signalled                 // Signal
	acknowledged              // Acknowledge
	due                       // its deadline has passed, or Deadline
	events
)

// effect is what tier 1 does about it.
type effect uint8

const (
	nothing     effect = iota
	impossible         // cannot happen; nothing is done
	dropMessage        // tier 2 makes no sense: said once
	begin              // put into the table, give to a spawn thread
	oweFailed          // put into the table where it is not; SpawnFailed
	oweSpawned
	killStuck // SIGKILL, SpawnStuck
	oweExited
	deliver         // to the process, its group, or its leftovers
	deliverLeftover // only orphans are left of it
	answerNone      // Signalled with ESRCH
	answerLater     // Signalled with EAGAIN
	forget          // take from the table
	endStarted      // end all of it when it has started
	endAll          // end all that belongs to it
	endLeftover     // end its leftovers
)

type transition struct {
	next   state
	effect effect
}

// table decides every pair. It says in Go what wire/PROTOCOL.md says.
var table = [states][events]transition{
	gone: {
		accepted:     {pending, begin},
		refused:      {failed, oweFailed},
		started:      {gone, impossible},
		fell:         {gone, impossible},
		stuck:        {gone, impossible},
		ended:        {gone, impossible},
		signalled:    {gone, answerNone},
		acknowledged: {gone, nothing},
		due:          {gone, nothing},
	},
	pending: {
		accepted:     {pending, dropMessage},
		refused:      {pending, dropMessage},
		started:      {alive, oweSpawned},
		fell:         {failed, oweFailed},
		stuck:        {pending, killStuck},
		ended:        {failed, oweFailed}, // killed while stuck
		signalled:    {pending, answerLater},
		acknowledged: {pending, nothing},
		due:          {pending, endStarted},
	},
	alive: {
		accepted:     {alive, dropMessage},
		refused:      {alive, dropMessage},
		started:      {alive, impossible},
		fell:         {alive, impossible},
		stuck:        {alive, nothing}, // it came back in time
		ended:        {exited, oweExited},
		signalled:    {alive, deliver},
		acknowledged: {alive, nothing},
		due:          {alive, endAll},
	},
	exited: {
		accepted:     {exited, dropMessage},
		refused:      {exited, dropMessage},
		started:      {exited, impossible},
		fell:         {exited, impossible},
		stuck:        {exited, nothing},
		ended:        {exited, impossible},
		signalled:    {exited, deliverLeftover},
		acknowledged: {gone, forget},
		due:          {exited, endLeftover},
	},
	failed: {
		accepted:     {failed, dropMessage},
		refused:      {failed, dropMessage},
		started:      {failed, impossible},
		fell:         {failed, impossible},
		stuck:        {failed, nothing},
		ended:        {failed, impossible},
		signalled:    {failed, answerNone},
		acknowledged: {gone, forget},
		due:          {failed, nothing},
	},
}

// child is one entry: a process that tier 2 asked for.
type child struct {
	id    uint64
	name  string
	state state
	tag   uint32
	user  uint32 // whose uid it has

	pid       int32 // also its session and process group
	pidfd     int32 // -1: refused, or collected
	startTime uint64
	exit      wire.Exit
	step      wire.Step
	errno     int32
	reason    string
	stuck     bool         // its spawn has taken too long
	killed    unix.Errno   // why we killed it on its way to its program; 0: we did not
	spawn     *threads.Job // of a pending one
	terminal  bool         // it has the container's terminal
	expiry    expiry
	oomKills  uint64 // of its cgroup, before it was started

	privileged bool // it is the policy's program of its name

	owed     owed
	answers  [wire.ScopeLeftover + 1]wire.Signalled
	queued   bool // in children.owing
	tagged   bool // counted in children.tags
	previous *child
	next     *child
}

// owed are the messages about a child that tier 2 has not been sent yet, in the
// order in which they are sent.
type owed uint16

const (
	owedStuck owed = 1 << iota
	owedSpawned
	owedFailed
	owedSignalled // shifted by the scope: three bits
	_
	_
	owedExited
	owedCleared
)

// children is the table: by id, and in the order of arrival.
type children struct {
	byID        map[uint64]*child
	first, last *child
	nextID      uint64
	owing       []*child // those with something owed, in its order
	unwatched   []*child // alive, and without a pidfd
	tags        map[uint32]tagUse
}

// tagUse is whose a tag is, and how many entries bear it.
type tagUse struct {
	name    string
	entries int
}

// firstID is the lowest id of a spawn of tier 2; those below are tier 1's own.
const firstID = 16

// mostChildren bounds the table, whatever tier 2 asks for.
const mostChildren = 1 << 16

func newChildren() children {
	return children{byID: make(map[uint64]*child), nextID: firstID, tags: make(map[uint32]tagUse)}
}

// add puts an entry into the table, at its end. Spawns are prepared side by
// side, so ids need not come in order.
func (t *children) add(c *child) {
	t.byID[c.id] = c
	t.nextID = max(t.nextID, c.id+1)
	c.previous = t.last
	if t.last != nil {
		t.last.next = c
	} else {
		t.first = c
	}
	t.last = c
	if c.tag != 0 && c.state != failed {
		c.tagged = true
		t.tags[c.tag] = tagUse{wire.ServiceOf(c.name), t.tags[c.tag].entries + 1}
	}
}

// remove takes an entry out.
func (t *children) remove(c *child) {
	delete(t.byID, c.id)
	if c.previous != nil {
		c.previous.next = c.next
	} else {
		t.first = c.next
	}
	if c.next != nil {
		c.next.previous = c.previous
	} else {
		t.last = c.previous
	}
	c.owed = 0
	if c.tagged {
		if use := t.tags[c.tag]; use.entries > 1 {
			t.tags[c.tag] = tagUse{use.name, use.entries - 1}
		} else {
			delete(t.tags, c.tag)
		}
	}
}

// count is how many processes of a name there are.
func (t *children) count(name string) (n int) {
	for c := t.first; c != nil; c = c.next {
		if c.name == name && (c.state == alive || c.state == pending) {
			n++
		}
	}
	return n
}

// unshareNumber makes entries whose process is gone forget its number, now that
// another process has it: it no longer names their session.
func (t *children) unshareNumber(pid int32) {
	for c := t.first; c != nil; c = c.next {
		if c.pid == pid && c.state == exited {
			c.pid = 0
		}
	}
}

// owe notes what tier 2 is to be told of a child.
func (t *children) owe(c *child, what owed) {
	c.owed |= what
	if !c.queued {
		c.queued = true
		t.owing = append(t.owing, c)
	}
}
