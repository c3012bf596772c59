// Package machine is the lifecycle of one supervised service, as a pure
// function:
//
//	Step(State, Policy, Event) (State, []Action)
//
// It reads no clock, draws no random number, starts no goroutine and does no
// I/O: time, randomness and spawn ids arrive in the event, and whatever is to
// be done in the world leaves as an action. Step is total: every event in every
// state has a decided result, if only "nothing", and it never panics. It does
// not write to the State that it is given.
//
// The owner of a service (one goroutine) keeps its State, feeds it events one
// at a time, stores the new State, and then carries out the actions in order.
// Storing comes first: a supervisor that dies in between finds, when it comes
// back, a State that is at most ahead of the world, which is what the Adopt
// event reconciles.
//
// A step takes the event to the phase that it finds the service in. What it reaches
// are the State and rooms, each of which owns its part of what follows:
//
//	life.go      life: the way from phase to phase; restart.go what follows a run
//	watch.go     watch: what a live process is held to: ready in time, well, not silent
//	ending.go    ending: a run's stop, the sweep of what it left, and how it ended
//	adopt.go     adoption: a State that another supervisor left
//
// and values, which answer for themselves alone: Policy (signals, exits, delays),
// History (earlier starts), Deadlines, Event. The step itself is in a file for each that
// it hears: command.go, tier1.go, report.go, and the timer in step.go.
//
// STATES.md specifies the behaviour in prose. The tables in it are made from
// this code by exploration; a test fails when they are stale.
package machine

//go:generate go run rlminit/tests/cmd/diagram -w STATES.md
