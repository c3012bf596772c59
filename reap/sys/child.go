package sys

import "unsafe"

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

func vfork(flags uintptr, pidfd *int32) (pid, errno uintptr)

func vfork3(args *cloneArgs) (pid, errno uintptr)

// Flags of clone(2) and clone3(2).
const (
	cloneSignal     = 0xff // what clone(2) has for the signal of the child's end
	cloneVM         = 0x00000100
	cloneFiles      = 0x00000400
	clonePIDFD      = 0x00001000
	cloneVfork      = 0x00004000
	cloneIntoCgroup = 0x200000000
)

// cloneArgs is struct clone_args of clone3(2).
type cloneArgs struct {
	flags, pidfd uint64
	_            [2]uint64 // where to write its number
	exitSignal   uint64
	_            [5]uint64 // stack, TLS, numbers of its own
	cgroup       uint64
}

// Start makes the process and returns when it has executed its program or
// failed. It may wait as long as the file systems do on which the program and
// its directory lie; the collector and all other goroutines go on meanwhile.
//
// An error of a step is in c.Step and c.Errno, and such a child has exited but
// not been waited for. PID is 0 if there never was one.
//
//go:nosplit
//go:norace
func (c *Command) Start() {
	entersyscall() // lets go of the scheduler's processor
	c.start()
	exitsyscall()
}

// start is Start for a goroutine that the scheduler knows to be in a system call.
//
//go:nosplit
//go:norace
func (c *Command) start() {
	c.PID, c.PIDFD, c.Step, c.Errno, c.born.joins = 0, -1, StepFork, 0, false
	flags := uintptr(cloneVM | cloneVfork | SIGCHLD)
	switch {
	case len(c.argv) == 0 && c.Kill == nil:
		flags = cloneFiles | SIGCHLD
	case c.few:
		flags |= cloneFiles
	}
	pid, errno := c.fork(flags | clonePIDFD)
	if c.Cgroup != 0 {
		switch Errno(errno) {
		case EINVAL, EPERM, EACCES, ENOSYS, E2BIG:
			// An older kernel, or an engine's profile that knows no clone3(2): the
			// child goes to its cgroup before it does anything else.
			c.PIDFD, c.born.joins = -1, true
			pid, errno = c.fork(flags | clonePIDFD)
		}
	}
	switch Errno(errno) {
	case EINVAL, EPERM, ENOSYS, EMFILE:
		// No pidfd here, or no descriptor left for one.
		c.PIDFD = -1
		pid, errno = c.fork(flags)
	}
	if errno != 0 {
		// clone(2) that fails late, at the limit on processes, has written the number
		// of a pidfd that it took back: it may be another descriptor's by now.
		c.PID, c.PIDFD, c.Step, c.Errno = 0, -1, StepFork, Errno(errno)
		return
	}
	c.PID = int32(pid)
}

// fork brackets the vfork for the runtime: beforeFork blocks all signals, so
// that no handler of ours runs in the child, in memory that it shares.
//
//go:nosplit
//go:norace
func (c *Command) fork(flags uintptr) (pid, errno uintptr) {
	beforeFork()
	pid, errno = c.vfork(flags)
	afterFork()
	return pid, errno
}

// vfork returns in the parent alone, and at once: this frame is shared with
// the child, which has been through it before the parent continues.
//
//go:nosplit
//go:norace
//go:noinline
func (c *Command) vfork(flags uintptr) (pid, errno uintptr) {
	if c.Cgroup != 0 && !c.born.joins {
		a := &c.born.args
		a.flags, a.exitSignal = uint64(flags&^cloneSignal|cloneIntoCgroup), uint64(flags&cloneSignal)
		a.pidfd, a.cgroup = uint64(uintptr(unsafe.Pointer(&c.PIDFD))), uint64(c.Cgroup)
		pid, errno = vfork3(a)
	} else {
		pid, errno = vfork(flags, &c.PIDFD)
	}
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	c.child()
	for {
		Call(sysExitGroup, childFailed, 0, 0, 0, 0, 0)
	}
}

// childFailed is the exit code of a child that did not get to its program.
// Nobody is shown it: Step and Errno tell more.
const childFailed = 125

