package machine

import "golang.org/x/sys/unix"

// ActionKind names an action.
type ActionKind string

// The actions. The caller of Step carries them out in the order given.
const (
	// Requests to tier 1.
	Spawn       ActionKind = "spawn"       // ID: answered by Spawned or SpawnFailed, perhaps SpawnStuck before
	Signal      ActionKind = "signal"      // ID, Signal, Scope
	Sweep       ActionKind = "sweep"       // ID, Signal to all that bear the tag (0: only count): answered by Swept
	Acknowledge ActionKind = "acknowledge" // ID: tier 1 may forget that exit
	Prolonged   ActionKind = "prolonged"   // ID, At: tier 1 ends it then, and not before

	// The timer slot: arming overwrites.
	Arm    ActionKind = "arm" // Generation, At; in the past: fires at once
	Disarm ActionKind = "disarm"

	// Probes, which are repeated at the definition's interval until they are stopped.
	// Results carry ID. Starting a probe that runs replaces it.
	StartProbe ActionKind = "start-probe" // ID, Probe
	StopProbe  ActionKind = "stop-probe"  // ID, Probe
)

// Scope has the receivers of a signal.
type Scope string

// The scopes.
const (
	ScopeMain  Scope = "main"  // the main process alone
	ScopeGroup Scope = "group" // its process group
)

// Probe tells the two probes of a service apart.
type Probe string

// The probes.
const (
	ProbeReady  Probe = "ready"
	ProbeHealth Probe = "health"
)

// Action is one thing to do, and its kind says which fields are set.
type Action struct {
	Kind       ActionKind
	ID         uint64
	Signal     unix.Signal
	Scope      Scope
	Probe      Probe
	Generation uint64
	At         int64 // monotonic nanoseconds
}
