// Package job is the life of a one-shot command as a pure function. JOBS.md is
// the specification, step.go the table of state and event. Package history, below
// it, is what the journal says of jobs.
//
// It has no clock, no process and no file: supervise/jobs does what the actions
// say, and tells what came of it.
package job
