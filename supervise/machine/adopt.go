package machine

import "time"

// adoptGrace is the least time that a new supervisor waits for READY=1 of a
// service, whose message may still be unread in its socket.
const adoptGrace = 5 * time.Second

// adoption reconciles a State that another supervisor left with what tier 1
// reports. The State may be older than that, or newer, since it is stored before
// its actions are carried out. The timer and the probes of the old supervisor are
// gone.
type adoption struct {
	*call
	state *State
	life  life
}

func (a *adoption) reconcile() {
	s, e := a.state, &a.event
	s.Probing = ""
	a.cause = "the supervisor was replaced"
	if same := e.ID == s.ID; e.Child != ChildNone && (same || e.Child != ChildExited) { // tier 1 has the last word
		if s.Lease.At = e.Lease.At; !same {
			s.Lease.Fence = "" // nobody knows it
		}
	}
	if s.Removed {
		s.Want = WantDown
	} else if e.SetWant && s.Want != e.Want {
		s.Want = e.Want
		s.StartAgain = s.Want == WantUp && (s.Phase == Stopping || s.Phase == Sweeping)
	}
	switch same := e.ID == s.ID && s.ID != 0; e.Child {
	case ChildPending:
		a.pending(same)
	case ChildAlive:
		a.alive(same)
	case ChildExited:
		if !same && e.ID <= s.LastID && e.Leftovers <= 0 { // that run is over, and tier 1 was not told
			a.do(Action{Kind: Acknowledge, ID: e.ID})
			a.none()
			return
		}
		a.exited(same)
	default:
		a.none()
	}
}

// none: tier 1 has no process, no exit and no spawn of it.
func (a *adoption) none() {
	s := a.state
	s.ID = 0
	switch s.Phase {
	case Stopped, Gone:
		if s.Want == WantUp && !s.Removed {
			a.life.launch()
		}
	case Waiting, Backoff, Failed, Exited:
		switch {
		case s.Want == WantDown:
			a.life.becomeStopped()
		case s.Phase == Waiting && s.Blocked == "":
			a.life.launch()
		}
	case Starting, Running, Stopping:
		// Its exit was acknowledged, and the State after it was not stored.
		a.event.Leftovers = 0
		a.life.processEnded(Exit{Lost: true, Wall: a.event.Wall})
	case Sweeping: // likewise, after all leftovers were gone
		a.life.finish()
	default:
		// In Spawning and Parked: the request got lost, or it failed while no
		// supervisor ran. Or it is a phase of another version.
		if s.Want == WantDown {
			a.life.becomeStopped()
		} else {
			a.life.launch()
		}
	}
}

// pending: tier 1 has not finished a spawn.
func (a *adoption) pending(same bool) {
	s := a.state
	if same && s.asked() {
		s.Adopted = true
		return
	}
	a.takeOver()
	a.life.enter(Spawning)
	s.Deadlines.Spawn = a.event.after(spawnAnswer)
}

// takeOver makes the spawn of the event the current one, with an empty Run.
func (a *adoption) takeOver() {
	s := a.state
	s.Run = Run{ID: a.event.ID, Process: Process{Adopted: true}}
	s.LastID = max(s.LastID, s.ID)
	s.NoRetry = false
	a.reason = ""
}

// alive: its main process lives. It is the one that the State knows if same is true.
func (a *adoption) alive(same bool) {
	s := a.state
	switch {
	case same && s.Alive():
		s.PID, s.StartTime = a.event.PID, a.event.StartTime
		s.Adopted = true
		a.resume()
		return
	case same && s.asked():
		s.Adopted = true
	default:
		a.takeOver()
		a.life.enter(Spawning)
	}
	a.life.begin(a.event.startedAt())
	a.giveGrace()
}

// resume continues a run that the State knows.
func (a *adoption) resume() {
	s := a.state
	switch {
	case s.Phase == Stopping:
		if s.Want == WantDown && s.StopBy == StopSelf {
			a.life.stop(StopCommand, "")
		}
	case s.Want == WantDown:
		a.life.stop(StopCommand, "")
	case s.Phase == Starting:
		at := s.Deadlines.Ready
		a.life.watch.untilReady()
		s.Deadlines.Ready = max(s.Deadlines.Ready, at)
		a.giveGrace()
	case s.Phase == Running:
		s.Fails = 0
		a.life.watch.begin()
	}
}

// giveGrace moves the deadline for readiness: what the service sent while no
// supervisor listened is in its socket and has not been read yet.
func (a *adoption) giveGrace() { a.life.watch.extendReady(a.event.after(adoptGrace)) }

// exited: its main process has ended, and the exit is not acknowledged.
func (a *adoption) exited(same bool) {
	s := a.state
	if same && s.Phase == Sweeping {
		s.Leftovers = a.event.Leftovers
		if s.Leftovers <= 0 {
			a.life.finish()
		} else {
			a.life.ending.sweepAgain()
		}
		return
	}
	if !same {
		a.takeOver()
	}
	if !same || !s.Alive() {
		s.History.countStart(a.event.startedAt(), &a.policy)
	}
	a.life.processEnded(a.event.exit(s.Killed))
}
