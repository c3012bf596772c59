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
	starts  int     // that may have been sent, and were not refused: there may be data that is not stored
	ran     bool    // a gateway is known to have run under the claim
	saves   saves
	trial   trial
	steady  bool // the back-off was taken back

	due    bool  // it is to be looked at, and is in the agent's list of those
	wakeAt int64 // and then; 0: only if something happens

	release bool // the claim is to be given back; else it is gone already
	restart bool // it is to be prepared anew once it is stopped
	left    bool // the agent before claimed it; it is not started any more
	drained bool // it goes since the member is drained
}

// saves is what becomes of the data of a profile.
type saves struct {
	at      int64  // when the last save was asked for that goes on while it runs
	busy    bool   // it has not been answered
	trouble string // why the last one has failed
}

// trial is what the box was asked about a declaration that has changed.
type trial struct {
	revision int64 // of it; 0: nothing
	again    int64 // it is refused, and asked about again then; 0: it is not answered
}

// to enters a phase.
func (h *Held) to(a *Agent, p Phase) {
	a.phases[h.Phase]--
	a.phases[p]++
	h.Phase, h.since, h.asked, h.again = p, a.now, 0, 0
	h.look(a)
}

// look has it looked at before the step is over, or in the next one if that is being done to
// others.
func (h *Held) look(a *Agent) {
	if !h.due {
		h.due = true
		a.due = append(a.due, h.Name)
	}
}

// later has what the phase needs asked for again.
func (h *Held) later(a *Agent, in int64) {
	h.asked, h.again = 0, a.now+in
	h.look(a)
}

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
			other.look(a) // the next may go
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
	h.profile, h.starts, h.ran, h.gone, h.saves.at = a.view.Profiles[h.Name], 1, true, a.quiet, a.now
	if r := a.view.Reports[h.Name]; r.Fence == h.Fence {
		if h.saves.trouble = r.Trouble; r.Doing == "" && r.Declared != h.profile.Revision {
			h.profile = Profile{Revision: r.Declared} // it was declared anew meanwhile
		}
	}
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
	case in.Kind == Saved:
		h.stored(a, in)
	case in.Kind == Tried && h.Phase == Running:
		h.tried(a, in)
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
		h.ran, h.saves.at, h.steady, h.trial = true, a.now, false, trial{}
		h.to(a, Running)
		h.report(a)
		h.moved(a)
	case Late, Lost:
		h.later(a, retry)
	case Refused:
		h.starts--
		a.fail(h, in.Text)
	case Ended:
		a.fail(h, in.Text)
	}
}

// report has all know that it runs, as which declaration says, and what ails its data.
func (h *Held) report(a *Agent) {
	e := Effect{Kind: Report, Name: h.Name, Fence: h.Fence, Lease: a.session.lease, Text: h.saves.trouble}
	if h.Phase == Running {
		e.Revision = h.profile.Revision
	}
	a.do(e)
}

// stored takes what came of a save. What was saved while it ran is not all that there is
// once it is stopped: that is saved anew.
func (h *Held) stored(a *Agent, in Input) {
	last := h.Phase == Saving && !h.saves.busy
	h.saves.busy = false
	h.look(a)
	trouble := ""
	if in.Failed {
		trouble = cmp.Or(in.Text, "nobody knows why")
	}
	if before := h.saves.trouble; trouble != before && (h.Phase == Running || last) {
		h.saves.trouble = trouble
		if trouble != "" {
			a.say("%s: its data cannot be stored: %s; it is tried again", h.Name, trouble)
		} else {
			a.say("%s: its data is stored again", h.Name)
		}
		h.report(a)
	}
	switch {
	case last && in.Failed:
		h.later(a, 5*retry)
	case last:
		h.to(a, Releasing)
	case in.Failed && h.Phase == Running:
		h.saves.at = a.now - a.config.Every + min(a.config.Every, steady)
	}
}

// moved takes back a move to this member, since it is done or cannot be.
func (h *Held) moved(a *Agent) {
	if m, ok := a.view.Moves[h.Name]; ok && m.To == a.config.Member {
		a.do(Effect{Kind: Moved, Name: h.Name, Revision: m.Revision})
	}
}

// stays tells whether somebody has sent it back to this member before it was released. Its
// data need not be stored then: it is here. A claim of the agent before does not stay, since
// that agent may have sent a release of it.
func (h *Held) stays(a *Agent) bool {
	p, declared := a.view.Profiles[h.Name]
	return declared && !p.Stopped && !a.leaving && !h.drained && !h.left && a.view.Moves[h.Name].To == a.config.Member && a.view.takes(a.config.Member, h.Name)
}

// stopped goes on, since the box has said that nothing is left.
func (h *Held) stopped(a *Agent) {
	switch {
	case h.restart:
		h.restart = false
		h.to(a, Preparing)
	case !h.release:
		h.drop(a)
	case h.starts > 0:
		h.to(a, Saving)
	default:
		h.to(a, Releasing)
	}
}

