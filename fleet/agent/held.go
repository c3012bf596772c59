package agent

import "cmp"

// Phase is how far a profile is at this member.
type Phase uint8

// The phases. Only from Preparing to Running is anything started.
const (
	Claiming  Phase = iota // a claim was sent; nobody has answered yet
	Found                  // the box had it when the agent began
	Preparing              // its data and its definition are put in place
	Starting               // the box was told to start it
	Running                // the box runs it, until its deadline
	Stopping               // the box was told to stop it
	Saving                 // it is stopped, and its data is stored
	Releasing              // the claim is to be deleted
)

var phases = [...]string{"claiming", "found", "preparing", "starting", "running", "stopping", "saving", "releasing"}

func (p Phase) String() string { return phases[p] }

// Held is a profile that this member has, or is about to have.
type Held struct {
	Name  string
	Fence int64 // 0: it is Claiming
	Phase Phase
	Why   string // it ends

	profile Profile // that was prepared
	since   int64   // of the phase
	asked   int64   // when what the phase needs was asked for; 0: it is to be
	again   int64   // not before then
	gone    int64   // when PID 1 has ended whatever a start that was sent can have begun (R6)
	ran     bool    // it has data that is not stored
	saved   int64   // when its data was asked to be stored
	steady  bool    // the back-off was taken back

	check  bool  // it is to be looked at
	wakeAt int64 // and then; 0: only if something happens

	release bool // the claim is to be given back; else it is gone already
	restart bool // it is to be prepared anew once it is stopped
	drained bool // it goes since the member is drained
}

// to enters a phase.
func (h *Held) to(a *Agent, p Phase) {
	a.phases[h.Phase]--
	a.phases[p]++
	h.Phase, h.since, h.asked, h.again, h.check = p, a.now, 0, 0, true
}

// later has what the phase needs asked for again.
func (h *Held) later(a *Agent, in int64) { h.asked, h.again, h.check = 0, a.now+in, true }

// lost is told that the claim is gone, or soon will be.
func (h *Held) lost(a *Agent) {
	switch {
	case h.Phase == Claiming || h.Phase == Releasing:
		h.drop(a)
		return
	case h.Phase != Stopping:
		h.to(a, Stopping)
	}
	h.Why, h.release, h.restart = "its claim is gone", false, false
	a.over[h.Name] = max(a.over[h.Name], h.Fence)
}

// give stops it and gives the claim back.
func (h *Held) give(a *Agent, why string) {
	if h.Phase == Stopping && !h.restart || h.Phase > Stopping {
		return
	}
	h.Why, h.release, h.restart = why, true, false
	h.to(a, Stopping)
}

// drop forgets it. Nothing is started under its fence any more (R5).
func (h *Held) drop(a *Agent) {
	a.forget(h)
	a.over[h.Name] = max(a.over[h.Name], h.Fence)
	if o, ok := a.view.Owners[h.Name]; ok {
		a.owned(h.Name, o) // a claim whose answer was lost has come through
	}
	a.vacate(h.Name)
}

// forget takes it out of what is held.
func (a *Agent) forget(h *Held) {
	delete(a.held, h.Name)
	a.phases[h.Phase]--
	if h.drained {
		a.drained--
		for _, other := range a.held {
			other.check = true // the next may go
		}
	}
}

// found decides about what the box ran when the agent began. What runs under a claim of
// the session goes on: no release of it can be under way, for none is sent while anything
// may run (R5).
func (h *Held) found(a *Agent) {
	o := a.view.Owners[h.Name]
	if a.session.lease == 0 || o.Lease != a.session.lease || o.Fence != h.Fence {
		h.lost(a)
		return
	}
	h.profile, h.ran, h.gone, h.saved = a.view.Profiles[h.Name], true, a.quiet, a.now
	h.to(a, Running)
}

// answer takes what came of an effect.
func (h *Held) answer(a *Agent, in Input) {
	switch {
	case in.Kind == Prepared && h.Phase == Preparing:
		if in.Failed {
			a.fail(h, in.Text)
			return
		}
		h.to(a, Starting)
	case in.Kind == Started && h.Phase == Starting:
		h.started(a, in)
	case in.Kind == Stopped && h.Phase == Stopping:
		if in.Failed {
			h.later(a, retry)
			return
		}
		h.stopped(a)
	case in.Kind == Saved && h.Phase == Saving:
		if in.Failed {
			a.say("%s: its data cannot be stored, and it is not released: %s", h.Name, in.Text)
			h.later(a, 5*retry)
			return
		}
		h.to(a, Releasing)
	case in.Kind == Released && h.Phase == Releasing:
		if in.Failed {
			h.later(a, retry)
			return
		}
		h.drop(a)
	}
}

