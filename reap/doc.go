// Package reap is tier 1, the container's PID 1 where there is a configuration:
// it starts processes, waits for them, forwards signals, keeps descriptors for
// tier 2 and ends the container within its budget. It decides nothing else.
//
// One goroutine, on the first thread, owns all state and runs a loop around
// epoll_wait (loop.go). Two more threads do nothing but spawn (threads.go),
// since a spawn may wait for a file system. All threads are made at boot.
//
//	boot.go      from the command line to the loop; all that reads a file
//	loop.go      the loop: what is waited for, and timers
//	table.go     the states of a child; wire/PROTOCOL.md is its specification
//	requests.go  messages of tier 2
//	answers.go   messages to tier 2, which are derived from the table
//	spawn.go     a request held against the policy and turned into a command
//	wait.go      ends of children and of orphans
//	leftover.go  orphans that belong to a service, by its tag
//	tier2.go     the life of tier 2
//	main.go      the main command
//	stop.go      the end of the container
//
// After boot it opens nothing but files in /proc, starts no thread, and nothing
// makes it exit before the container shall end. It is the only caller of wait.
// Package sys holds what is special about its system calls, and package pure
// is the init for a container without a configuration.
package reap
