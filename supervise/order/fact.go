package order

import "rlminit/supervise/machine"

// Phase is what of a service's state counts for others.
type Phase uint8

// The phases.
const (
	Absent   Phase = iota // no definition of that name is supervised
	Down                  // stopped
	Waiting               // wanted, and held back by what it depends on
	Backoff               // waits for the time of its next start
	Failed                // given up; a timer may try again
	Parked                // a spawn is stuck in the kernel, and may never come free
	Exited                // a run ended, and its policy leaves it at that
	Done                  // a oneshot's work was done with success
	Starting              // on its way up: being spawned, or not ready yet
	Working               // a oneshot at its work
	Up                    // a daemon that runs
	Ending                // a process of it is on its way out
)

// Phases lists every phase.
var Phases = []Phase{Absent, Down, Waiting, Backoff, Failed, Parked, Exited, Done, Starting, Working, Up, Ending}

func (p Phase) String() string {
	return [...]string{
		"absent", "down", "waiting", "backoff", "failed", "parked", "exited", "done",
		"starting", "working", "up", "ending",
	}[p]
}

// Turn is a command on a service that it was not given yet: a stop waits until
// what depends on it is gone, a start until the service is registered.
type Turn uint8

// The turns.
const (
	NoTurn  Turn = iota
	Start        // of one that is Absent: it is on its way, and will be wanted
	Along        // it goes along with what it requires: stop, and start again
	Restart      // stop, and start again
	Stop
	Remove // stop, and be forgotten
)

func (t Turn) String() string {
	return [...]string{"none", "start", "along", "restart", "stop", "remove"}[t]
}

// Stops tells whether the process that there is ends by it.
func (t Turn) Stops() bool { return t >= Along }

// Held is how far a service that waits is from its start.
type Held uint8

// How it is held, from the least to the most.
const (
	Free    Held = iota // nothing holds it
	OnWay               // what it waits for is on its way
	Delayed             // what it requires is in back-off, so nothing of this moment brings it up
	Stuck               // only a person or a retry of what failed will get it there
)

func (h Held) String() string { return [...]string{"free", "on-way", "delayed", "stuck"}[h] }

// Fact is what is known of one service. Wanted is what somebody asked for, all
// else is what was seen of it and of the commands under way.
type Fact struct {
	Phase  Phase
	Wanted bool

	Turn Turn
	Held Held // of one that is Waiting
}

// FactOf is what of a machine's state counts. The rest of the Fact is not the
// machine's.
func FactOf(s machine.State, p machine.Policy) Fact {
	f := Fact{Wanted: s.Want == machine.WantUp}
	switch s.Phase {
	case machine.Stopped, machine.Gone:
		f.Phase = Down
	case machine.Waiting:
		f.Phase = Waiting
	case machine.Backoff:
		f.Phase = Backoff
	case machine.Failed:
		f.Phase = Failed
	case machine.Parked:
		f.Phase = Parked
	case machine.Exited:
		f.Phase = Exited
		if s.Satisfies(p) {
			f.Phase = Done
		}
	case machine.Spawning:
		f.Phase = Starting
		if s.Want == machine.WantDown || s.Again { // it is stopped as soon as it is there
			f.Phase = Ending
		}
	case machine.Starting:
		f.Phase = Starting
	case machine.Running:
		f.Phase = Up
		if p.Oneshot {
			f.Phase = Working
		}
	case machine.Stopping, machine.Sweeping:
		f.Phase = Ending
	}
	return f
}

// uses tells whether a process of it lives that may use what it depends on. One
// that is parked does not, and might never come free.
func (f Fact) uses() bool {
	switch f.Phase {
	case Starting, Working, Up, Ending:
		return true
	}
	return false
}

// leaving tells whether it is on its way down, be it to come back.
func (f Fact) leaving() bool {
	return f.Phase == Ending || f.uses() && f.Turn.Stops()
}

// up tells whether what requires it may start.
func (f Fact) up() bool {
	return (f.Phase == Up || f.Phase == Done) && f.Turn == NoTurn
}

// settled tells whether a wants or after need not wait for it any longer.
func (f Fact) settled() bool {
	if f.Turn != NoTurn {
		return false
	}
	switch f.Phase {
	case Starting, Working, Ending:
		return false
	case Waiting:
		return f.Held >= Delayed
	}
	return true
}

// holds is how what requires this service, which is not up, is held by it.
func (f Fact) holds() Held {
	if !f.settled() {
		return OnWay
	}
	switch f.Phase {
	case Waiting:
		return f.Held
	case Backoff:
		return Delayed
	}
	return Stuck
}
