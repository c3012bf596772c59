package sys

import "unsafe"

// Errno is an error number, errno(3). 0 is no error.
type Errno uintptr

// The error numbers that are told apart here.
const (
	EPERM     Errno = 1
	ENOENT    Errno = 2
	ESRCH     Errno = 3
	EINTR     Errno = 4
	ENXIO     Errno = 6
	E2BIG     Errno = 7
	ENOEXEC   Errno = 8
	ECHILD    Errno = 10
	EAGAIN    Errno = 11
	ENOMEM    Errno = 12
	EACCES    Errno = 13
	EEXIST    Errno = 17
	ENODEV    Errno = 19
	ENOTDIR   Errno = 20
	EBADF     Errno = 9
	EFAULT    Errno = 14
	EISDIR    Errno = 21
	ELOOP     Errno = 40
	EINVAL    Errno = 22
	EMFILE    Errno = 24
	ENOTTY    Errno = 25
	ENOSYS    Errno = 38
	ESTALE    Errno = 116
	ETIME     Errno = 62
	ETIMEDOUT Errno = 110
)

// Call makes a system call that does not block for long: the scheduler is not
// told of it.
func Call(trap, a1, a2, a3, a4, a5, a6 uintptr) (r1, errno uintptr)

//go:linkname entersyscall runtime.entersyscall
func entersyscall()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

// blockingCall makes a system call that may wait. Pointers among its arguments
// must be to what the collector does not move or free: package variables.
//
//go:nosplit
func blockingCall(trap, a1, a2, a3, a4, a5, a6 uintptr) (r1, errno uintptr) {
	entersyscall()
	r1, errno = Call(trap, a1, a2, a3, a4, a5, a6)
	exitsyscall()
	return r1, errno
}

// Getpid returns the process id.
func Getpid() int32 {
	pid, _ := Call(sysGetpid, 0, 0, 0, 0, 0, 0)
	return int32(pid)
}

// Gettid returns the thread id, which is the process id on the first thread.
func Gettid() int32 {
	tid, _ := Call(sysGettid, 0, 0, 0, 0, 0, 0)
	return int32(tid)
}

// Getpgid returns the process group of a process, or of the caller for 0.
func Getpgid(pid int32) int32 {
	group, _ := Call(sysGetpgid, uintptr(pid), 0, 0, 0, 0, 0)
	return int32(group)
}

// Getsid returns the session of a process, or of the caller for 0.
func Getsid(pid int32) int32 {
	session, _ := Call(sysGetsid, uintptr(pid), 0, 0, 0, 0, 0)
	return int32(session)
}

// Kill is kill(2).
func Kill(pid, signal int32) Errno { return try(sysKill, uintptr(pid), uintptr(signal), 0) }

// Close closes a descriptor, or none: -1. Its error is of no use: the descriptor is
// gone, close(2).
func Close(fd int32) { Call(sysClose, uintptr(fd), 0, 0, 0, 0, 0) }

// Exit ends the process with all its threads.
func Exit(code int) {
	for {
		Call(sysExitGroup, uintptr(code), 0, 0, 0, 0, 0)
	}
}

// Write writes once and forgets errors: there is nobody to tell. Where write(2) is refused, that
// is said by writev(2).
func Write(fd int32, b []byte) {
	if len(b) == 0 {
		return
	}
	at := unsafe.Pointer(&b[0])
	if _, errno := Call(sysWrite, uintptr(fd), uintptr(at), uintptr(len(b)), 0, 0, 0); isRefusal(errno) {
		vector := struct {
			at     unsafe.Pointer
			length uintptr
		}{at, uintptr(len(b))}
		Call(sysWritev, uintptr(fd), uintptr(unsafe.Pointer(&vector)), 1, 0, 0, 0)
	}
}

// Exists tells whether there is a file of that name.
func Exists(path string) bool {
	_, errno := Call(sysFaccessat, atCwd, uintptr(unsafe.Pointer(cstring(path))), 0, 0, 0, 0)
	return errno == 0
}

// Prctl is prctl(2).
func Prctl(option, arg uintptr) Errno { return try(sysPrctl, option, arg, 0) }

