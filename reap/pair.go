package reap

import (
	"math/bits"
	"slices"

	"rlminit/reap/say"
	"rlminit/reap/sys"
	"rlminit/wire"
)

// pair is our end of the socket pair with tier 2: the messages owed, and how far it
// has been told. Nothing is queued: each message is made from the tables when it
// can be sent.
//
// Invariant: without greeted nothing is sent. Where there is a socket, epoll waits
// for it as writable and deaf say.
type pair struct {
	socket     int    // -1: none
	generation uint32 // of tier 2, from 1

	greeted  bool  // tier 2 said Hello
	full     bool  // the socket; until it can be written
	writable bool  // epoll waits for that
	deaf     bool  // epoll does not wait for messages
	retryAt  int64 // CLOCK_MONOTONIC: when a send is tried again; or never
	waits    int64 // since when the owed messages wait for more of their kind

	owed      pairOwed
	welcome   wire.Welcome
	ending    wire.Shutdown
	pings     uint64
	snapshot  snapshot
	strangers []wire.Signalled // answers about processes that are not in the table

	receiver wire.Receiver
	budget   budget // of what tier 2 may ask for
	events   *sys.Events
	children *children
	held     *held
	voice    *say.Voice
}

// retrySend is the pause after a send that failed for want of memory or
// descriptors, in ns.
const retrySend = 100e6

// pairOwed are messages that concern no child, in the order of sending.
type pairOwed uint8

const (
	owedWelcome pairOwed = 1 << iota
	owedShutdown
	owedReload
	owedPing
)

// snapshot is how far the table has been told to a new tier 2.
type snapshot struct {
	underWay bool
	ids      []uint64
	keys     []string
}

// open takes over a new, unused socket.
func (p *pair) open(socket int) sys.Errno {
	errno := p.events.Add(int32(socket), sys.Readable, keySocket)
	if errno == 0 {
		p.socket, p.writable, p.deaf, p.retryAt, p.pings = socket, false, false, never, 0
		p.generation++
	}
	return errno
}

// disconnect closes it. All that was owed is derived anew from the table by the
// next snapshot.
func (p *pair) disconnect() {
	if p.socket >= 0 {
		p.held.closer.close([]int{p.socket}) // and all that nobody has received
		p.socket = -1
	}
	p.greeted, p.full = false, false
	p.owed &= owedReload
	p.snapshot = snapshot{}
	p.strangers = nil
	for i, c := range p.children.owing {
		c.queued, c.owed = false, 0
		p.children.owing[i] = nil
	}
	p.children.owing = p.children.owing[:0]
}

// connected tells whether messages can be sent: the pair is there, and Hello
// was said.
func (p *pair) connected() bool { return p.socket >= 0 && p.greeted }

// greet plans the first messages to a new tier 2.
func (p *pair) greet(welcome wire.Welcome) {
	p.greeted, p.welcome = true, welcome
	p.owed |= owedWelcome
	s := snapshot{underWay: true}
	for c := p.children.first; c != nil; c = c.next {
		s.ids = append(s.ids, c.id)
		if c.stuck && c.state == pending {
			p.children.owe(c, owedStuck) // an entry does not say that
		}
	}
	for key := range p.held.byKey {
		s.keys = append(s.keys, key)
	}
	p.snapshot = s
}

// shutdown owes the word that the container ends, and by when.
func (p *pair) shutdown(deadline int64) {
	p.ending.Deadline = deadline
	p.welcome.Stopping = true
	p.owed |= owedShutdown
}

// answer owes what became of a signal to something that is not in the table.
func (p *pair) answer(m wire.Signalled) {
	if len(p.strangers) < mostStrangers {
		p.strangers = append(p.strangers, m)
	}
}

// mostStrangers bounds them.
const mostStrangers = 1024

// retry has a send that failed tried again when it is time.
func (p *pair) retry(now int64) {
	if now >= p.retryAt {
		p.retryAt, p.full = never, false
	}
}

// flush sends what is owed, as far as the socket takes it, and has epoll wait for
// what comes next; nothing is read of one to whom we are deaf. What could be told with
// more of its kind soon waits. It returns false if there is nobody at the other end.
func (p *pair) flush(now int64, deaf, soon bool) bool {
	lost := false
	if p.connected() && !p.full && !(soon && p.mayWait(now)) {
		p.sendOwed(now)
		lost = !p.greeted
	}
	full := p.full && p.retryAt == never // else a timer ends it
	if p.socket >= 0 && (full != p.writable || deaf != p.deaf) {
		var conditions uint32
		if !deaf {
			conditions = sys.Readable
		}
		if full {
			conditions |= sys.Writable
		}
		if p.events.Change(int32(p.socket), conditions, keySocket) == 0 {
			p.writable, p.deaf = full, deaf
		}
	}
	return !lost
}

// mayWait tells whether nothing is owed but that some spawns have succeeded, not as many
// as go into one message, and the first not long ago.
func (p *pair) mayWait(now int64) bool {
	owing := p.children.owing
	if len(owing) == 0 {
		p.waits = now
	}
	return p.owed == 0 && !p.snapshot.underWay && len(p.strangers) == 0 && len(owing) < fewSpawned && now-p.waits < longestWait &&
		!slices.ContainsFunc(owing, func(c *child) bool { return c.owed != owedSpawned })
}

