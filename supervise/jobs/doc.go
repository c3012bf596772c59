// Package jobs runs one-shot commands: it queues them, holds them against guards,
// has tier 1 start and end them, keeps their output, records their outcome and
// tells whoever waits. What a job does next is decided by package job, as
// job/JOBS.md says.
//
//	runner.go    the owner of every job that is not over: a goroutine and its queue
//	task.go      one of them: what a step's actions do
//	prepare.go   what happens before a spawn: guards, directory, program
//	output.go    a stream: from the pipe into a memfd, and beyond
//	files.go     the outputs on the volume, bounded
//	adopt.go     what a predecessor left
//	result.go    what is told of a job
//	telemetry.go how the container is doing
//	requests.go  /v1/jobs
//
// It starts no process, signals no pid and holds no deadline: tier 1 does.
package jobs
