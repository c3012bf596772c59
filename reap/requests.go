package reap

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
	"rlminit/wire"
)

// Bounds on what tier 2 may ask for.
const (
	messagesPerTurn = 64   // the rest waits: a flood must not starve the signals
	turnTime        = 20e6 // ns; likewise
	mostStrangers   = 1024 // answers about what is not in the table
	longestKey      = 256
	longestName     = 128
	longestLabel    = 4 << 10
	heldReserve     = 256 // descriptors that Hold leaves free for the rest
	mostKeys        = 1 << 15
	mostArguments   = 4 << 20 // bytes of a command and its environment
	mostLimits      = 16      // as many as there are, RLIM_NLIMITS
	mostAhead       = 1 << 20 // of the next spawn's id: they shall not run out
)

// receive handles what tier 2 has sent.
func (r *reaper) receive() {
	t := &r.tier2
	for n := range messagesPerTurn {
		if t.socket < 0 || r.deaf() || n > 0 && monotonic()-r.now > turnTime {
			return
		}
		m, fds, err := r.receiver.Receive(t.socket)
		switch err {
		case nil:
			r.budget.spend(r.now, m)
			r.handle(m, fds)
		case wire.ErrEmpty:
			return
		case wire.ErrClosed:
			r.letGo()
			return
		default:
			r.sayOnce("the supervisor sent what is no message; dropped")
		}
	}
}

// deaf tells whether nothing more is read of tier 2 for now: enough of what it
// asked for waits, or it asks for more than a sane one would.
func (r *reaper) deaf() bool { return r.threads.loaded() || r.budget.empty(r.now) }

// letGo gives up a tier 2 that has closed its socket, without which it is of no
// use.
func (r *reaper) letGo() {
	r.disconnect()
	if !r.tier2.spawning && r.stop.phase == running {
		r.killTier2()
	}
}

// handle does what one message asks for. fds are ours now.
func (r *reaper) handle(m wire.Message, fds []int) {
	t := &r.tier2
	if _, hello := m.(*wire.Hello); !hello && !t.greeted {
		r.close(fds)
		r.sayOnce("the supervisor did not say hello first; message dropped")
		return
	}
	// Not only Pong: that may wait behind much else, which we are slow to handle.
	// But one that says all else for long and no Pong is of no use, tier2Timers.
	r.heard()
	switch m := m.(type) {
	case *wire.Spawn:
		r.spawn(m, fds)
		return
	case *wire.Hold:
		r.hold(m.Key, fds)
		return
	}
	r.close(fds)
	switch m := m.(type) {
	case *wire.Hello:
		r.hello(m.Version)
	case *wire.Signal:
		r.signalChild(m)
	case *wire.Acknowledge:
		if c := r.children.byID[m.ID]; c != nil {
			r.step(c, acknowledged)
		}
	case *wire.Deadline:
		r.setExpiry(m)
	case *wire.Release:
		r.release(m.Key)
	case *wire.Pong:
		t.owesPong = 0
	case *wire.StopBegun: // nobody answers what was not asked
		r.stop.begun = r.stop.phase != running
	case *wire.StopDone:
		r.stop.done = r.stop.phase != running
	case *wire.End:
		r.end(int(m.Code))
	default:
		r.sayOnce("the supervisor sent a message that is not for this direction; dropped")
	}
}

func (r *reaper) hello(version uint32) {
	t := &r.tier2
	if version < wire.Version { // it would misunderstand what it is told
		r.sayOnce("the supervisor is older than PID 1, and cannot speak with it; start the container again")
		return
	}
	if t.greeted {
		r.sayOnce("the supervisor said hello twice; dropped")
		return
	}
	t.greeted = true
	t.pingAt = r.now + pingEvery
	t.owed |= owedWelcome
	if r.stop.phase != running {
		t.owed |= owedShutdown
	}
	r.beginSnapshot()
}

// step takes a child through the table.
func (r *reaper) step(c *child, e event) {
	to := table[c.state][e]
	c.state = to.next
	switch to.effect {
	case nothing, impossible, answerNone, answerLater, deliver, deliverLeftover:
	case endStarted, endAll, endLeftover:
		r.beginEnd(c)
	case dropMessage:
		r.sayOnce("the supervisor used a spawn id twice; dropped")
	case begin:
		r.children.add(c)
	case oweFailed:
		if r.children.byID[c.id] == nil {
			r.children.add(c)
		}
		r.children.owe(c, owedFailed)
	case oweSpawned:
		r.children.owe(c, owedSpawned)
	case killStuck:
		r.children.owe(c, owedStuck)
	case oweExited:
		r.children.owe(c, owedExited)
	case forget:
		r.children.remove(c)
		r.leaves.leave(c.tag, &r.children)
	}
}