// child runs in the new process. It returns only if a step failed, which is
// then in Step and Errno.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *Command) child() {
	if len(c.argv) == 0 && c.Kill == nil {
		for _, fd := range c.Fds {
			try(sysClose, uintptr(fd), 0, 0)
		}
		return
	}
	pid, _ := Call(sysGetpid, 0, 0, 0, 0, 0, 0)
	c.PID, c.StartTime = int32(pid), ticks()
	if c.born.joins {
		if c.Errno = c.join(); c.Errno != 0 {
			return
		}
	}
	if c.few {
		c.Step = StepDescriptors
		if c.Errno = try(sysCloseRange, copied, ^uintptr(0)>>32, closeRangeUnshare); c.Errno != 0 {
			return
		}
	}
	if c.Room > 0 && len(c.Fds) > 0 {
		Widen(c.Fds[0], c.Room)
	}
	if c.Errno = c.standing(); c.Errno != 0 {
		return
	}
	// Before the limits are set: PID 1 may hold more descriptors than the
	// process shall have, and then none is free below its limit.
	if c.Errno = c.descriptors(); c.Errno != 0 {
		return
	}
	if c.Errno = c.resources(); c.Errno != 0 {
		return
	}
	if c.Errno = c.identity(); c.Errno != 0 {
		return
	}
	if c.Kill != nil {
		_, errno := Call(sysKill, uintptr(c.Kill.PID), uintptr(c.Kill.Signal), 0, 0, 0, 0)
		c.Step, c.Errno = StepExec, Errno(errno)
		return
	}
	if c.Errno = c.restrict(); c.Errno != 0 {
		return
	}
	// As the target user, so that root does not enter where the user may not.
	if c.Dirs[0] != nil {
		c.Step = StepDir
		c.Errno = try(sysChdir, uintptr(unsafe.Pointer(c.Dirs[0])), 0, 0)
		if c.Errno != 0 && c.Dirs[1] != nil {
			c.Errno = try(sysChdir, uintptr(unsafe.Pointer(c.Dirs[1])), 0, 0)
		}
		if c.Errno != 0 {
			return
		}
	}
	if c.ListenPID != nil {
		c.writeListenPID()
	}
	if c.Errno = c.signals(); c.Errno != 0 {
		return
	}
	if c.Errno = c.filter(); c.Errno != 0 {
		return
	}
	c.Step = StepExec
	c.Errno = c.exec()
}

// try makes a system call of which only the error matters.
//
//go:nosplit
//go:norace
func try(trap, a1, a2, a3 uintptr) Errno {
	_, errno := Call(trap, a1, a2, a3, 0, 0, 0)
	return Errno(errno)
}

// join moves the process into its cgroup.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *Command) join() Errno {
	c.Step = StepCgroup
	fd, errno := Call(sysOpenat, uintptr(c.Cgroup), uintptr(unsafe.Pointer(&cgroupProcs)), openWriteOnly|openCloexec, 0, 0, 0)
	if errno == 0 {
		_, errno = Call(sysWrite, fd, uintptr(unsafe.Pointer(&cgroupSelf)), 1, 0, 0, 0)
		Call(sysClose, fd, 0, 0, 0, 0, 0)
	}
	return Errno(errno)
}

// standing puts the process into its session and process group.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *Command) standing() Errno {
	c.Step = StepSession
	switch c.Session {
	case OwnSession:
		return try(sysSetsid, 0, 0, 0)
	case ForegroundGroup:
		if errno := try(sysSetpgid, 0, 0, 0); errno != 0 {
			return errno
		}
		c.Step = StepTerminal
		// SIGTTOU is blocked, so this works from the background too. ENOTTY: no
		// terminal, or not the one of our session; ENXIO: some container
		// runtimes' terminal that is not connected yet.
		errno := try(sysIoctl, uintptr(c.Terminal), ioctlSetForeground, uintptr(unsafe.Pointer(&c.PID)))
		c.TerminalErrno = errno
		if errno != ENOTTY && errno != ENXIO && errno != EBADF {
			return errno
		}
	case TerminalSession:
		if errno := try(sysSetsid, 0, 0, 0); errno != 0 {
			return errno
		}
		c.TerminalErrno = try(sysIoctl, uintptr(c.Terminal), ioctlSetControlling, 0)
	}
	return 0
}

