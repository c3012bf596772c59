package main

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// A process that was executed by way of /proc/self/exe, as all that PID 1 starts
// of rlminit are, is called "exe" by ps(1). Here, for main runs on any thread and
// the name of the first is the process's.
func init() {
	var name [16]byte
	if unix.Prctl(unix.PR_GET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0) != nil || string(name[:4]) != "exe\x00" {
		return
	}
	ours := [...]byte{'r', 'l', 'm', 'i', 'n', 'i', 't', 0}
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&ours[0])), 0, 0, 0) // it is for people
}