// signalChild sends a signal to what is left of a child, and answers.
func (r *reaper) signalChild(m *wire.Signal) {
	answer := wire.Signalled{ID: m.ID, Scope: m.Scope}
	c := r.children.byID[m.ID]
	if c == nil {
		answer.Errno = int32(unix.ESRCH)
		if t := &r.tier2; len(t.strangers) < mostStrangers {
			t.strangers = append(t.strangers, answer)
		}
		return
	}
	switch effect := table[c.state][signalled].effect; {
	case m.Signal < 0 || m.Signal > 64:
		answer.Errno = int32(unix.EINVAL)
	case effect == answerLater:
		answer.Errno = int32(unix.EAGAIN)
	case effect == deliver:
		r.deliver(c, m, &answer)
	case effect == deliverLeftover && m.Scope != wire.ScopeMain:
		r.deliverOrphans(c, m.Signal, &answer)
	default:
		answer.Errno = int32(unix.ESRCH)
	}
	c.answers[m.Scope] = answer
	r.children.owe(c, owedSignalled<<m.Scope)
}

// deliver signals a child that is alive.
func (r *reaper) deliver(c *child, m *wire.Signal, answer *wire.Signalled) {
	if m.Scope == wire.ScopeLeftover {
		r.deliverOrphans(c, m.Signal, answer)
		return
	}
	target := c.pid
	if m.Scope == wire.ScopeGroup {
		target = -c.pid
	}
	if answer.Errno = int32(r.kill(target, m.Signal, c.user)); answer.Errno == 0 {
		answer.Count = 1
	}
}

// deliverOrphans signals what a child has left behind. No pid among them can
// have been given to another process: only this goroutine collects.
func (r *reaper) deliverOrphans(c *child, signal int32, answer *wire.Signalled) {
	if signal == sys.SIGKILL && c.state == exited {
		r.killLeaf(c) // what is no orphan yet, too
	}
	for _, pid := range r.leftovers(c) {
		if errno := r.kill(pid, signal, c.user); errno == 0 {
			answer.Count++
		} else if errno != unix.ESRCH {
			answer.Errno = int32(errno)
		}
	}
	if answer.Count == 0 && answer.Errno == 0 {
		answer.Errno = int32(unix.ESRCH)
	}
}

// hold keeps descriptors under a key, in place of what was there.
func (r *reaper) hold(key string, fds []int) {
	if len(fds) == 0 {
		r.release(key)
		return
	}
	more := len(fds) - len(r.held[key])
	_, known := r.held[key]
	if key == "" || len(key) > longestKey || !known && len(r.held) >= mostKeys || r.crowded(more) {
		r.close(fds)
		r.notHeld(key)
		return
	}
	r.release(key)
	r.held[key] = fds
	r.heldFDs += len(fds)
}

// notHeld notes whose descriptors could not be kept. What is started with them
// would lose its log at the next end of tier 2, and die of that: it is not
// started, see room.
func (r *reaper) notHeld(key string) {
	r.sayOnce("no more descriptors can be held for services (limit " + decimal(r.place.mostHeld) +
		"): what needs them is not started; raise --ulimit nofile")
	if name := serviceOf(key); name != "" && len(r.unheld) < mostUnheld {
		r.unheld[key] = name
	}
}

// mostUnheld bounds what notHeld remembers. Before that many services could not
// be held, the table of them is full.
const mostUnheld = 1 << 12

// serviceOf is the service that a key is about: the part after the first slash,
// up to the next one.
func serviceOf(key string) string {
	for i := 0; i < len(key); i++ {
		if key[i] != '/' {
			continue
		}
		name := key[i+1:]
		for j := 0; j < len(name); j++ {
			if name[j] == '/' {
				return name[:j]
			}
		}
		return name
	}
	return ""
}

// room refuses the spawn of a service of which something could not be held.
func (r *reaper) room(name string) *refusal {
	for _, of := range r.unheld {
		if of == name {
			return &refusal{wire.StepPolicy, unix.EMFILE, "PID 1 cannot hold more descriptors (" + decimal(r.place.mostHeld) +
				" of them), and without its log it would not survive the end of the supervisor; raise --ulimit nofile"}
		}
	}
	return nil
}

// crowded tells whether so many descriptors more are too many: those that we
// need ourselves, for the next tier 2 above all, shall always be there.
func (r *reaper) crowded(more int) bool {
	return more > 0 && r.heldFDs+len(r.children.byID)+more > r.place.mostHeld
}

func (r *reaper) release(key string) {
	delete(r.unheld, key)
	r.close(r.held[key])
	r.heldFDs -= len(r.held[key])
	delete(r.held, key)
}

// raiseOOMScore sets a process's score from outside. Where we are not root that
// is the only way, for our own /proc files are root's as long as we cannot be
// dumped, and a child shares that until it executes its program.
func (r *reaper) raiseOOMScore(pid int32, score []byte) {
	if r.place.root || len(score) == 0 {
		return
	}
	fd, err := unix.Open("/proc/"+decimal(int(pid))+"/oom_score_adj", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	sys.Write(int32(fd), score)
	unix.Close(fd)
}
