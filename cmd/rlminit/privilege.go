package main

import (
	"errors"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"rlminit/control"
)

// drop gives the calling thread the identity of a service: the user, exactly its
// groups, no capability, none to be had by executing a file either. It stays
// bound to the goroutine, for the other threads keep what they had until
// execve(2) ends them.
func drop(e *control.Environment) error {
	runtime.LockOSThread()
	dropBoundingSet()
	groups := make([]uint32, len(e.Groups))
	copy(groups, e.Groups)
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	// By raw system calls, for those of package syscall change every thread
	// and would do it in a process that is about to be replaced.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0); errno != 0 {
		return cannotDrop("the groups", "CAP_SETGID", errno)
	}
	gid, uid := uintptr(e.GID), uintptr(e.UID)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); errno != 0 {
		return cannotDrop("gid "+strconv.Itoa(int(e.GID)), "CAP_SETGID", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
		return cannotDrop("uid "+strconv.Itoa(int(e.UID)), "CAP_SETUID", errno)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return control.Failed("cannot clear the ambient capabilities: %v", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return control.Failed("cannot give up the capabilities: %v", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return control.Failed("cannot set no_new_privs: %v", err)
	}
	return nil
}

// dropBoundingSet empties the bounding set where CAP_SETPCAP allows it; without
// that, no_new_privs and the empty sets are what holds.
func dropBoundingSet() {
	for c := uintptr(0); ; c++ {
		if set, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err != nil || set < 0 {
			return // EINVAL: there are no more
		}
		if unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) != nil {
			return
		}
	}
}

func cannotDrop(what, capability string, errno unix.Errno) error {
	if errno == unix.EPERM {
		return control.NotPermitted("cannot take on %s: %s is missing; start the container with --cap-add %s, or use docker exec -u",
			what, capability, strings.TrimPrefix(capability, "CAP_"))
	}
	return control.Failed("cannot take on %s: %v", what, errno)
}
