package main

import (
	"syscall"

	"rlminit/reap/proc"
)

// limits are what bounds the number of services on a machine.
type limits struct{ descriptors, processes int }

// limitsHere gives this process, and so those that it starts, all descriptors that it
// may have.
func limitsHere() limits {
	var l syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) // of ourselves, which cannot fail
	l.Cur = l.Max
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
	most := min(proc.PIDsLimit(proc.PIDsFiles...),
		uint64(field("/proc/sys/kernel/pid_max", "")), uint64(field("/proc/sys/kernel/threads-max", "")))
	return limits{descriptors: int(min(l.Max, 1<<30)), processes: int(min(most, 1<<30))}
}