// resources sets what must be in force before the privileges to set it go.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *Command) resources() Errno {
	try(sysPrctl, prSetTimerSlack, max(c.TimerSlack, startSlack), 0) // or not, in a sandbox that knows none
	if len(c.OOMScore) > 0 && !Undumpable {
		c.Step = StepOOMScore
		// No /proc, or one that is read-only: done without, as said at start.
		fd, errno := Call(sysOpenat, atCwd, uintptr(unsafe.Pointer(&oomScore)), openWriteOnly|openCloexec, 0, 0, 0)
		if errno == 0 {
			Call(sysWrite, fd, uintptr(unsafe.Pointer(&c.OOMScore[0])), uintptr(len(c.OOMScore)), 0, 0, 0)
			Call(sysClose, fd, 0, 0, 0, 0, 0)
		}
	}
	if c.SetUmask {
		Call(sysUmask, uintptr(c.Umask), 0, 0, 0, 0, 0)
	}
	c.Step = StepRlimit
	for i := range c.Rlimits {
		l := &c.Rlimits[i]
		if errno := try(sysPrlimit64, 0, uintptr(l.Resource), uintptr(unsafe.Pointer(l))); errno != 0 {
			return errno
		}
	}
	return 0
}

// identity gives up what the process shall not have, in the one order in which
// each step still may be taken.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *Command) identity() Errno {
	if c.SetBounds {
		c.Step = StepBounding
		if errno := dropBounds(c.Caps); errno != 0 {
			return errno
		}
	}
	if c.SetGroups {
		c.Step = StepGroups
		if errno := SetGroups(c.Groups); errno != 0 {
			return errno
		}
	}
	if errno := c.share(); errno != 0 {
		return errno
	}
	if c.SetIDs {
		c.Isolation.make(c.UID, c.GID)
		c.Step = StepGID
		effective := c.GID
		if c.EffectiveGID != 0 {
			effective = c.EffectiveGID
		}
		if errno := try(sysSetresgid, uintptr(c.GID), uintptr(effective), uintptr(c.GID)); errno != 0 {
			return errno
		}
		c.Step = StepUID
		if c.Caps != 0 {
			if errno := try(sysPrctl, prSetKeepcaps, 1, 0); errno != 0 {
				return errno
			}
		}
		if errno := try(sysSetresuid, uintptr(c.UID), uintptr(c.UID), uintptr(c.UID)); errno != 0 {
			return errno
		}
		// The kernel has just made our common memory undumpable, so that the
		// user cannot trace the child into PID 1, unless fs.suid_dumpable is
		// 1: insist.
		try(sysPrctl, prSetDumpable, 0, 0)
	}
	if c.SetCaps {
		c.Step = StepCapabilities
		if errno := c.capabilities(); errno != 0 {
			return errno
		}
	}
	if c.NoNewPrivs {
		c.Step = StepNoNewPrivs
		return try(sysPrctl, prSetNoNewPrivs, 1, 0)
	}
	return 0
}

// dropBounds leaves of the thread's bounding set those that are in caps.
//
//go:nosplit
//go:norace
func dropBounds(caps uint64) Errno {
	for i := uintptr(0); i < 64; i++ {
		if caps&(1<<i) != 0 {
			continue
		}
		if errno := try(sysPrctl, prCapbsetDrop, i, 0); errno == EINVAL {
			break // beyond the last capability of this kernel
		} else if errno != 0 {
			return errno
		}
	}
	return 0
}

// capabilities makes Caps the permitted, effective, inheritable and ambient
// sets, capabilities(7).
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *Command) capabilities() Errno {
	try(sysPrctl, prCapAmbient, prCapAmbientClear, 0)
	low, high := uint32(c.Caps), uint32(c.Caps>>32)
	header := [2]uint32{capabilityVersion3, 0}
	data := [6]uint32{low, low, low, high, high, high}
	if errno := try(sysCapset, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data)), 0); errno != 0 {
		return errno
	}
	for i := uintptr(0); i < 64; i++ {
		if c.Caps&(1<<i) == 0 {
			continue
		}
		if errno := try(sysPrctl, prCapAmbient, prCapAmbientRaise, i); errno != 0 {
			return errno
		}
	}
	return 0
}

