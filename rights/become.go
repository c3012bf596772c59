package rights

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"rlminit/wire"
)

// Become makes of this process, which root has executed, one that serves: the
// supervisor's by its ids, and the user's where files are concerned. It must be
// the first thing that the process does, since every thread is changed.
func Become(supervisor, user wire.Identity) error {
	// Whatever is made has the mode that was asked for.
	unix.Umask(0o022)
	groups := append([]uint32{user.GID}, user.Groups...)
	steps := []struct {
		what string
		do   func() syscall.Errno
	}{
		{"no capability that could be had again", bounds},
		{"the user's groups", every(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0)},
		{"the supervisor's group", every(unix.SYS_SETRESGID, uintptr(supervisor.GID), uintptr(supervisor.GID), uintptr(supervisor.GID))},
		{"a way to keep the right to change ids", every(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0)},
		{"the supervisor's uid", every(unix.SYS_SETRESUID, uintptr(supervisor.UID), uintptr(supervisor.UID), uintptr(supervisor.UID))},
		{"the right to change ids", capabilities(1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID)},
		{"the user's gid for files", every(unix.SYS_SETFSGID, uintptr(user.GID), 0, 0)},
		{"the user's uid for files", every(unix.SYS_SETFSUID, uintptr(user.UID), 0, 0)},
		{"no capability", capabilities(0)},
		{"no_new_privs", every(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0)},
	}
	for _, step := range steps {
		if errno := step.do(); errno != 0 {
			return fmt.Errorf("cannot take on %s: %w", step.what, errno)
		}
	}
	runtime.KeepAlive(groups)
	if uid, err := unix.SetfsuidRetUid(-1); err != nil || uid != int(user.UID) {
		return fmt.Errorf("cannot take on uid %d for files: the kernel refuses", user.UID)
	}
	if gid, err := unix.SetfsgidRetGid(-1); err != nil || gid != int(user.GID) {
		return fmt.Errorf("cannot take on gid %d for files: the kernel refuses", user.GID)
	}
	// Nobody of the same uid is there but the supervisor; and no service ever gets
	// near it, for its ids have changed.
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
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

// capabilities makes a set that of each thread, and its effective one.
func capabilities(set uint32) func() syscall.Errno {
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := &[2]unix.CapUserData{{Effective: set, Permitted: set}}
	return func() syscall.Errno {
		defer runtime.KeepAlive(data)
		return every(unix.SYS_CAPSET, uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(data)), 0)()
	}
}
