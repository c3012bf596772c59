// Package supervise is tier 2: everything about services that takes judgement.
// It keeps their definitions and states, starts and stops them through tier 1,
// and records on the volume what is wanted.
//
// It runs unprivileged and may be killed at any moment: what must outlive it is
// in tier 1's table, in the descriptors that tier 1 holds, in the slots on
// tmpfs and on the volume. Its successor goes on from there (restore.go).
//
// One goroutine, the loop, owns every unit (unit.go, loop.go). It tells supervise/core
// what happens, and carries out the effects that follow (apply.go). It never waits:
// what takes time (the volume, a file that may lie on a dead file system, a probe)
// is done by others, who hand their results to the loop. Who only reads does so between
// two things that the loop does (mailbox.go), and enters it never.
//
//	volume, configuration → registry → slots on tmpfs → loop → tier 1
//	                           control socket ↗     ↘ status, events, log, volume
//
// Clients are answered by supervise/serve, which reads copies of units (unit.go) and reaches
// the loop through commands (operate.go).
//
// Supervisor is the loop and the wiring. Each part of it is a type with fields of its
// own, whose other fields are the parts that it may reach: DESIGN.md has who owns what.
//
// It never waits for a child (it has none), never signals a pid, and never
// decides about privilege: tier 1 does.
package supervise
