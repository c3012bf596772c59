package reap

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
	"rlminit/wire"
)

// closer closes what tier 2 has passed, which may be anything, a socket too that
// was told to linger: its last close waits until the peer has read everything,
// however long, SO_LINGER of socket(7). A signal ends that wait, and the closing
// goes on in the kernel. So while a socket is closed a timer sends
// signals to our thread; SIGCHLD, as its handler only has children looked after.
//
// No signal ends a wait for the server of a FUSE file system, which is told of each
// close of a file, and need not answer. So files are closed by a child, which is an
// orphan as any other to us.
type closer struct {
	timer  int32 // timer_create(2); -1: there is none, and closing may wait
	left   []int // files that no process could be had for
	budget *budget
}

// closePatience is how long closing one descriptor may wait, in ns.
const closePatience = 200_000

// sigevent is struct sigevent of timer_create(2).
type sigevent struct {
	value          uint64
	signal, notify int32
	thread         int32
	_              [44]byte
}

const sigevThreadID = 4

// open makes the timer, for the thread that closes.
func (c *closer) open() {
	event := sigevent{signal: sys.SIGCHLD, notify: sigevThreadID, thread: sys.Gettid()}
	if _, _, errno := unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC,
		uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&c.timer))); errno != 0 {
		c.timer = -1
	}
}

// fill takes the numbers to which children put what they are to have, before anything
// is received: what lies there in their copy of our table they close, while a thread
// of ours waits for them.
func (c *closer) fill() {
	fd := 0
	for fd >= 0 && fd < wire.MaxDescriptors {
		fd, _ = unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 0)
	}
	unix.Close(fd)
}

// wake has the signal sent every so many nanoseconds; 0 for no more.
func (c *closer) wake(every int64) {
	if c.timer < 0 {
		return
	}
	period := [2]unix.Timespec{unix.NsecToTimespec(every), unix.NsecToTimespec(every)}
	unix.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(c.timer), 0, uintptr(unsafe.Pointer(&period)), 0, 0, 0)
}

// close closes descriptors that tier 2 has passed.
func (c *closer) close(fds []int) {
	if len(fds)+len(c.left) == 0 {
		return
	}
	fds, c.left = append(c.left, fds...), nil
	for _, fd := range fds {
		switch wire.ClosingOf(fd) {
		case wire.Prompt:
			unix.Close(fd)
		case wire.Lingers:
			c.wake(closePatience)
			unix.Close(fd)
			c.wake(0)
		case wire.Hangs:
			if !c.apart(fd) {
				c.left = append(c.left, fd)
			}
		}
	}
}

// apart has a child close a file.
func (c *closer) apart(fd int) bool {
	c.budget.spent += apartCost
	command := sys.Command{Fds: []int32{int32(fd)}}
	command.Start()
	sys.Close(command.PIDFD)
	return command.PID != 0
}