// IsSubreaper tells whether this process is given the orphans below it,
// PR_GET_CHILD_SUBREAPER of prctl(2).
func IsSubreaper() bool {
	var set int32
	return Prctl(prGetChildSubreaper, uintptr(unsafe.Pointer(&set))) == 0 && set == 1
}

const prGetChildSubreaper = 37

// SetGroups sets the supplementary groups of this thread alone, setgroups(2).
//
//go:nosplit
//go:norace
//go:nocheckptr
func SetGroups(groups []uint32) Errno {
	return try(sysSetgroups, uintptr(len(groups)), uintptr(unsafe.Pointer(unsafe.SliceData(groups))), 0)
}

// Foreground returns the foreground process group of a terminal, 0 where fd is
// none or not the controlling one.
func Foreground(fd int32) int32 {
	var group int32
	if _, errno := Call(sysIoctl, uintptr(fd), ioctlGetForeground, uintptr(unsafe.Pointer(&group)), 0, 0, 0); errno != 0 {
		return 0
	}
	return group
}

// SetForeground makes a process group the terminal's foreground group. The
// caller must ignore or block SIGTTOU.
func SetForeground(fd, group int32) Errno {
	return try(sysIoctl, uintptr(fd), ioctlSetForeground, uintptr(unsafe.Pointer(&group)))
}

// LeaveTerminal gives up the controlling terminal, TIOCNOTTY of tty_ioctl(4).
func LeaveTerminal(fd int32) Errno { return try(sysIoctl, uintptr(fd), ioctlLeaveTerminal, 0) }

// OpenTerminal opens the controlling terminal; the descriptor is -1 where there
// is none.
func OpenTerminal() (int32, Errno) {
	fd, errno := Call(sysOpenat, atCwd, uintptr(unsafe.Pointer(cstring("/dev/tty"))), openReadWrite|openCloexec, 0, 0, 0)
	if errno != 0 {
		return -1, Errno(errno)
	}
	return int32(fd), 0
}

// Chdir changes the working directory.
func Chdir(path string) Errno { return try(sysChdir, uintptr(unsafe.Pointer(cstring(path))), 0, 0) }

// A Wait is what Reap found.
type Wait struct {
	PID    int32
	Status uint32 // as of wait(2)
}

// Reap collects one child that ended, or reports one that stopped, wait4(2).
// PID is 0 where none has, and the error ECHILD where there is no child at all.
func Reap() (w Wait, errno Errno) {
	pid, e := Call(sysWait4, ^uintptr(0), uintptr(unsafe.Pointer(&w.Status)), waitNoHang|waitUntraced, 0, 0, 0)
	if e != 0 {
		return Wait{}, Errno(e)
	}
	w.PID = int32(pid)
	return w, 0
}

// Stopped returns the signal that stopped the process, or 0.
func (w Wait) Stopped() int32 {
	if w.Status&0xff != 0x7f {
		return 0
	}
	return int32(w.Status >> 8 & 0xff)
}

// Signal returns the signal that ended the process, or 0.
func (w Wait) Signal() int32 {
	if w.Stopped() != 0 {
		return 0
	}
	return int32(w.Status & 0x7f)
}

// Code returns the exit code as a shell gives it: 128 and the signal for one
// that a signal ended.
func (w Wait) Code() int {
	if s := w.Signal(); s != 0 {
		return 128 + int(s)
	}
	return int(w.Status >> 8 & 0xff)
}

const (
	waitNoHang   = 1
	waitUntraced = 2
)

const (
	atCwd              = ^uintptr(99) // AT_FDCWD, -100
	ioctlGetForeground = 0x540f       // TIOCGPGRP
	ioctlSetForeground = 0x5410       // TIOCSPGRP

	ioctlSetControlling = 0x540e // TIOCSCTTY
	ioctlLeaveTerminal  = 0x5422 // TIOCNOTTY
	openReadWrite       = 0x2
)

// cstring returns a NUL-terminated copy.
func cstring(s string) *byte {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return &b[0]
}
