package core

import (
	"time"

	"rlminit/supervise/machine"
	"rlminit/supervise/order"
)

// Kind says what an Input is.
type Kind uint8

// The kinds of input, with the fields that each takes. What is about a service that is
// gone, or a name that nobody has, does nothing.
const (
	// Happened: Node, Event. Of Adopt also State, if the one that Define has given was
	// older.
	Happened Kind = iota

	// Define makes a new service known: Name, Alias, Definition, and State, if a
	// predecessor left one. It is defined while decisions are held back.
	Define
	// Redefine gives a service another definition: Node, Definition.
	Redefine

	// Announce has names waited for that are yet to be defined, and will be started
	// then; Unannounce takes that back from those that were not: Names.
	Announce
	Unannounce

	// Command gives services a turn, each with the Event that it is given then, and what
	// goes along with them: Turn, Nodes, Along. Nothing is started once the container ends.
	Command
	// Revoke takes back a turn that has not come: Nodes.
	Revoke

	// Hold has nothing decided until Release: a set of things is being told. Each Hold
	// has its Release, and they may overlap.
	Hold
	Release

	Booted   // all that the boot found is known
	Due      // deadlines up to Now
	Lost     // time in which nobody ran: Event.Within, in nanoseconds
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
	NextID uint64 // greater than every spawn id before

	Node  order.Node
	Event machine.Event // Now, Wall, NextID and Rand are core's to set
	State *machine.State

	Name       string
	Alias      string // a definition may mean it by this name too, while no service has it; "": none
	Definition *Definition

	Names []string

	Turn         order.Turn
	Nodes, Along []order.Node

	Budget time.Duration // for the whole stop
	Hurry  bool          // kill at once
}

// Definition is what of a service's definition counts here. Nobody changes it.
type Definition struct {
	Policy                 machine.Policy
	Requires, Wants, After []string
	Fault                  string // why there is no usable one; "": there is
}

// EffectKind says what an Effect is.
type EffectKind uint8

// The kinds of effect. But for Absent each is about the service Node.
const (
	Remember    EffectKind = iota // After: a successor must know that state before anything else is done
	Spawn                         // Action.ID: answered by Spawned or SpawnFailed
	Signal                        // Action.ID, Signal, Scope
	Sweep                         // Action.ID, Signal: answered by Swept
	Acknowledge                   // Action.ID: tier 1 may forget that exit
	StartProbe                    // Action.ID, Probe
	StopProbe                     // Action.ID, Probe
	Changed                       // Before, After, Remembered: a transition is over, or what holds the service has changed
	Absent                        // Name: a definition refers to it, and nobody has it
)

// Effect is one thing to do.
type Effect struct {
	Kind   EffectKind
	Node   order.Node
	Action machine.Action
	Name   string

	// The states around a transition; they stay as they are. Remembered: it began with
	// Remember.
	Before, After *machine.State
	Remembered    bool
}
