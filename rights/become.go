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
// supervisor's by its ids, and the user's where files are concerned. It must be
// the first thing that the process does, since every thread is changed.
func Become(supervisor, user wire.Identity) error {
	err := take(append(identified(supervisor, append([]uint32{user.GID}, user.Groups...)),
		step{"the user's gid for files", every(unix.SYS_SETFSGID, uintptr(user.GID), 0, 0)},
		step{"the user's uid for files", every(unix.SYS_SETFSUID, uintptr(user.UID), 0, 0)},
		step{"no capability", capabilities(0, 0)},
		unprivileged,
	))
	if err == nil {
		err = isFor(user.UID, user.GID)
	}
	return errors.Join(err, undumpable())
}

// BecomeEach is Become for all users of profiles: a thread takes on one of them for
// as long as it takes to do what is asked in its name. The right to change ids is
// kept where it does nothing by itself, and the kernel lets nobody in the process
// use it for other ids than theirs, nor run a program.
func BecomeEach(supervisor wire.Identity, of wire.Profiles) (*Users, error) {
	filter := isolate.UsersFilter(of.Low, of.High, supervisor.UID, supervisor.GID)
	err := take(append(identified(supervisor, of.Groups),
		step{"no right but that, for when it is used", capabilities(0, changeIDs)},
		unprivileged,
		step{"a filter of system calls", func() syscall.Errno { return install(filter) }},
	))
	return &Users{own: supervisor, of: of}, errors.Join(err, undumpable())
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

// identified makes every id the supervisor's, and leaves nothing but the right to
// change them.
func identified(supervisor wire.Identity, groups []uint32) []step {
	first := unsafe.Pointer(unsafe.SliceData(groups))
	return []step{
		{"no capability that could be had again", bounds},
		{"the user's groups", func() syscall.Errno {
			defer runtime.KeepAlive(groups)
			return every(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0)()
		}},
		{"the supervisor's group", every(unix.SYS_SETRESGID, uintptr(supervisor.GID), uintptr(supervisor.GID), uintptr(supervisor.GID))},
		{"a way to keep the right to change ids", every(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0)},
		{"the supervisor's uid", every(unix.SYS_SETRESUID, uintptr(supervisor.UID), uintptr(supervisor.UID), uintptr(supervisor.UID))},
		{"the right to change ids", capabilities(changeIDs, changeIDs)},
	}
}

var unprivileged = step{"no_new_privs", every(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0)}

// undumpable: nobody of the same uid is there but the supervisor; and no service ever
// gets near it, for its ids have changed.
func undumpable() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// isFor tells whether the kernel takes the calling thread for a user where files are
// concerned; setfsuid(2) does not say.
func isFor(uid, gid uint32) error {
	if is, err := unix.SetfsuidRetUid(-1); err != nil || is != int(uid) {
		return fmt.Errorf("cannot take on uid %d for files: the kernel refuses", uid)
	}
	if is, err := unix.SetfsgidRetGid(-1); err != nil || is != int(gid) {
		return fmt.Errorf("cannot take on gid %d for files: the kernel refuses", gid)
	}
	return nil
}

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
