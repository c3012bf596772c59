package reap

import (
	"rlminit/reap/sys"
)

// Times of the end of a container, in ns.
const (
	defaultBudget = 9e9    // docker stop gives 10 s
	begunWithin   = 1e9    // tier 2 says StopBegun, or tier 1 stops all itself
	hurryWithin   = 1e9    // what a second TERM leaves
	releaseAfter  = 500e6  // tier 2 exits by itself after StopDone
	killAgain     = 100e6  // SIGKILL is sent again to what was forked meanwhile
	giveUpAfter   = 1000e6 // after the first SIGKILL: what a kernel holds on to
	mostMargin    = 500e6  // between tier 2's deadline and ours
)

type phase uint8

const (
	running  phase = iota
	stopping       // everybody was asked
	killing        // SIGKILL was sent
)

// stop is the end of the container.
type stop struct {
	phase      phase
	over       bool
	budget     int64 // ns
	mainSignal int32
	code       int // that tier 2 asked for; -1: none

	deadline      int64 // CLOCK_MONOTONIC: SIGKILL to what is left
	tier2Deadline int64 // CLOCK_BOOTTIME, and somewhat earlier
	begunBy       int64
	begun, done   bool // said by tier 2
	termSent      bool // by us, to everything
	released      int64
	killAt        int64
	giveUpAt      int64
}

// stopOrHurry answers TERM and INT: the first begins the end, the second leaves
// it one more second, the third none.
func (r *reaper) stopOrHurry() {
	s := &r.stop
	switch {
	case s.phase == running:
		r.beginStop()
	case s.phase == stopping && s.deadline-r.now > hurryWithin:
		r.setDeadline(r.now + hurryWithin)
	default:
		r.stopAtOnce()
	}
}

// stopAtOnce answers QUIT.
func (r *reaper) stopAtOnce() {
	r.beginStop()
	if r.stop.phase == stopping {
		r.beginKill()
	}
}

// end answers that tier 2 wants the container to end, rlminit shutdown.
func (r *reaper) end(code int) {
	if r.stop.code < 0 {
		r.stop.code = code
	}
	r.beginStop()
}

// beginStop asks everybody to end: tier 2 to stop the services in their order,
// and the main command.
func (r *reaper) beginStop() {
	s := &r.stop
	if s.phase != running {
		return
	}
	s.phase = stopping
	s.begunBy = r.now + begunWithin
	r.setDeadline(r.now + s.budget)
	r.main.beginStop(s.mainSignal)
	if !r.pair.connected() {
		r.termAll()
	}
}

// setDeadline sets the end of the budget, and tells tier 2 one that leaves us
// the time to see what came of it.
func (r *reaper) setDeadline(at int64) {
	s := &r.stop
	s.deadline = at
	left := at - r.now
	s.tier2Deadline = sinceBoot() + left - min(left/10, mostMargin)
	r.pair.shutdown(s.tier2Deadline)
}

func (s *stop) next() int64 {
	switch {
	case s.phase == stopping && !s.begun && !s.termSent:
		return min(s.begunBy, s.deadline)
	case s.phase == stopping && s.released != 0:
		return min(s.released, s.deadline)
	case s.phase == stopping:
		return s.deadline
	case s.phase == killing:
		return min(s.killAt, s.giveUpAt)
	}
	return never
}

func (r *reaper) stopTimers() {
	s := &r.stop
	if s.phase != running {
		r.tier2.restartAt = never // or the loop would wake for it, and not sleep again
	}
	switch s.phase {
	case stopping:
		if !s.termSent && !s.done && (!s.begun && r.now >= s.begunBy || r.tier2.pid == 0 && !r.tier2.spawning) {
			r.termAll() // tier 2 is silent or gone
		}
		if s.done || s.termSent {
			r.release2()
		}
		if r.now >= s.deadline {
			r.beginKill()
		}
	case killing:
		if r.now >= s.giveUpAt {
			s.over = true
		} else if r.now >= s.killAt {
			r.killAll()
		}
	}
}

// release2 ends tier 2 when it has nothing left to do: its services are
// stopped, and so is main; or, where it never said so, it is the last process.
func (r *reaper) release2() {
	s := &r.stop
	switch {
	case r.main.pid != 0 || r.main.spawning:
		return
	case s.done:
	case s.termSent && r.tier2.pid != 0 && r.onlyTier2():
		s.done, s.released = true, never
		r.tier2.kill()
		return
	default:
		return
	}
	if s.released == 0 {
		s.released = r.now + releaseAfter
		r.termAll() // what main and the services have left behind
		r.pair.disconnect()
	} else if s.released != never && r.now >= s.released {
		s.released = never
		r.tier2.kill()
	}
}

// onlyTier2 tells whether no process but tier 2 is left.
func (r *reaper) onlyTier2() bool {
	for c := r.children.first; c != nil; c = c.next {
		if (c.state == alive || c.state == pending) && !touchesFiles(c.name) { // which ends with tier 2
			return false
		}
	}
	for _, pid := range r.orphans.all() {
		if pid != r.tier2.pid {
			return false
		}
	}
	return true
}

// termAll asks every process of ours but tier 2 to end, and wakes the stopped.
// Without /proc nobody knows the orphans, but as PID 1 all there is can be asked,
// once tier 2 is done.
func (r *reaper) termAll() {
	r.stop.termSent = true
	if r.stop.done && r.place.pid == 1 && !r.orphans.known {
		sys.Kill(-1, sys.SIGTERM)
		sys.Kill(-1, sys.SIGCONT)
	}
	r.everyone(sys.SIGTERM)
	r.everyone(sys.SIGCONT)
}

// everyone signals main's group, the groups of all children, and orphans.
func (r *reaper) everyone(signal int32) {
	r.signalPrepare(signal)
	if m := &r.main; m.pid != 0 {
		r.signaller.kill(-m.pid, signal, m.user)
	}
	for c := r.children.first; c != nil; c = c.next {
		if c.pid != 0 && (c.state == alive || c.state == pending) && (!touchesFiles(c.name) || signal == sys.SIGKILL) {
			r.signaller.kill(-c.pid, signal, c.user)
		}
	}
	for _, pid := range r.orphans.all() {
		if pid != r.tier2.pid {
			r.signaller.killUnknown(pid, signal)
		}
	}
}

// beginKill ends the patience.
func (r *reaper) beginKill() {
	s := &r.stop
	s.phase = killing
	s.giveUpAt = r.now + giveUpAfter
	r.killAll()
}

// killAll sends SIGKILL to all there is. Only as PID 1 is that everything in a
// PID namespace of our own; anywhere else it would be everybody's.
func (r *reaper) killAll() {
	r.stop.killAt = r.now + killAgain
	if r.place.pid == 1 && sys.Kill(-1, sys.SIGKILL) == 0 && r.place.kill {
		return
	}
	r.everyone(sys.SIGKILL)
	r.tier2.kill()
	for _, j := range r.threads.jobs {
		if j != nil {
			r.signaller.killJob(j)
		}
	}
}

// checkOver ends the loop with the last process.
func (r *reaper) checkOver() {
	if r.stop.phase != running && !r.stop.over && childless() {
		r.stop.over = true
	}
}

// exitCode is the main command's, or what tier 2 asked for where there is none
// or a service is in its place.
func (r *reaper) exitCode() int {
	r.main.terminal.Restore()
	switch {
	case r.policy.ExitOn && r.stop.code >= 0:
		return r.stop.code
	case r.main.wanted:
		return r.main.code
	case r.stop.code >= 0:
		return r.stop.code
	}
	return 0
}
