// Package verdict says of each service whether it is well: the one predicate behind
// status, health, doctor, metrics, hooks, the page and top. It is a pure function of
// facts about one service; the verdict of the service that it waits for is one of them.
package verdict

import (
	"time"

	"rlminit/supervise/machine"
)

// Verdict is the answer to "is it well".
type Verdict string

// The verdicts.
const (
	OK      Verdict = "ok"      // it is as it is desired
	Pending Verdict = "pending" // it is on its way, and comes to ok or ill within the time of its start
	Ill     Verdict = "ill"     // it is desired and not up, or up and unhealthy
	Off     Verdict = "off"     // nobody desires it to run now
)

// All lists the verdicts.
var All = []Verdict{Ill, Pending, OK, Off}

// Code is the reason for a verdict, for programs. A code never changes its meaning.
type Code string

// The codes, with the verdict that each goes with.
const (
	Running           Code = "running"            // ok
	Completed         Code = "completed"          // ok: it ended with success
	Starting          Code = "starting"           // pending
	Restarting        Code = "restarting"         // pending: it stops to start again
	BackOff           Code = "backoff"            // pending: it waits before the next start after a success
	Waiting           Code = "waiting"            // pending: for a service that is pending
	Failed            Code = "failed"             // ill: it was given up
	BackOffFailed     Code = "backoff_failed"     // ill: it waits before the next start after a failure
	ExitedFailed      Code = "exited_failed"      // ill: it ended with a failure and is not restarted
	Unhealthy         Code = "unhealthy"          // ill: it runs, and its health probe fails
	WaitingIll        Code = "waiting_ill"        // ill: it waits for a service that is ill or not there
	DefinitionRefused Code = "definition_refused" // ill: it does not run, and its definition is refused
	Stopped           Code = "stopped"            // off: on purpose
	Disabled          Code = "disabled"           // off: enabled is false
	AtRest            Code = "at_rest"            // off: a stopped profile that nobody has asked for since the boot
	Scheduled         Code = "scheduled"          // off: its schedule runs it
	ScheduledFailed   Code = "scheduled_failed"   // off: its schedule runs it, and its last run failed
	WaitingOff        Code = "waiting_off"        // off: it waits for a service that is off
	Unclaimed         Code = "unclaimed"          // off: it needs a start with a deadline
)

// Facts are the facts about one service that its verdict follows from.
type Facts struct {
	State     *machine.State
	Policy    machine.Policy
	Fault     string // why its definition is refused; "": it is not
	Owed      bool   // a start is owed once the definition is mended
	Restart   bool   // a start or restart was given and has not begun
	Stop      bool   // a stop was given and has not begun
	Scheduled bool   // its schedule runs it
	Enabled   bool   // the configuration or its profile has it enabled
	Now       int64  // of the events' clock

	// For is the verdict of the service that it waits for, if it waits. A service that
	// is not there, or a cycle, is Ill.
	For Verdict
}

// Of decides. Each pair of a phase and the desired state is decided here.
func Of(f Facts) (Verdict, Code) {
	s := f.State
	up := s.Want == machine.WantUp && !f.Stop
	switch {
	case f.Fault != "" && !active(s.Phase) && (up || f.Owed || f.Restart):
		return Ill, DefinitionRefused
	case f.Restart && active(s.Phase):
		return Pending, Restarting
	case f.Restart:
		return Pending, Starting
	case f.Scheduled && !active(s.Phase):
		if s.EndedBadly() || s.Phase == machine.Stopped && failed(s, &f.Policy) {
			return Off, ScheduledFailed
		}
		return Off, Scheduled
	}
	switch s.Phase {
	case machine.Running:
		if s.Health == machine.Unhealthy {
			return Ill, Unhealthy
		}
		return OK, Running
	case machine.Exited:
		if s.Verdict == machine.VerdictSuccess && !s.NeverReady {
			return OK, Completed
		}
		return Ill, ExitedFailed
	case machine.Failed, machine.Parked:
		return Ill, Failed
	case machine.Backoff:
		if failed(s, &f.Policy) {
			return Ill, BackOffFailed
		}
		return Pending, BackOff
	case machine.Waiting:
		return waiting(f.For)
	}
	if !up {
		return off(&f)
	}
	switch s.Phase {
	case machine.Stopping, machine.Sweeping:
		return Pending, Restarting
	}
	return Pending, Starting
}

// off is the verdict of a service that nobody desires to run.
func off(f *Facts) (Verdict, Code) {
	switch {
	case active(f.State.Phase): // its stop goes on
		return Off, Stopped
	case f.Policy.Deadline && f.State.Lease.At <= f.Now:
		return Off, Unclaimed
	case !f.Enabled:
		return Off, Disabled
	}
	return Off, Stopped
}

// waiting is the verdict of a service that waits for one with the verdict given.
func waiting(other Verdict) (Verdict, Code) {
	switch other {
	case Ill:
		return Ill, WaitingIll
	case Off:
		return Off, WaitingOff
	}
	return Pending, Waiting
}

// failed tells whether the latest run ended with a failure. In the phases in which this
// is asked, the run itself is forgotten, and the history tells.
func failed(s *machine.State, p *machine.Policy) bool {
	if s.LastExit == nil {
		return s.Phase == machine.Backoff // a spawn that failed
	}
	class := p.Judge(*s.LastExit)
	return s.LastWords != "" || class == machine.VerdictFailure || class == machine.VerdictFatal
}

// active tells whether a process may exist, or is about to.
func active(ph machine.Phase) bool {
	switch ph {
	case machine.Spawning, machine.Starting, machine.Running, machine.Stopping, machine.Sweeping:
		return true
	}
	return false
}

// Flapping is the number of restarts within FlappingWithin that nobody asked for and that
// mark a service.
const (
	Flapping       = machine.UnaskedKept
	FlappingWithin = 10 * time.Minute
)

// IsFlapping tells whether a service is marked at a time of the events' clock.
func IsFlapping(s *machine.State, now int64) bool {
	n := len(s.Unasked)
	return n >= Flapping && now-s.Unasked[n-Flapping] <= int64(FlappingWithin)
}