// fewSpawned is how many spawns are told at once, at the most, while others are under way.
const fewSpawned = 16

// longestWait is how long the word of a spawn may wait for others, in ns.
const longestWait = 5e6

func (p *pair) sendOwed(now int64) {
	if p.owed&owedWelcome != 0 && !p.sendFirst(now) || p.snapshot.underWay && !p.sendSnapshot(now) {
		return
	}
	for p.owed != 0 {
		if !p.sendFirst(now) {
			return
		}
	}
	for len(p.strangers) > 0 {
		if !p.send(now, &p.strangers[0]) {
			return
		}
		p.strangers = p.strangers[1:]
	}
	owing := p.children.owing
	for len(owing) > 0 {
		n := min(len(owing), mostAtOnce)
		if !p.sendChildren(now, owing[:n]) {
			break
		}
		clear(owing[:n])
		owing = owing[n:]
	}
	if len(owing) == 0 {
		owing = p.children.owing[:0]
	}
	p.children.owing = owing
}

// mostAtOnce is of how many children one message tells.
const mostAtOnce = 64

// sendFirst sends the first of what concerns no child.
func (p *pair) sendFirst(now int64) bool {
	var m wire.Message
	bit := p.owed & -p.owed
	switch bit {
	case owedWelcome:
		p.welcome.Version, p.welcome.Generation, p.welcome.NextID = wire.Version, p.generation, p.children.nextID
		m = &p.welcome
	case owedShutdown:
		m = &p.ending
	case owedReload:
		m = &wire.Reload{}
	case owedPing:
		m = &wire.Ping{Seq: p.pings}
	}
	if !p.send(now, m) {
		return false
	}
	p.owed &^= bit
	return true
}

// sendChildren sends the messages owed of some children as one.
func (p *pair) sendChildren(now int64, list []*child) bool {
	var many wire.Many
	for _, c := range list {
		for owed := c.owed; owed != 0; {
			bit := owed & -owed
			many.Parts = append(many.Parts, wire.Part{Message: c.message(bit)})
			owed &^= bit
		}
	}
	var m wire.Message = &many
	if len(many.Parts) == 1 {
		m = many.Parts[0].Message
	}
	if len(many.Parts) > 0 && !p.send(now, m) { // none: they were removed meanwhile
		return false
	}
	for _, c := range list {
		c.owed, c.queued = 0, false
	}
	return true
}

// message is one that is owed of a child.
func (c *child) message(bit owed) wire.Message {
	switch bit {
	case owedStuck:
		return &wire.SpawnStuck{ID: c.id}
	case owedSpawned:
		return &wire.Spawned{ID: c.id, PID: c.pid, StartTime: c.startTime}
	case owedFailed:
		return &wire.SpawnFailed{ID: c.id, Step: c.step, Errno: c.errno, Reason: c.reason}
	case owedExited:
		return &wire.Exited{ID: c.id, Exit: c.exit}
	case owedCleared:
		return &wire.Cleared{ID: c.id}
	default:
		return &c.answers[bits.TrailingZeros16(uint16(bit/owedSignalled))]
	}
}

// sendSnapshot goes on with the snapshot. An entry is told as it is now, so
// nothing more is owed of it.
func (p *pair) sendSnapshot(now int64) bool {
	s := &p.snapshot
	for len(s.ids) > 0 {
		if c := p.children.byID[s.ids[0]]; c != nil {
			if !p.send(now, childMessage(c)) {
				return false
			}
			c.owed &= owedStuck | owedCleared
		}
		s.ids = s.ids[1:]
	}
	for len(s.keys) > 0 {
		if fds, ok := p.held.byKey[s.keys[0]]; ok {
			if !p.send(now, &wire.Held{Key: s.keys[0]}, fds...) {
				return false
			}
		}
		s.keys = s.keys[1:]
	}
	if !p.send(now, &wire.SnapshotEnd{}) {
		return false
	}
	*s = snapshot{}
	return true
}

func childMessage(c *child) *wire.Child {
	m := &wire.Child{
		ID: c.id, Name: c.name, PID: c.pid, StartTime: c.startTime, Deadline: c.expiry.deadline,
		Exit: c.exit, Step: c.step, Errno: c.errno, Reason: c.reason,
	}
	m.State = [states]wire.ChildState{pending: wire.ChildPending, alive: wire.ChildAlive, exited: wire.ChildExited, failed: wire.ChildFailed}[c.state]
	if c.state == pending {
		m.PID = 0
	}
	return m
}

// send sends one message, and tells whether it is off our hands.
func (p *pair) send(now int64, m wire.Message, fds ...int) bool {
	switch err := wire.Send(p.socket, m, fds...); err {
	case nil:
		return true
	case wire.ErrFull:
		p.full = true
	case wire.ErrClosed:
		p.greeted = false // owed messages wait for the next one
	case wire.ErrTooLarge:
		p.voice.Once("a message to the supervisor is too large; dropped")
		return true
	default:
		// Of the moment, and no event tells of its end: see wire.Send.
		p.full, p.retryAt = true, now+retrySend
	}
	return false
}
