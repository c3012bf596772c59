package machine

import "time"

// adoptGrace is the least time that a new supervisor gives a service whose
// sign of life may still lie unread in its socket.
const adoptGrace = 5 * time.Second

// adoption reconciles a State that another supervisor left with what tier 1 says
// is true. The State may be older than the truth or (it is stored before its
// actions are carried out) newer. The timer slot and the probes of the old
// supervisor are gone.
type adoption struct {
	*turn
	state *State
	life  life
}

func (a *adoption) reconcile() {
	s, e := a.state, &a.event
	s.Probing = ""
	a.cause = "the supervisor was replaced"
	if s.Removed {
		s.Want = WantDown
	} else if e.SetWant && s.Want != e.Want {
		s.Want = e.Want
		s.Again = s.Want == WantUp && (s.Phase == Stopping || s.Phase == Sweeping)
	}
	switch same := e.ID == s.ID && s.ID != 0; e.Child {
	case ChildPending:
		a.pending(same)
	case ChildAlive:
		a.alive(same)
	case ChildExited:
		if !same && e.ID <= s.LastID && e.Leftovers <= 0 { // it was settled, and tier 1 was yet to be told
			a.do(Action{Kind: Acknowledge, ID: e.ID})
			a.none()
			return
		}
		a.exited(same)
	default:
		a.none()
	}
}

// none: no process, no exit, no spawn.
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
			a.life.rest()
		case s.Phase == Waiting && s.Blocked == "":
			a.life.launch()
		}
	case Starting, Running, Stopping:
		// Its exit was acknowledged, and the State after it was not stored.
		a.event.Leftovers = 0
		a.life.ended(Exit{Lost: true, Wall: a.event.Wall})
	case Sweeping: // likewise, once all were gone
		a.life.over()
	default:
		// Of Spawning and Parked: the request never came through, or it failed and
		// nobody was there to hear it. Or a phase of some other version.
		if s.Want == WantDown {
			a.life.rest()
		} else {
			a.life.launch()
		}
	}
}

// pending: tier 1 still works on a spawn.
func (a *adoption) pending(same bool) {
	s := a.state
	if same && s.asked() {
		s.Adopted = true
		return
	}
	a.take()
	a.life.enter(Spawning)
	s.Deadlines.Spawn = a.event.after(spawnAnswer)
}

// take makes the spawn of the event the current one, with a clean run.
func (a *adoption) take() {
	s := a.state
	s.Run = Run{ID: a.event.ID, Process: Process{Adopted: true}}
	s.LastID = max(s.LastID, s.ID)
	s.NoRetry = false
	a.reason = ""
}

// alive: its main process lives; the same as the State knows, or another.
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
		a.take()
		a.life.enter(Spawning)
	}
	a.life.begin(a.event.startedAt())
	a.forgive()
}

// resume goes on with a run that the State knows.
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
		a.forgive()
	case s.Phase == Running:
		s.Fails = 0
		a.life.watch.begin()
	}
}

// forgive gives a service time to be heard: what it said while no supervisor
// listened lies in its socket and has not been read yet.
func (a *adoption) forgive() { a.life.watch.notBefore(a.event.after(adoptGrace)) }

// exited: its main process went, and nobody has acknowledged that.
func (a *adoption) exited(same bool) {
	s := a.state
	if same && s.Phase == Sweeping {
		s.Leftovers = a.event.Leftovers
		if s.Leftovers <= 0 {
			a.life.over()
		} else {
			a.life.ending.sweepAgain()
		}
		return
	}
	if !same {
		a.take()
	}
	if !same || !s.Alive() {
		s.History.started(a.event.startedAt(), &a.policy)
	}
	a.life.ended(a.event.exit(s.Killed))
}
