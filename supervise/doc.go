// Package supervise is tier 2: everything about services that takes judgement.
// It keeps their definitions and states, starts and stops them through tier 1,
// and records desired states on the volume.
//
// It runs unprivileged and may be killed at any moment: what must outlive it is
// in tier 1's table, in the descriptors that tier 1 holds, in the slots on
// tmpfs and on the volume. Its successor goes on from there.
//
//	volume, configuration → registry → slots on tmpfs → loop → tier 1
//	                           control socket ↗     ↘ status, events, log, volume
//
// The package itself is the wiring (run.go): it connects to tier 1, and makes the drivers,
// the loop, the registry, the runner of jobs and what answers clients. Then it has the
// steps of a boot done in their order (boot.go), beside the loop. What becomes of a
// service is the business of supervise/loop, which it reaches by what that exports.
//
// It never waits for a child (it has none), never signals a pid, and never
// decides about privilege: tier 1 does.
package supervise
