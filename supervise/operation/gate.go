package operation

import "time"

// Is is how far a member is, as an operation looks at it.
type Is uint8

// What a member is.
const (
	Down     Is = iota // stopped
	Waiting            // held back by what it depends on
	Stuck              // held back by what will not come up by itself
	Starting           // on its way up
	Working            // a oneshot at its work
	Up                 // a daemon that is ready, a oneshot that has ended with success
	Ending             // on its way down
	Backoff            // waits for its next start
	NoRoom             // the same, for room that only the end of something else makes
	Broken             // given up, or its run has ended as it should not
	Ended              // a daemon that has ended with success
	Gone               // forgotten
)

// Seen is what is seen of a member at one moment.
type Seen struct {
	Is        Is
	For       time.Duration // since when it is Up
	Run       uint64        // the id of its latest run
	Restarts  int           // how often it was started again by itself
	Active    bool          // a process of it may exist, or is about to
	Wanted    bool          // it is to run
	Turn      bool          // it has a command that it was not given yet
	Unhealthy bool          // it runs, and its probe fails
	Fault     bool          // there is no usable definition of it
	Unheard   bool          // what its run said last is still on its way
	Busy      bool          // something else that is to end with it goes on
}

// serves tells whether a member is in service.
func (s Seen) serves() bool { return s.Is == Up && !s.Turn && !s.Unhealthy }

// cannotComeUp tells whether only a person or a retry can bring a member up.
func (s Seen) cannotComeUp() bool {
	switch s.Is {
	case Down, Stuck, Broken, Ended, Gone:
		return !s.Turn
	}
	return false
}

// Why is why a member does not come to what an operation wants of it.
type Why uint8

// The reasons.
const (
	Nothing   Why = iota
	Faulty        // there is no usable definition
	Removed       // its definition is gone
	Stopped       // somebody has stopped it
	Started       // somebody has started it
	Failed        // its run has ended, and no other follows, or only after a pause
	Tried         // the first attempt has failed, and there is another
	Early         // it was up, and not for long enough
	Unhealthy     // it was up, and has become unhealthy
	Held          // it waits for what will not come up by itself
	Full          // there is no room for it
)

// Gate decides whether a member has come to what an operation wants of it. It is asked
// again whenever something has changed, and after Judgement.Wait. A later command on the
// member is not its business: that ends the operation for it.
//
// Two predicates serve all of them. A member is up when it is Up. It is steady when it is
// up with one run for Steady, and not unhealthy.
type Gate struct {
	Down    bool          // it is to be down, else up
	Strict  bool          // it is to be steady; else one attempt counts, and one that ended with success is good
	Patient bool          // whoever waits bears attempts that fail, and that it is stopped
	Fresh   bool          // with another run than Old
	Old     uint64        // the run that it had before
	Steady  time.Duration // how long it must be up

	run      uint64 // that it is to keep; 0: none yet
	begun    bool
	restarts int // of the member when the first attempt began
}

// Judgement is what a Gate says.
type Judgement struct {
	Passed bool
	Why    Why           // it is not passed, and will not be
	Wait   time.Duration // ask again after this at the latest; 0: when something changes
}

// Look judges by what is seen of the member.
func (g *Gate) Look(s Seen) Judgement {
	switch {
	case g.Down:
		return g.down(s)
	case s.Fault:
		return Judgement{Why: Faulty}
	case s.Is == Gone:
		return Judgement{Why: Removed}
	case s.Turn, g.Fresh && s.Run == g.Old && s.Is != Stuck && (s.Is != Down || s.Wanted):
		return Judgement{}
	case g.Strict && g.run != 0 && s.Run != g.run:
		return Judgement{Why: Early}
	}
	if g.Strict && g.Fresh {
		g.run = s.Run
	}
	if !g.begun && s.Wanted {
		g.begun, g.restarts = true, s.Restarts
	}
	why := g.ended(s)
	switch {
	case why != Nothing && s.Unheard && s.Is != Stuck && s.Is != Down:
		return Judgement{} // it is told with its last words
	case why != Nothing:
		return Judgement{Why: why}
	case s.Is == Ended && !g.Patient:
		return Judgement{Passed: true}
	case s.Is != Up && (s.Is != Working || !g.Patient), g.Strict && s.Unhealthy:
		return Judgement{}
	}
	if g.run = s.Run; s.For < g.Steady {
		return Judgement{Wait: g.Steady - s.For}
	}
	return Judgement{Passed: true}
}

// ended is why a member does not come up by the attempt that is judged; Nothing: it may,
// or has.
func (g *Gate) ended(s Seen) Why {
	switch s.Is {
	case Broken:
		return Failed
	case Stuck:
		if !g.Patient {
			return Held
		}
	case NoRoom:
		if !g.Patient {
			return Full
		}
	case Ended:
		if g.Strict || g.Patient {
			return Failed
		}
	case Down:
		if !s.Wanted && !g.Patient {
			return Stopped
		}
	}
	again := s.Is == Backoff || g.begun && s.Restarts > g.restarts && !g.Strict
	switch {
	case g.Strict && g.run != 0 && s.Unhealthy && s.Is == Up:
		return Unhealthy
	case g.Patient || !again:
		return Nothing
	case g.Strict:
		return Failed
	case g.run != 0:
		return Early
	}
	return Tried
}

func (g *Gate) down(s Seen) Judgement {
	if s.Wanted && !s.Turn && !g.Patient {
		return Judgement{Why: Started}
	}
	return Judgement{Passed: !s.Active && !s.Turn && !s.Busy && s.Is != Backoff && s.Is != NoRoom}
}
