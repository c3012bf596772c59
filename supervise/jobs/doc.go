// Package jobs runs one-shot commands: it queues them, holds them against guards,
// has tier 1 start and end them, keeps their output, records their outcome and
// tells whoever waits. What a job does next is decided by package job, as
// job/JOBS.md says.
//
// The runner takes each job through its stages. Around it are rooms, each of which
// owns what the others ask it for:
//
//	queue.go     queue: who waits for a turn, and whose has come
//	tasks.go     tasks: those that are not over, by number, key and spawn
//	journal.go   jobJournal: where jobs are recorded, in memory or on the volume
//	sessions.go  sessions: those that are open, their time and their budget
//	schedules.go schedules: the clock of what recurs
//	hooks        who is told what happens, and thresholds, a package of its own; hooks.go
//	             has its jobs
//	vacate.go    doors: the profiles of which nothing begins
//	prepare.go   place: what a job finds here; and what happens before a spawn
//	capabilities.go  place: what can be enforced here
//	output       what they write, a package of its own
//	requests.go  requests: of the control socket; fileswork.go those about files
//
// and of the runner itself:
//
//	runner.go    a job's stages, and the end of all of them
//	owner.go     whose a job is: a profile's, or a service's
//	submit.go    from a request to a job that is recorded
//	task.go      one of them, and its parts: what a step's actions do
//	spec.go      what it is to do, as a successor finds it
//	adopt.go     what a predecessor left
//	result.go    what is told of a job
//
// It starts no process, signals no pid and holds no deadline: tier 1 does.
package jobs
