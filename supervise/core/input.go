package core

import (
	"time"

	"rlminit/service"
	"rlminit/supervise/machine"
	"rlminit/supervise/operation"
	"rlminit/supervise/order"
)

// Kind says what an Input is.
type Kind uint8

// The kinds of input, with the fields that each takes. What is about a service that is
// gone, or a name that nobody has, does nothing.
const (
	// Happened: Node, or Spawn, whose run it befalls; Event. An exit of nobody's is
	// acknowledged.
	Happened Kind = iota

	// Notified is what the process PID, 0 if nobody knows, has said of its service by
	// sd_notify(3): Node, PID, Events, which are the service's run's.
	Notified

	// Define makes a new service known: Name, Alias, Definition, and State, if a
	// predecessor left one. It is defined while decisions are held back.
	Define
	// Redefine gives a service another definition: Node, Definition.
	Redefine

	// Announce has names waited for that are yet to be defined, and will be started
	// then; Unannounce takes that back from those that were not: Names.
	Announce
	Unannounce

	// Give gives services a turn, each with the Event that it is given then, and what
	// goes along with them: Turn, Nodes, Along. Nothing is started once the container ends.
	Give
	// Revoke takes back a turn that has not come: Nodes.
	Revoke

	// Commanded is a command: Command. Recorded says that it is recorded, or cannot be:
	// Command, Unrecorded with the reason as Text, and of VerbFollow the Intents of its services.
	Commanded
	Recorded
	Cancel // the operation ID goes no further
	Drop   // the caller of the operation ID has read the outcome, or is gone
	Join   // somebody else reads the operation ID, which is remembered until Leave
	Leave
	Became // the outcome of Member in the operation ID, from elsewhere

	Want  // the desired state of Node is Wants, as is recorded already
	Freed // of Life: nothing else goes on that is to end with it; or does, if Busy

	// Remembered: a successor would know of each of Rows. Marked: the log has the line
	// that says how the run Spawn of a life ended; Heard: Text is what that said last.
	Remembered
	Marked
	Heard

	Recall    // Operations of before, and ID the last one that was given
	Resume    // a predecessor's operations are over
	Interrupt // all operations that are under way: Text

	// Hold has nothing decided until Release: a set of things is being told. Each Hold
	// has its Release, and they may overlap.
	Hold
	Release

	Booted   // all that the boot found is known
	Due      // deadlines up to Now
	Lost     // time that nobody ran: Event.Within, in nanoseconds
	Stopping // the container ends: nothing is started any more
	End      // stop everything in order: Budget, Hurry
)

// Input is one thing that core is told.
type Input struct {
	Kind Kind

	// Always set.
	Now    int64  // nanoseconds of a clock that outlives the supervisor
	Wall   int64  // nanoseconds since 1970
	Rand   uint64 // uniformly random
	NextID uint64 // greater than every spawn id that tier 1 has seen

	Node  order.Node
	Event machine.Event // Now, Wall, NextID and Rand are core's to set
	State *machine.State

	PID    int
	Events []machine.Event

	Wants      Wants // of Define and Want
	Name       string
	Alias      string // a definition may mean it by this name too, while no service has it; "": none
	Definition *Definition

	Names []string

	Turn         order.Turn
	Nodes, Along []order.Node

	Command    *Command
	Unrecorded bool
	Intents    []service.Intent
	ID         uint64
	Member     operation.Member
	Operations []operation.Operation
	Rows       []Row
	Spawn      uint64 // of Happened, Marked and Heard
	Life       *Life  // of Freed, Marked and Heard
	Text       string
	Busy       bool

	Budget time.Duration // for the whole stop
	Hurry  bool          // kill at once
}

// Row is a life's row of the checkpoint, and its version.
type Row struct {
	Life    *Life
	Version uint64
}

// Wants is the desired state of a service.
type Wants struct {
	Desired service.Intent // IntentNone: nobody has said
	Before  service.Intent // what Desired was, until what follows from it has begun; IntentNone: it has
	Owed    bool           // a start was recorded, and a fault kept it from being carried out
}

// Definition is what of a service's definition counts here. Nobody changes it.
type Definition struct {
	Policy                 machine.Policy
	Requires, Wants, After []string
	Title                  string // the service's name for people; "": its name
	Fault                  string // why there is no usable one; "": there is
	Scheduled              bool   // its schedule runs it
	Enabled                bool
}

// EffectKind says what an Effect is.
type EffectKind uint8

// The kinds of effect. But for Absent, and those about commands and operations, each is
// about the service Node.
const (
	Remember    EffectKind = iota // After, Wants: a successor must know that before anything else is done; answered by Remembered
	Spawn                         // Action.ID: answered by Spawned or SpawnFailed
	Signal                        // Action.ID, Signal, Scope
	Sweep                         // Action.ID, Signal: answered by Swept
	Acknowledge                   // Action.ID: tier 1 may forget that exit
	Prolonged                     // Action.ID, At: when tier 1 is to end it now
	StartProbe                    // Action.ID, Probe
	StopProbe                     // Action.ID, Probe
	Changed                       // Before, After, Remembered: a transition is over, or what holds the service has changed
	Absent                        // Name: a definition refers to it, and nobody has it
	Wanted                        // a copy is to show its desired state of now
	Record                        // Command: answered by Recorded
	Refused                       // Command: it goes no further. Text says why; "": it could not be recorded
	Forgot                        // Operation: it is not remembered any more, or it was hidden and has been dropped
	Told                          // Operation: it has changed; Begun, Over: it has begun, or is over now
)

// Effect is one thing to do.
type Effect struct {
	Kind   EffectKind
	Node   order.Node
	Action machine.Action
	Name   string

	Life    *Life  // of Remember, Changed and Wanted
	Version uint64 // of Remember
	Wants   Wants

	Command   *Command
	Operation *Operation
	Text      string
	Begun     bool
	Over      bool
	Gated     bool // of Refused: too many are out of service
	Unclaimed bool // of Refused: a member is no claimed service

	// The states around a transition; they stay as they are. Remembered: it began with
	// Remember.
	Before, After *machine.State
	Remembered    bool
}
