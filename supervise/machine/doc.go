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
// STATES.md specifies the behaviour in prose. The tables in it are made from
// this code by exploration; a test fails when they are stale.
package machine

//go:generate go run ./diagram -w STATES.md
