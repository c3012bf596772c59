package main

import (
	"syscall"
	"unsafe"

	"rlminit/control"
)

// overrideWrite is the way of Go's runtime to write a message. It has the first
// word on each process, before anything of this package runs: a runtime that wants
// a thread and gets none ends the process with all stacks, which tells nobody what
// to do.
//
//go:linkname overrideWrite runtime.overrideWrite
var overrideWrite = writeOfRuntime

// noThread is how the runtime begins to say so, in os_linux.go.
const (
	noThread     = "runtime: failed to create new OS thread"
	noThreadLine = "rlminit: cannot go on: the limit on processes and threads is reached (docker run --pids-limit, ulimit -u); end some of them, or raise it\n"
)

// writeOfRuntime is called where nothing may be allocated and the stack cannot grow.
//
//go:nosplit
//go:norace
func writeOfRuntime(fd uintptr, p unsafe.Pointer, n int32) int32 {
	if n >= int32(len(noThread)) && unsafe.String((*byte)(p), len(noThread)) == noThread {
		syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.StringData(noThreadLine))), uintptr(len(noThreadLine)))
		for {
			syscall.RawSyscall(syscall.SYS_EXIT_GROUP, control.ExitFailed, 0, 0)
		}
	}
	written, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(p), uintptr(n))
	if errno != 0 {
		return -int32(errno)
	}
	return int32(written)
}