// decide asks for what the phase needs.
func (h *Held) decide(a *Agent) {
	h.due, h.wakeAt = true, 0
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
	h.due = false
	if h.wakeAt != 0 {
		a.wakeHeld = min(a.wakeHeld, h.wakeAt)
	}
}

// ask sends the effect of a phase.
func (h *Held) ask(a *Agent) {
	e := Effect{Name: h.Name, Fence: h.Fence}
	switch h.Phase {
	case Preparing:
		h.profile = a.view.Profiles[h.Name]
		e.Kind, e.Profile, e.Restore, e.Lease = Prepare, h.profile, h.starts == 0, a.session.lease
	case Starting:
		e.Kind, e.At = Start, a.session.deadline(a)
		if a.now >= e.At {
			h.wakeAt = a.now + retry // a keep-alive may be confirmed until then
			return
		}
		h.gone = max(h.gone, e.At+a.config.Stop)
		h.starts++
	case Stopping:
		e.Kind = Stop
	case Saving, Releasing:
		switch {
		case a.now <= h.gone: // (R6)
			h.wakeAt = h.gone + 1
			return
		case h.Phase == Releasing:
			e.Kind = Release
		case h.saves.busy:
			return
		default:
			e.Kind, e.Unsure = Save, !h.ran
		}
	}
	h.asked = a.now
	a.do(e)
}

// watch does what is due while it runs.
func (h *Held) watch(a *Agent) {
	if !h.steady {
		if at := h.since + steady; a.now < at {
			h.wakeAt = min(at, cmp.Or(h.wakeAt, at))
		} else {
			h.steady = true
			if _, ok := a.view.Backoffs[h.Name]; ok {
				a.do(Effect{Kind: Recover, Name: h.Name})
			}
		}
	}
	if at := h.trial.again; at > a.now {
		h.wakeAt = min(at, cmp.Or(h.wakeAt, at))
	}
	if a.config.Every == 0 || h.saves.busy {
		return
	}
	if at := h.saves.at + a.config.Every; a.now < at {
		h.wakeAt = min(at, cmp.Or(h.wakeAt, at))
		return
	}
	h.saves.at, h.saves.busy = a.now, true
	a.do(Effect{Kind: Save, Name: h.Name, Fence: h.Fence})
}

// reconsider ends it if it is not to run here any more.
func (h *Held) reconsider(a *Agent) {
	p, declared := a.view.Profiles[h.Name]
	m, moves := a.view.Moves[h.Name]
	drain, drains := a.view.Drains[a.config.Member]
	moves = moves && m.To != a.config.Member && a.view.takes(m.To, h.Name) && !a.view.Full() // nobody could claim it
	drains = drains && a.drained < max(drain.Limit, 1) && !a.view.Full()
	switch {
	case a.leaving:
		h.give(a, "the agent is to end")
	case !declared:
		h.give(a, "it is not declared any more")
	case p.Stopped:
		h.give(a, "it is to be stopped")
	case (moves || drains) && h.Phase == Running && a.now <= h.gone:
		h.wakeAt = h.gone + 1 // it cannot be given back before (R6), and may as well run until then
	case moves:
		h.give(a, "it moves to "+m.To)
	case drains:
		h.drained = true
		a.drained++
		h.give(a, "the member is drained")
	case p.Revision != h.profile.Revision && h.Phase == Running:
		h.changed(a, p)
	case p.Revision != h.profile.Revision && h.Phase == Starting && h.asked == 0:
		h.to(a, Preparing)
	}
}

// changed has the box look at a declaration that has changed: what it would refuse stops
// nothing.
func (h *Held) changed(a *Agent, p Profile) {
	switch {
	case p.Text == h.profile.Text: // such as one that was put back
		if h.trial.again != 0 {
			a.do(Effect{Kind: Recover, Name: h.Name})
		}
		h.profile, h.trial = p, trial{}
		h.report(a)
	case h.trial.revision != p.Revision, h.trial.again != 0 && a.now >= h.trial.again:
		h.trial = trial{revision: p.Revision}
		a.do(Effect{Kind: Try, Name: h.Name, Fence: h.Fence, Profile: p, Revision: p.Revision})
	}
}

// tried takes what the box says of a declaration that has changed.
func (h *Held) tried(a *Agent, in Input) {
	switch {
	case in.Revision != h.trial.revision || in.Revision != a.view.Profiles[h.Name].Revision:
		h.look(a) // another one has come
	case in.Failed:
		h.trial.again = a.now + steady
		h.look(a)
		a.do(Effect{Kind: Fail, Name: h.Name, Count: a.failures(h), Text: "its new declaration is refused, and what ran goes on: " + in.Text})
	default:
		h.Why, h.restart, h.release, h.trial = "its declaration has changed", true, true, trial{}
		h.to(a, Stopping)
	}
}