// descriptors puts Fds to the numbers in Targets. A source that lies where a
// target will be is moved out of the way first.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *Command) descriptors() Errno {
	c.Step = StepDescriptors
	above := int32(2)
	for _, target := range c.Targets {
		if target > above {
			above = target
		}
	}
	for i, fd := range c.Fds {
		if fd > above {
			continue
		}
		moved, errno := Call(sysFcntl, uintptr(fd), fDupfdCloexec, uintptr(above+1), 0, 0, 0)
		if errno != 0 {
			return Errno(errno)
		}
		c.Fds[i] = int32(moved)
	}
	for _, ruleset := range [...]*int32{&c.Enclosure.Ruleset, &c.Isolation.Ruleset, &c.Isolation.Credentials, &c.Isolation.Notify} {
		if *ruleset == 0 || *ruleset > above {
			continue
		}
		moved, errno := Call(sysFcntl, uintptr(*ruleset), fDupfdCloexec, uintptr(above+1), 0, 0, 0)
		if errno != 0 {
			return Errno(errno)
		}
		*ruleset = int32(moved)
	}
	for i, fd := range c.Fds {
		if errno := try(sysDup3, uintptr(fd), uintptr(c.Targets[i]), 0); errno != 0 {
			return errno
		}
	}
	for i := range c.CloseStdio {
		if c.CloseStdio[i] {
			Call(sysClose, uintptr(i), 0, 0, 0, 0, 0)
		}
	}
	return 0
}

// writeListenPID puts the digits of our pid behind "LISTEN_PID=".
//
//go:nosplit
//go:norace
func (c *Command) writeListenPID() {
	digits := 1
	for n := c.PID; n >= 10; n /= 10 {
		digits++
	}
	n := c.PID
	for i := digits - 1; i >= 0; i-- {
		c.ListenPID[len(listenPID)+i] = byte('0' + n%10)
		n /= 10
	}
	c.ListenPID[len(listenPID)+digits] = 0
}

// signals sets dispositions before it unblocks: execve resets handlers, but a
// signal that arrives before it must not run the runtime's in memory that both
// processes share. Catch's knows a child.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *Command) signals() Errno {
	c.Step = StepSignals
	var action sigaction
	for s := int32(1); s <= lastSignal; s++ {
		action.handler = sigDefault
		if c.Ignored&(1<<(s-1)) != 0 {
			action.handler = sigIgnore
		}
		if s == SIGKILL || s == SIGSTOP || action.handler == sigDefault && caught&(1<<(s-1)) != 0 {
			continue
		}
		if _, errno := Call(sysRtSigaction, uintptr(s), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0); errno != 0 {
			return Errno(errno)
		}
	}
	_, errno := Call(sysRtSigprocmask, sigSetMask, uintptr(unsafe.Pointer(&c.Mask)), 0, 8, 0, 0)
	return Errno(errno)
}

// exec tries one path after the other, and goes on after the same errors as
// execvp(3).
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *Command) exec() Errno {
	failure := ENOENT
	for _, path := range c.paths {
		errno := c.execve(path, c.argv)
		if errno == ENOEXEC && len(c.shell) > 0 {
			// As a number: a pointer would pass the collector's barrier, which
			// is not for a child. c.paths keeps it alive.
			*(*uintptr)(unsafe.Pointer(&c.shell[1])) = uintptr(unsafe.Pointer(path))
			errno = c.execve(&binSh[0], c.shell)
		}
		switch errno {
		case EACCES:
			failure = EACCES
		case ENOENT, ENOTDIR, ENODEV, ESTALE, ETIMEDOUT:
			if failure != EACCES {
				failure = errno
			}
		default:
			return errno
		}
	}
	return failure
}

//go:nosplit
//go:norace
//go:nocheckptr
func (c *Command) execve(path *byte, argv []*byte) Errno {
	return try(sysExecve, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(unsafe.SliceData(argv))), uintptr(unsafe.Pointer(unsafe.SliceData(c.envp))))
}

const (
	openWriteOnly = 0x1
	openCloexec   = 0x80000
	fDupfdCloexec = 1030

	prSetDumpable     = 4
	prSetTimerSlack   = 29
	prSetKeepcaps     = 8
	prCapbsetDrop     = 24
	prSetNoNewPrivs   = 38
	prCapAmbient      = 47
	prCapAmbientClear = 4
	prCapAmbientRaise = 2

	capabilityVersion3 = 0x20080522
)
