package reap

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/footprint"
	"rlminit/reap/sys"
	"rlminit/reap/threads"
	"rlminit/wire"
)

// Bounds on what tier 2 may ask for.
const (
	messagesPerTurn = 64   // the rest waits: a flood must not starve the signals
	turnTime        = 20e6 // ns; likewise
	longestName     = 128
	mostArguments   = 4 << 20 // bytes of a command and its environment
	mostPlaces      = 255     // colons in a PATH: where a program is looked for
	mostLimits      = 16      // as many as there are, RLIM_NLIMITS
	mostAhead       = 1 << 20 // of the next spawn's id: they shall not run out
)

// receive handles what tier 2 has sent.
func (r *reaper) receive() {
	p := &r.pair
	if !r.place.fewFDs {
		r.held.closer.fill()
	}
	for n := range messagesPerTurn {
		if p.socket < 0 || r.deaf() || n > 0 && monotonic()-r.now > turnTime {
			return
		}
		m, fds, err := p.receiver.Receive(p.socket)
		switch err {
		case nil:
			wire.Each(m, fds, func(m wire.Message, fds []int) {
				r.pair.budget.spend(r.now, m)
				survive(&r.voice, &r.sweep, func() { r.handle(m, fds) }) // the rest of a bundle is done
			})
		case wire.ErrEmpty:
			return
		case wire.ErrClosed:
			r.letGo()
			return
		default:
			r.voice.Once("the supervisor sent what is no message; dropped")
		}
	}
}

// deaf tells whether nothing more is read of tier 2 for now: enough of what it
// asked for waits, or it asks for more than a sane one would.
func (r *reaper) deaf() bool {
	return r.threads.Loaded() || r.pair.budget.empty(r.now) || len(r.held.closer.left) > threads.MostQueuedFDs
}

// letGo gives up a tier 2 that has closed its socket, without which it is of no
// use.
func (r *reaper) letGo() {
	r.pair.disconnect()
	if !r.tier2.spawning && r.stop.phase == running {
		r.tier2.kill()
	}
}

// handle does what one message asks for. fds are ours now.
func (r *reaper) handle(m wire.Message, fds []int) {
	if _, hello := m.(*wire.Hello); !hello && !r.pair.greeted {
		r.held.closer.close(fds)
		r.voice.Once("the supervisor did not say hello first; message dropped")
		return
	}
	// Not only Pong: that may wait behind much else, which we are slow to handle.
	// But one that says all else for long and no Pong is of no use, tier2.look.
	if r.tier2.heard(r.now) {
		r.events.Change(int32(r.commands.listener), sys.Readable|sys.OneShot, keyControl)
	}
	switch m := m.(type) {
	case *wire.Spawn:
		r.spawn(m, fds)
		return
	case *wire.Hold:
		r.held.hold(m.Key, fds)
		return
	}
	r.held.closer.close(fds)
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
		r.sweep = r.deadlines.set(m) || r.sweep // passed deadlines come after this
	case *wire.Release:
		if r.held.release(m.Key); m.Key == wire.BootStepsKey { // tier 2 is through with a boot or a takeover
			r.tier2.booted = true
			r.tier2.rest.Reset(footprint.After)
		}
	case *wire.Pong:
		r.tier2.pulse.owesPong = 0
	case *wire.StopBegun: // an answer without a request is none
		r.stop.begun = r.stop.phase != running
	case *wire.StopDone:
		r.stop.done = r.stop.phase != running
	case *wire.End:
		r.stop.end(int(m.Code), r.now)
	default:
		r.voice.Once("the supervisor sent a message that is not for this direction; dropped")
	}
}

func (r *reaper) hello(version uint32) {
	switch {
	case version < wire.Version: // it would misunderstand our messages
		r.voice.Once("the supervisor is older than PID 1, and cannot speak with it; start the container again")
		return
	case r.pair.greeted:
		r.voice.Once("the supervisor said hello twice; dropped")
		return
	}
	r.tier2.pulse.at = r.now + pingEvery
	r.pair.greet(wire.Welcome{
		Tags: r.place.tags, Stopping: r.stop.phase != running, Terminal: r.policy.Supervised && r.main.terminal.Found(),
	})
	if r.stop.phase != running {
		r.pair.shutdown(r.stop.tier2Deadline)
	}
}

// step takes a child through the table.
func (r *reaper) step(c *child, e event) {
	to := table[c.state][e]
	c.state = to.next
	switch to.effect {
	case nothing, impossible, answerNone, answerLater, deliver, deliverLeftover:
	case endStarted, endAll, endLeftover:
		if c.state == alive && c.expiry.phase == notDue {
			r.childEnded(c) // it may have ended in time
		}
		r.deadlines.begin(c, r.now)
	case dropMessage:
		r.voice.Once("the supervisor used a spawn id twice; dropped")
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
		r.deadlines.spare(c)
		r.children.remove(c)
		r.leaves.Leave(c.tag)
	}
}

// signalChild sends a signal to the rest of a child, and answers.
func (r *reaper) signalChild(m *wire.Signal) {
	answer := wire.Signalled{ID: m.ID, Scope: m.Scope}
	c := r.children.byID[m.ID]
	if c == nil {
		answer.Errno = int32(unix.ESRCH)
		r.pair.answer(answer)
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
	if answer.Errno = int32(r.signaller.kill(target, m.Signal, c.user)); answer.Errno == 0 {
		answer.Count = 1
	}
}

// deliverOrphans signals the leftovers of a child. No pid among them can
// have been given to another process: only this goroutine collects.
func (r *reaper) deliverOrphans(c *child, signal int32, answer *wire.Signalled) {
	if signal == sys.SIGKILL && c.state == exited {
		r.leaves.Kill(c.tag) // processes that are no orphans yet, too
	}
	for _, pid := range r.orphans.leftovers(c) {
		if errno := r.signaller.kill(pid, signal, c.user); errno == 0 {
			answer.Count++
		} else if errno != unix.ESRCH {
			answer.Errno = int32(errno)
		}
	}
	if answer.Count == 0 && answer.Errno == 0 {
		answer.Errno = int32(unix.ESRCH)
	}
}
