package service

import "time"

// Intent is the desired state of a service. Only a command changes it: a
// container that is stopped, killed or crashes does not.
type Intent string

// The intents.
const (
	IntentNone Intent = "" // nobody has said
	Running    Intent = "running"
	Stopped    Intent = "stopped"
)

// Seen is the observed state of a service, as the state file has it.
type Seen string

// The states of a state file.
const (
	SeenNone          Seen = ""
	SeenStarting      Seen = "starting"
	SeenRunning       Seen = "running"
	SeenDegraded      Seen = "degraded"
	SeenDraining      Seen = "draining"
	SeenStopped       Seen = "stopped"
	SeenStartupFailed Seen = "startup_failed"
)

// Origin tells where a Record comes from.
type Origin int

// The origins of a Record.
const (
	Missing  Origin = iota // there is no state file
	Recorded               // our own state file
	Imported               // an application's file, gateway.import_state
	Corrupt                // there is a file, but it cannot be used
)

// Record is the intent and the last-known state of one service, as kept on the
// volume.
type Record struct {
	Origin     Origin
	Fault      string // of a corrupt one: the fault, for people
	Profile    string // whose it says it is
	Desired    Intent
	Said       Intent // the file's desired state, where the journal has another one
	Seen       Seen
	PID        int    // 0: none
	StartTime  uint64 // clock ticks since boot, proc_pid_stat(5); 0: none
	Port       int    // 0: none
	ExitReason string
	Restarts   int
	Started    Start // of the definition that its latest run was started with; "": unknown
	UpdatedAt  time.Time
}
