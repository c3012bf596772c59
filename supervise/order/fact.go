package order

import "rlminit/supervise/machine"

// Phase is the part of a service's state that counts for other services.
type Phase uint8

// The phases.
const (
	Absent   Phase = iota // no definition of that name is supervised
	Down                  // stopped
	Waiting               // wanted, and held back by a dependency
	Backoff               // waits for the time of its next start
	Failed                // given up; a timer may try again
	Parked                // a spawn is stuck in the kernel, perhaps for ever
	Exited                // a run ended, and its policy leaves it at that
	Done                  // a oneshot's work was done with success
	Starting              // on its way up: being spawned, or not ready yet
	Working               // a oneshot that runs
	Up                    // a daemon that runs
	Ending                // its process is being stopped, or leftovers are
)

// Phases lists every phase.
var Phases = []Phase{Absent, Down, Waiting, Backoff, Failed, Parked, Exited, Done, Starting, Working, Up, Ending}

func (p Phase) String() string {
	return [...]string{
		"absent", "down", "waiting", "backoff", "failed", "parked", "exited", "done",
		"starting", "working", "up", "ending",
	}[p]
}

// Turn is a command that a service has not been given yet: a stop waits until the
// services that depend on it have stopped, a start until the service is registered.
type Turn uint8

// The turns.
const (
	NoTurn  Turn = iota
	Start        // of an Absent service, which will be registered and wanted
	Along        // stop, and start again, with a service that it requires
	Restart      // stop, and start again
	Stop
	Remove // stop, and be forgotten
)

func (t Turn) String() string {
	return [...]string{"none", "start", "along", "restart", "stop", "remove"}[t]
}

// Stops tells whether the turn ends the current process.
func (t Turn) Stops() bool { return t >= Along }

// Held is what keeps a waiting service from its start.
type Held uint8

// The kinds of Held, from the least to the most.
const (
	Free    Held = iota // nothing holds it
	OnWay               // its blocker is starting or stopping
	Delayed             // a required service is in back-off, so it will not start soon
	Stuck               // only a command, or the retry of a failed service, will start it
)

func (h Held) String() string { return [...]string{"free", "on-way", "delayed", "stuck"}[h] }

// Fact is the known state of one service. Wanted is the desired state. The other
// fields are observations of the service and of the commands under way.
type Fact struct {
	Phase  Phase
	Wanted bool

	Turn Turn

	// If it has no process: how it would be held, and whether something that it comes after
	// is on its way. What comes after it waits for that too.
	Held   Held
	Behind bool
}

// FactOf returns the part of a Fact that follows from the machine's state: Phase and
// Wanted.
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
		if s.Want == machine.WantDown || s.StartAgain { // it is stopped as soon as it has started
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

// uses tells whether the service has a process that may use its dependencies. A
// parked one has none, and may never have one.
func (f Fact) uses() bool {
	switch f.Phase {
	case Starting, Working, Up, Ending:
		return true
	}
	return false
}

// leaving tells whether it is stopping, or will be by its turn; it may start again.
func (f Fact) leaving() bool {
	return f.Phase == Ending || f.uses() && f.Turn.Stops()
}

// runs tells whether it is a daemon that runs, and no command will change that. A oneshot
// that is done is up only with its required services, so on a cycle of requires it never is.
func (f Fact) runs() bool { return f.Phase == Up && f.Turn == NoTurn }

// settled tells whether services that want it, or come after it, may start. They come
// after the predecessors of a service without a process, too.
func (f Fact) settled() bool {
	return f.holds() != OnWay && (f.Phase == Up || !f.Behind)
}

// holds is how it holds a service that requires it. A oneshot that is done holds it as
// the dependencies of the oneshot do.
func (f Fact) holds() Held {
	switch {
	case f.Turn != NoTurn:
		return OnWay
	case f.Phase == Up:
		return Free
	case f.uses():
		return OnWay
	case f.Phase == Waiting:
		return max(f.Held, OnWay)
	case f.Phase == Done:
		return f.Held
	case f.Phase == Backoff:
		return Delayed
	}
	return Stuck
}

// PassesOn tells whether the services it holds wait in truth for the blocker of this one.
func (f Fact) PassesOn(held Held) bool {
	return f.Phase == Done || held == OnWay && f.Phase != Waiting && !f.uses()
}
