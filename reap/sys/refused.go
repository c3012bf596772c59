package sys

// A Probe is a system call with arguments that the kernel refuses before it does anything: with
// EBADF, EFAULT, EINVAL, ECHILD or another error, and never with EPERM or ENOSYS, which are the
// answers of a seccomp filter.
type Probe struct {
	Name       string
	Number     uintptr
	A, B, C, D uintptr
}

// Arguments of probes.
const (
	None   = ^uintptr(0)
	Nobody = 0x7ffffffe // no process has that id
)

// Needed are the calls that an init has no other way for: where the place refuses one, it would
// hang, or end without a word.
var Needed = [...]Probe{
	{Name: "close", Number: sysClose, A: None},
	{Name: "epoll_create1", Number: sysEpollCreate1, A: None},
	{Name: "epoll_ctl", Number: sysEpollCtl, A: None, C: None},
	{Name: "epoll_pwait", Number: sysEpollPwait, A: None},
	{Name: "setpgid", Number: sysSetpgid, B: None},
	{Name: "wait4", Number: sysWait4, A: Nobody, C: waitNoHang},
	{Name: "write", Number: sysWrite, A: None},
}

// Refused is the first of the calls that the place refuses; "": it refuses none.
func Refused(probes []Probe) (name string, errno Errno) {
	for i := range probes {
		p := &probes[i]
		if _, e := Call(p.Number, p.A, p.B, p.C, p.D, 0, 0); isRefusal(e) {
			return p.Name, Errno(e)
		}
	}
	return "", 0
}

func isRefusal(errno uintptr) bool { return Errno(errno) == EPERM || Errno(errno) == ENOSYS }
