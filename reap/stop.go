package reap

import (
	"rlminit/reap/sys"
)

// Times of the end of a container, in ns.
const (
	defaultBudget = 9e9    // docker stop gives 10 s
	begunWithin   = 1e9    // tier 2 says StopBegun, or tier 1 stops all itself
	hurryWithin   = 1e9    // the time after a second TERM
	releaseAfter  = 500e6  // tier 2 exits by itself after StopDone
	killAgain     = 100e6  // SIGKILL is sent again to processes forked meanwhile
	giveUpAfter   = 1000e6 // after the first SIGKILL: processes that the kernel holds
	mostMargin    = 500e6  // between tier 2's deadline and ours
)

type phase uint8

const (
	running  phase = iota
	stopping       // everybody was asked
	killing        // SIGKILL was sent
)

// stop is the end of the container: who is asked and when, who is killed, and which
// code it ends with.
//
// Invariant: phase only grows, and over is set in no other than killing, or with
// nobody left. What follows it is of use from stopping on.
type stop struct {
	phase      phase
	over       bool
	budget     int64 // ns
	mainSignal int32
	code       int // that tier 2 asked for; -1: none

	deadline      int64 // CLOCK_MONOTONIC: SIGKILL to the rest
	tier2Deadline int64 // CLOCK_BOOTTIME, and somewhat earlier
	begunBy       int64
	begun, done   bool // said by tier 2
	termSent      bool // by us, to everything
	released      int64
	killAt        int64
	giveUpAt      int64

	everyone everyone
	pair     *pair
}

// term answers TERM and INT: the first begins the end, the second leaves
// it one more second, the third none.
func (s *stop) term(now int64) {
	switch {
	case s.phase == running:
		s.begin(now)
	case s.phase == stopping && s.deadline-now > hurryWithin:
		s.setDeadline(now+hurryWithin, now)
	default:
		s.quit(now)
	}
}

// quit answers QUIT.
func (s *stop) quit(now int64) {
	s.begin(now)
	if s.phase == stopping {
		s.beginKill(now)
	}
}

// end answers that tier 2 wants the container to end, rlminit shutdown.
func (s *stop) end(code int, now int64) {
	if s.code < 0 {
		s.code = code
	}
	s.begin(now)
}

// begin asks everybody to end: tier 2 to stop the services in their order,
// and the main command.
func (s *stop) begin(now int64) {
	if s.phase != running {
		return
	}
	s.phase = stopping
	s.begunBy = now + begunWithin
	s.setDeadline(now+s.budget, now)
	s.everyone.main.beginStop(s.mainSignal)
	if !s.pair.connected() {
		s.termAll()
	}
}

// setDeadline sets the end of the budget, and tells tier 2 one that leaves us
// the time to see what came of it.
func (s *stop) setDeadline(at, now int64) {
	s.deadline = at
	left := at - now
	s.tier2Deadline = sinceBoot() + left - min(left/10, mostMargin)
	s.pair.shutdown(s.tier2Deadline)
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

func (s *stop) look(now int64) {
	if s.phase != running {
		s.everyone.tier2.restartAt = never // or the loop would wake for it, and not sleep again
	}
	switch s.phase {
	case stopping:
		if !s.termSent && !s.done && (!s.begun && now >= s.begunBy || s.everyone.tier2.pid == 0 && !s.everyone.tier2.spawning) {
			s.termAll() // tier 2 is silent or gone
		}
		if s.done || s.termSent {
			s.release(now)
		}
		if now >= s.deadline {
			s.beginKill(now)
		}
	case killing:
		if now >= s.giveUpAt {
			s.over = true
		} else if now >= s.killAt {
			s.kill(now)
		}
	}
}

// release ends tier 2 when it has nothing left to do: its services are
// stopped, and so is main; or, where it never said so, it is the last process.
func (s *stop) release(now int64) {
	switch {
	case s.everyone.main.pid != 0 || s.everyone.main.spawning:
		return
	case s.done:
	case s.termSent && s.everyone.tier2.pid != 0 && s.everyone.onlyTier2():
		s.done, s.released = true, never
		s.everyone.tier2.kill()
		return
	default:
		return
	}
	if s.released == 0 {
		s.released = now + releaseAfter
		s.termAll() // what main and the services have left behind
		s.pair.disconnect()
	} else if s.released != never && now >= s.released {
		s.released = never
		s.everyone.tier2.kill()
	}
}

// termAll asks every process of ours but tier 2 to end, and wakes the stopped.
// Without /proc nobody knows the orphans, but as PID 1 all there is can be asked,
// once tier 2 is done.
func (s *stop) termAll() {
	s.termSent = true
	if s.done && s.everyone.signaller.place.pid == 1 && !s.everyone.orphans.known {
		sys.Kill(-1, sys.SIGTERM)
		sys.Kill(-1, sys.SIGCONT)
	}
	s.everyone.signal(sys.SIGTERM)
	s.everyone.signal(sys.SIGCONT)
}

// beginKill ends the patience.
func (s *stop) beginKill(now int64) {
	s.phase = killing
	s.giveUpAt = now + giveUpAfter
	s.kill(now)
}

// check ends the loop with the last process.
func (s *stop) check() {
	s.over = s.over || s.phase != running && childless()
}

// exitCode is the main command's, or what tier 2 asked for where there is none
// or a service is in its place.
func (s *stop) exitCode() int {
	s.everyone.main.terminal.Restore()
	if m := s.everyone.main; m.wanted && (s.code < 0 || !m.policy.ExitOn) {
		return m.code
	}
	return max(s.code, 0)
}

// kill sends SIGKILL to all there is.
func (s *stop) kill(now int64) {
	s.killAt = now + killAgain
	s.everyone.killAll()
}
