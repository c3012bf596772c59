package sys

// DoubleFork leaves a process behind that has exited and is nobody's child but
// the next init's.
//
//go:norace
func DoubleFork() {
	entersyscall()
	beforeFork()
	pid, errno := vforkTwice()
	afterFork()
	exitsyscall()
	if errno == 0 {
		Collect(int32(pid))
	}
}

//go:nosplit
//go:norace
//go:noinline
func vforkTwice() (pid, errno uintptr) {
	pid, errno = vfork(cloneVM|cloneVfork|SIGCHLD, nil)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	vfork(cloneVM|cloneVfork|SIGCHLD, nil) // both return here, the grandchild first
	for {
		Call(sysExitGroup, 0, 0, 0, 0, 0, 0)
	}
}