func (h *Held) started(a *Agent, in Input) {
	switch in.Outcome {
	case OK:
		h.ran, h.saved, h.steady = true, a.now, false
		h.to(a, Running)
		a.do(Effect{Kind: Report, Name: h.Name, Fence: h.Fence, Lease: a.session.lease, Revision: h.profile.Revision})
		h.moved(a)
	case Late, Lost:
		h.later(a, retry)
	case Refused:
		a.fail(h, in.Text)
	}
}

// moved takes back a move to this member, since it is done or cannot be.
func (h *Held) moved(a *Agent) {
	if m, ok := a.view.Moves[h.Name]; ok && m.To == a.config.Member {
		a.do(Effect{Kind: Moved, Name: h.Name, Revision: m.Revision})
	}
}

// stays tells whether somebody has sent it back to this member before it was released. Its
// data need not be stored then: it is here.
func (h *Held) stays(a *Agent) bool {
	p, declared := a.view.Profiles[h.Name]
	return declared && !p.Stopped && !a.leaving && !h.drained && a.view.Moves[h.Name].To == a.config.Member && a.view.takes(a.config.Member, h.Name)
}

// stopped goes on, since the box has said that nothing is left.
func (h *Held) stopped(a *Agent) {
	switch {
	case h.restart:
		h.restart = false
		h.to(a, Preparing)
	case !h.release:
		h.drop(a)
	case h.ran:
		h.to(a, Saving)
	default:
		h.to(a, Releasing)
	}
}

// decide asks for what the phase needs.
func (h *Held) decide(a *Agent) {
	h.check, h.wakeAt = false, 0
	if h.Phase > Claiming && h.Phase <= Running {
		h.reconsider(a)
	}
	switch {
	case h.Phase <= Found:
	case h.Phase == Saving && h.asked == 0 && h.stays(a):
		h.to(a, Preparing)
		h.ask(a)
	case h.Phase == Running:
		h.watch(a)
	case h.again > a.now:
		h.wakeAt = h.again
	case h.asked == 0:
		h.ask(a)
	}
	h.check = false
}

// ask sends the effect of a phase.
func (h *Held) ask(a *Agent) {
	e := Effect{Name: h.Name, Fence: h.Fence}
	switch h.Phase {
	case Preparing:
		h.profile = a.view.Profiles[h.Name]
		e.Kind, e.Profile, e.Restore = Prepare, h.profile, !h.ran
	case Starting:
		e.Kind, e.At = Start, a.session.deadline(a)
		if a.now >= e.At {
			h.wakeAt = a.now + retry // a keep-alive may be confirmed until then
			return
		}
		h.gone = max(h.gone, e.At+a.config.Stop)
	case Stopping:
		e.Kind = Stop
	case Saving:
		e.Kind = Save
	case Releasing:
		if a.now <= h.gone { // (R6)
			h.wakeAt = h.gone + 1
			return
		}
		e.Kind = Release
	}
	h.asked = a.now
	a.do(e)
}

// watch does what is due while it runs.
func (h *Held) watch(a *Agent) {
	if !h.steady {
		if at := h.since + steady; a.now < at {
			h.wakeAt = at
		} else {
			h.steady = true
			if _, ok := a.view.Backoffs[h.Name]; ok {
				a.do(Effect{Kind: Recover, Name: h.Name})
			}
		}
	}
	if a.config.Every > 0 {
		if at := h.saved + a.config.Every; a.now < at {
			h.wakeAt = min(at, cmp.Or(h.wakeAt, at))
		} else {
			h.saved = a.now
			h.wakeAt = min(a.now+a.config.Every, cmp.Or(h.wakeAt, never))
			a.do(Effect{Kind: Save, Name: h.Name, Fence: h.Fence})
		}
	}
}

// reconsider ends it if it is not to run here any more.
func (h *Held) reconsider(a *Agent) {
	p, declared := a.view.Profiles[h.Name]
	m, moves := a.view.Moves[h.Name]
	drain, drains := a.view.Drains[a.config.Member]
	switch {
	case a.leaving:
		h.give(a, "the agent is to end")
	case !declared:
		h.give(a, "it is not declared any more")
	case p.Stopped:
		h.give(a, "it is to be stopped")
	case moves && m.To != a.config.Member && a.view.takes(m.To, h.Name):
		h.give(a, "it moves to "+m.To)
	case drains && a.drained < max(drain.Limit, 1):
		h.drained = true
		a.drained++
		h.give(a, "the member is drained")
	case p.Revision != h.profile.Revision && h.Phase == Running:
		h.Why, h.restart, h.release = "its declaration has changed", true, true
		h.to(a, Stopping)
	case p.Revision != h.profile.Revision && h.Phase == Starting && h.asked == 0:
		h.to(a, Preparing)
	}
}
