package rights

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"rlminit/isolate"
	"rlminit/wire"
)

// Become makes of this process, which root has executed, one that serves: the
// supervisor's by its ids, and nobody's where files are concerned but for the time of a
// call, as one of the users. The right to change ids is kept where it does nothing by
// itself, and the kernel lets nobody in the process use it for other ids than theirs,
// nor run a program. It must be the first thing that the process does, since every
// thread is changed.
func Become(supervisor, services wire.Identity, profiles wire.Profiles) (*Users, error) {
	u := &Users{own: supervisor, services: services, profiles: profiles}
	lists, err := sealed(append([]uint32{services.GID}, services.Groups...), profiles.Groups)
	if err != nil {
		return nil, fmt.Errorf("cannot keep the users' groups: %w", err)
	}
	u.ofServices, u.ofProfiles = lists[0], lists[1]
	filter := isolate.Users{
		UIDs: []uint32{supervisor.UID, services.UID}, GIDs: []uint32{supervisor.GID, services.GID},
		Low: profiles.Low, High: profiles.High, Groups: lists,
	}.Filter()
	err = take([]step{
		{"no capability that could be had again", bounds},
		{"no groups", every(unix.SYS_SETGROUPS, 0, 0, 0)},
		{"the supervisor's group", every(unix.SYS_SETRESGID, uintptr(supervisor.GID), uintptr(supervisor.GID), uintptr(supervisor.GID))},
		{"a way to keep the right to change ids", every(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0)},
		{"the supervisor's uid", every(unix.SYS_SETRESUID, uintptr(supervisor.UID), uintptr(supervisor.UID), uintptr(supervisor.UID))},
		{"no right but to change ids, for when it is used", capabilities(0, changeIDs)},
		{"no_new_privs", every(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0)},
		{"a filter of system calls", func() syscall.Errno { return install(filter) }},
	})
	return u, errors.Join(err, undumpable())
}

// changeIDs are the capabilities to change ids.
const changeIDs = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID

type step struct {
	what string
	do   func() syscall.Errno
}

func take(steps []step) error {
	// Whatever is made has the mode that was asked for.
	unix.Umask(0o022)
	for _, step := range steps {
		if errno := step.do(); errno != 0 {
			return fmt.Errorf("cannot take on %s: %w", step.what, errno)
		}
	}
	return nil
}

// undumpable: nobody of the same uid is there but the supervisor; and no service ever
// gets near it, for its ids have changed.
func undumpable() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// install has every thread filtered, seccomp(2). A kernel without filters has none:
// then what holds is that there is no capability but the two.
func install(filter []byte) syscall.Errno {
	program := unix.SockFprog{Len: uint16(len(filter) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(unsafe.SliceData(filter)))}
	failed, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if errno == unix.ENOSYS || errno == unix.EINVAL {
		return 0
	}
	if errno == 0 && failed != 0 { // a thread that cannot have it
		return unix.EPERM
	}
	return errno
}

// Unavailable says why no process of this binary could be one that serves; "": it
// could be.
func Unavailable() string {
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_GETPPID, 0, 0, 0); errno != 0 {
		return "this rlminit was built with cgo, and cannot change the ids of its threads; build it with CGO_ENABLED=0, as make does"
	}
	return ""
}

// every is a system call that each thread makes. setfsuid(2) returns what was
// before, and no error.
func every(number, a, b, c uintptr) func() syscall.Errno {
	return func() syscall.Errno {
		_, _, errno := syscall.AllThreadsSyscall6(number, a, b, c, 0, 0, 0)
		return errno
	}
}

// bounds empties the bounding set where CAP_SETPCAP allows it; without that,
// no_new_privs and the empty sets are what holds.
func bounds() syscall.Errno {
	for capability := uintptr(0); ; capability++ {
		if set, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, capability, 0, 0, 0); err != nil || set < 0 {
			return 0 // there are no more
		} else if set == 1 && every(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, capability, 0)() != 0 {
			return 0
		}
	}
}

// capabilities makes two sets those of each thread.
func capabilities(effective, permitted uint32) func() syscall.Errno {
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := &[2]unix.CapUserData{{Effective: effective, Permitted: permitted}}
	return func() syscall.Errno {
		defer runtime.KeepAlive(data)
		return every(unix.SYS_CAPSET, uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(data)), 0)()
	}
}
