// Package reap is tier 1, the container's PID 1 where there is a configuration:
// it starts processes, waits for them, forwards signals, keeps descriptors for
// tier 2 and ends the container within its budget. It decides nothing else.
//
// One goroutine, on the first thread, owns all state and runs a loop around
// epoll_wait (loop.go). Eight more threads do nothing but spawn (package threads),
// since a spawn may wait for a file system. All threads are made at boot: one
// that is wanted later, and refused where the pids limit is used up, would be
// the end of PID 1. There are fourteen to sixteen: the loop's, the eight, the runtime's
// monitor, and four to six that the runtime may want at one moment and that
// sleep otherwise. With one processor in place of two there would be one fewer
// and 0.2 MB less, but the loop would wait for the collector.
//
// The loop's own type, reaper, wires rooms together, each of which owns what no
// other touches and can be read by itself:
//
//	place.go     place: the abilities of this container, and OOM scores
//	table.go     children: the table, and each child's state in it; wire/PROTOCOL.md is its specification
//	expiry.go    deadlines: of children, and the end of all that is theirs
//	leftover.go  orphans: which there are, and whose, by their tags
//	commands.go  commands: a request held against the policy and turned into a command;
//	             files.go, isolate.go: the parts of that
//	spares.go    the threads that the runtime is made to have
//	kill.go      signaller: signals, also without CAP_KILL
//	held.go      held: descriptors that tier 2 has had us keep
//	close.go     its closer: closing what may make close(2) wait
//	pair.go      pair: what tier 2 is owed, derived from the table, and the socket
//	budget.go    its budget: of what tier 2 may ask for
//	tier2.go     tier2: its life, and whether it is of use
//	room.go      its room: the acts where the limit on processes is used up
//	main.go      mainCommand: its process and the terminal
//	stop.go      stop: the end of the container; everyone.go the processes to be ended
//
// The reaper itself:
//
//	boot.go      from the command line to the loop
//	prepare.go   the children that put the volume in order first, and read from it
//	loop.go      the rooms; the loop: its events, and timers
//	requests.go  messages of tier 2, and a child's way through the table
//	spawn.go     a spawn, from the request to its end
//	wait.go      ends of children and of orphans
//
// After boot it opens nothing but files in /proc, starts no thread, and nothing
// makes it exit before the container shall end. It is the only caller of wait.
//
// Packages below it know nothing of the loop or of the table: sys holds what is
// special about the system calls, threads the threads that spawn, leaves the cgroups of
// services and jobs, runtimedir the runtime directory that is made at boot, proc what is
// read of /proc, say the lines for people, and footprint how a process at rest gives
// memory back. Package pure is the init for a container without a configuration.
package reap
