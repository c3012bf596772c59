// Package machine is the lifecycle of one supervised service, as a pure
// function:
//
//	Step(State, Policy, Event) (State, []Action)
//
// Step reads no clock, draws no random number, starts no goroutine and does no
// I/O: time, randomness and spawn ids come in with the event, and what is to be
// done goes out as actions. Step is total: every event has a decided result in
// every state, even if that is to do nothing, and Step never panics. It does not
// change the State that it is given.
//
// The caller of Step is one goroutine. It keeps the State of each service, gives
// it one event at a time, stores the new State, and then carries out the actions
// in order. It stores first: if the supervisor dies in between, its successor
// finds a State that may be ahead of what was done, and the Adopt event reconciles
// the two.
//
// A handler handles the event in the phase that the service is in. It uses these
// parts of the machine:
//
//	life.go      life: the changes from phase to phase; restart.go: what follows a run
//	watch.go     watch: readiness, health checks and the watchdog of a live process
//	ending.go    ending: the stop of a run, the sweep of its leftovers, and its verdict
//	adopt.go     adoption: a State that another supervisor left
//
// and these values: Policy (signals, exits, delays), History (earlier starts),
// Deadlines, Event. The methods of handler are in a file for each source of events:
// command.go, tier1.go, report.go, and the timer in step.go.
//
// STATES.md specifies the behaviour in prose. The tables in it are made from
// this code by exploration; a test fails when they are stale.
package machine

//go:generate go run rlminit/tests/cmd/diagram -w STATES.md
