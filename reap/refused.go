package reap

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
)

// needed are the system calls, beside those of any init, that have no other way: here, in the
// supervisor or in the programs between the two. Where the place refuses one, the container
// would end with a trace of Go's runtime, hang, or lose what a job says. Each is made once, at
// the start, which takes some 10 us together.
//
// setresuid and setresgid change nothing with these arguments.
var needed = [...]sys.Probe{
	{Name: "accept4", Number: unix.SYS_ACCEPT4, A: sys.None},
	{Name: "bind", Number: unix.SYS_BIND, A: sys.None},
	{Name: "capset", Number: unix.SYS_CAPSET},
	{Name: "dup3", Number: unix.SYS_DUP3, A: sys.None, B: sys.None},
	{Name: "eventfd2", Number: unix.SYS_EVENTFD2, B: sys.None},
	{Name: "listen", Number: unix.SYS_LISTEN, A: sys.None},
	{Name: "lseek", Number: unix.SYS_LSEEK, A: sys.None},
	{Name: "memfd_create", Number: unix.SYS_MEMFD_CREATE},
	{Name: "mkdirat", Number: unix.SYS_MKDIRAT, A: sys.None},
	{Name: "pipe2", Number: unix.SYS_PIPE2, B: sys.None},
	{Name: "prctl", Number: unix.SYS_PRCTL, A: sys.None},
	{Name: "sendmsg", Number: unix.SYS_SENDMSG, A: sys.None},
	{Name: "setresgid", Number: unix.SYS_SETRESGID, A: sys.None, B: sys.None, C: sys.None},
	{Name: "setresuid", Number: unix.SYS_SETRESUID, A: sys.None, B: sys.None, C: sys.None},
	{Name: "setsockopt", Number: unix.SYS_SETSOCKOPT, A: sys.None},
	{Name: "socket", Number: unix.SYS_SOCKET, A: unix.AF_UNIX, B: noType},
	{Name: "socketpair", Number: unix.SYS_SOCKETPAIR, A: unix.AF_UNIX, B: noType},
	{Name: "tgkill", Number: unix.SYS_TGKILL, A: sys.None, B: sys.None},
	{Name: "unlinkat", Number: unix.SYS_UNLINKAT, A: sys.None},
	{Name: "waitid", Number: unix.SYS_WAITID, A: unix.P_PID, B: sys.Nobody, D: unix.WNOHANG | unix.WEXITED},
}

const noType = 0x10 // no type of socket, and no flag

// refusedCall says which of the calls that are needed the place refuses; "": none.
func refusedCall() string {
	call, errno := sys.Refused(sys.Needed[:])
	if call == "" {
		call, errno = sys.Refused(needed[:])
	}
	// setsid(2) of a group's leader does nothing, and says EPERM.
	if _, e := sys.Call(setsidOfLeader(), 0, 0, 0, 0, 0, 0); call == "" && sys.Errno(e) == sys.ENOSYS {
		call, errno = "setsid", sys.ENOSYS
	}
	// Where the kernel does not know getrandom, there is /dev/urandom.
	if _, e := sys.Call(unix.SYS_GETRANDOM, 0, 0, sys.None, 0, 0, 0); call == "" && sys.Errno(e) == sys.EPERM {
		call, errno = "getrandom", sys.EPERM
	}
	if call == "" {
		return ""
	}
	return "this place refuses the system call " + call + " (" + errno.String() + "); allow it in the container's seccomp profile"
}

// setsidOfLeader is setsid(2) for the leader of a group, and else a call that does nothing.
func setsidOfLeader() uintptr {
	if sys.Getpgid(0) != sys.Getpid() {
		return unix.SYS_GETPID
	}
	return unix.SYS_SETSID
}
