package machine

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// EventKind names an event.
type EventKind string

// The events. Events of a spawn carry its ID. Unless their comment says otherwise,
// they do nothing if the State has another spawn.
const (
	// Commands: Cause and Actor are kept for the published transition.
	Start   EventKind = "start"   // Lease, if it needs one
	Stop    EventKind = "stop"    // Within, Hurry
	Restart EventKind = "restart" // also starts a service that is not running
	Remove  EventKind = "remove"  // the definition is gone: stop, then Gone
	Update  EventKind = "update"  // the definition is new, and Policy is its policy: NeedsRestart
	Prolong EventKind = "prolong" // Lease: its deadline moves on

	// From the graph of dependencies.
	DependenciesMet   EventKind = "dependencies-met"
	DependenciesUnmet EventKind = "dependencies-unmet" // Reason

	// From tier 1.
	Spawned     EventKind = "spawned"      // ID, PID, StartTime
	SpawnFailed EventKind = "spawn-failed" // ID, Reason, Temporary
	SpawnStuck  EventKind = "spawn-stuck"  // ID, Reason; Spawned or SpawnFailed is still to come
	ExitedEvent EventKind = "exited"       // ID, Code, Signal, Leftovers; an unknown ID is acknowledged
	Swept       EventKind = "swept"        // ID, Remaining

	// A new supervisor found the State. Child is what tier 1 reports, with ID, PID,
	// StartTime, StartedAt, Lease.At, and for an exit Code, Signal, Leftovers. Want overrides
	// the State's if SetWant is true.
	Adopt EventKind = "adopt"

	// The timer fired. It does nothing if Generation is not the armed one.
	TimerFired EventKind = "timer" // Generation

	// For the time Within no process here ran: the container was paused, or the
	// host stood still. It comes before any other event of that time.
	Stalled EventKind = "stalled"

	// From the probes. ID is the spawn that the probe was started for.
	ProbePassed  EventKind = "probe-passed" // readiness
	ProbeFailed  EventKind = "probe-failed" // Reason
	HealthPassed EventKind = "health-passed"
	HealthFailed EventKind = "health-failed" // Reason

	// From sd_notify(3). ID is the State's own when the datagram is handled.
	Ready           EventKind = "ready"
	Reloading       EventKind = "reloading"
	StoppingItself  EventKind = "stopping-itself" // STOPPING=1
	ExtendTimeout   EventKind = "extend-timeout"  // Within
	WatchdogPing    EventKind = "watchdog-ping"
	WatchdogTrigger EventKind = "watchdog-trigger"
	WatchdogSet     EventKind = "watchdog-set" // Within
	StatusText      EventKind = "status-text"  // Reason
	MainPID         EventKind = "main-pid"     // PID
	Trouble         EventKind = "trouble"      // Errno, ExitStatus; ID is the last spawn's, which may have ended already
)

// EventKinds lists every kind.
var EventKinds = []EventKind{
	Start, Stop, Restart, Remove, Update, Prolong, DependenciesMet, DependenciesUnmet,
	Spawned, SpawnFailed, SpawnStuck, ExitedEvent, Swept, Adopt, TimerFired, Stalled,
	ProbePassed, ProbeFailed, HealthPassed, HealthFailed,
	Ready, Reloading, StoppingItself, ExtendTimeout,
	WatchdogPing, WatchdogTrigger, WatchdogSet, StatusText, MainPID, Trouble,
}

// Child is what tier 1 knows of a service's process when a supervisor adopts it.
type Child string

// The kinds of child.
const (
	ChildNone    Child = ""        // nothing alive, no exit unacknowledged
	ChildPending Child = "pending" // a spawn is not answered yet
	ChildAlive   Child = "alive"
	ChildExited  Child = "exited" // exited, and not acknowledged
)

// Event is one thing that happened. Now, Wall, NextID and Rand are always set;
// the rest as its kind says.
type Event struct {
	Kind EventKind

	Now    int64  // monotonic nanoseconds, of a clock that outlives the supervisor (CLOCK_BOOTTIME)
	Wall   int64  // nanoseconds since 1970
	NextID uint64 // the id for a Spawn, greater than any before; used up only if a Spawn comes out
	Rand   uint64 // uniformly random; decides the jitter of a back-off

	Cause string  // of a command
	Actor *uint32 // of a command: the uid that gave it; nil: rlminit itself

	ID        uint64
	PID       int
	StartTime uint64 // clock ticks since boot
	StartedAt int64  // of Adopt: monotonic nanoseconds; 0: not known

	Code      int
	Signal    unix.Signal // that killed it; 0: it exited with Code
	Memory    string      // of an exit by KILL: the kernel's evidence that memory was why
	Leftovers int         // processes that still bear the service's tag
	Remaining int         // the same, after a sweep

	Reason    string
	Temporary bool // of SpawnFailed: EAGAIN, ENOMEM, EMFILE, ENFILE, ETXTBSY and the like

	NeedsRestart bool // of Update: the running process does not follow the new definition

	// Within is in nanoseconds. Of Stop: the time for this stop, which the service
	// cannot extend (the container's stop budget); 0: the policy's. Of ExtendTimeout
	// and WatchdogSet: what the service asked for. Of Stalled: for how long no
	// process ran.
	Within int64
	Hurry  bool // of Stop: SIGKILL at once

	Errno      int  // ERRNO= of sd_notify(3); 0: none
	ExitStatus *int // EXIT_STATUS= of it

	Generation uint64 // of TimerFired

	Lease Lease

	Child   Child // of Adopt
	Want    Want
	SetWant bool
}

// after is the time d from now. It does not overflow.
func (e *Event) after(d time.Duration) int64 {
	d = max(d, 0)
	if e.Now > math.MaxInt64-int64(d) {
		return math.MaxInt64
	}
	return e.Now + int64(d)
}

// startedAt is the time of the start that Adopt reports, or now if that is not known.
func (e *Event) startedAt() int64 {
	if e.StartedAt > 0 && e.StartedAt <= e.Now {
		return e.StartedAt
	}
	return e.Now
}

// exit is the exit that the event reports.
func (e *Event) exit(killed bool) Exit {
	x := Exit{Code: e.Code, Signal: e.Signal, Wall: e.Wall}
	if !killed { // else the KILL was ours
		x.Memory = e.Memory
	}
	return x
}
