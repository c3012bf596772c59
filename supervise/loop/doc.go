// Package loop is the one goroutine that owns every service, and all that only it may
// touch. It tells supervise/core what happens, and carries out the effects that follow
// (apply.go). It never waits: what takes time (the volume, a file that may lie on a dead
// file system, a probe) is done by others, who hand their results to the loop.
//
// What is exported is for any goroutine but the loop: it puts something into the mailbox,
// or reads between two things that the loop does (mailbox.go). New, Use and Run are for
// the wiring, in this order. What is not exported is the loop's own, but for what says
// that it runs beside the loop.
//
// Each part is a type with fields of its own, whose other fields are the parts and drivers
// that it may reach: mailbox, fleet and its alarm, logging, Records, Commands, Services,
// jobRunner, takeover, ending and shutdown. DESIGN.md has who owns what. Clients and the
// registry see copies of units (unit.go). They reach the loop through Commands (operate.go)
// and Services (define.go), and a successor takes over by TakeOver (restore.go).
package loop
