// Package reap is tier 1, the container's PID 1 where there is a configuration:
// it starts processes, waits for them, forwards signals, keeps descriptors for
// tier 2 and ends the container within its budget. It decides nothing else.
//
// One goroutine, on the first thread, owns all state and runs a loop around
// epoll_wait (loop.go). Two more threads do nothing but spawn (threads.go),
// since a spawn may wait for a file system. All threads are made at boot: one
// that is wanted later, and refused where the pids limit is used up, would be
// the end of PID 1. There are eight to ten: the loop's, the two, the runtime's
// monitor, and four to six that the runtime may want at one moment and that
// sleep otherwise. With one processor in place of two there would be one fewer
// and 0.2 MB less, but the loop would wait for the collector.
//
//	boot.go      from the command line to the loop
//	place.go     what this container allows
//	directory.go the runtime directory, made and emptied at boot
//	prepare.go   the children that put the volume in order first, and read from it
//	loop.go      the loop: what is waited for, and timers
//	table.go     the states of a child; wire/PROTOCOL.md is its specification
//	requests.go  messages of tier 2
//	answers.go   messages to tier 2, which are derived from the table
//	spawn.go     a request held against the policy and turned into a command
//	threads.go   the threads that spawn, and what waits for them
//	kill.go      signals, also without CAP_KILL
//	wait.go      ends of children and of orphans
//	expiry.go    deadlines of children, and the end of all that is theirs
//	leftover.go  orphans that belong to a service, by its tag
//	close.go     closing what may make close(2) wait
//	proc.go      reading /proc
//	say.go       lines for people
//	tier2.go     the life of tier 2
//	main.go      the main command
//	stop.go      the end of the container
//
// After boot it opens nothing but files in /proc, starts no thread, and nothing
// makes it exit before the container shall end. It is the only caller of wait.
// Package sys holds what is special about its system calls, and package pure
// is the init for a container without a configuration.
package reap
