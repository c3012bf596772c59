package reap

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
)

// orphans finds the processes that were reparented to us.
type orphans struct {
	list   int  // /proc/self/task/TID/children of the first thread, -1 without
	known  bool // by the list, or by looking through /proc
	buffer [64 << 10]byte
	pids   []int32
}

// open opens the list that the kernel keeps, CONFIG_PROC_CHILDREN.
func (o *orphans) open() {
	fd, err := unix.Open("/proc/thread-self/children", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	o.list = fd
	o.known = fd >= 0 || sys.Exists("/proc/self")
}

// all returns the orphans' pids, good until the next call. They stay good as
// long as none is collected, which only the loop does. What tier 1 itself has
// started hangs on other threads and is not among them.
func (o *orphans) all() []int32 {
	o.pids = o.pids[:0]
	if o.list < 0 {
		o.scan()
		return o.pids
	}
	var pid int32
	for offset := int64(0); ; {
		n, err := unix.Pread(o.list, o.buffer[:], offset)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			break
		}
		offset += int64(n)
		for _, b := range o.buffer[:n] {
			switch {
			case b >= '0' && b <= '9':
				pid = pid*10 + int32(b-'0')
			case pid != 0:
				o.pids = append(o.pids, pid)
				pid = 0
			}
		}
	}
	if pid != 0 {
		o.pids = append(o.pids, pid)
	}
	return o.pids
}

// scan looks at every process instead. It finds our own children as well: they
// are told apart by those who ask.
func (o *orphans) scan() {
	fd, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	self := sys.Getpid()
	for {
		n, err := unix.ReadDirent(fd, o.buffer[:])
		if err != nil || n <= 0 {
			return
		}
		_, _, names := unix.ParseDirent(o.buffer[:n], -1, nil)
		for _, name := range names {
			pid := int32(number([]byte(name)))
			if pid > 0 && parent(pid) == self {
				o.pids = append(o.pids, pid)
			}
		}
	}
}

// leftovers returns the orphans that belong to a child: by its tag, which no
// process without privilege can shed, or where there are no tags by its session
// and process group.
func (r *reaper) leftovers(c *child) []int32 {
	all := r.orphans.all()
	kept := all[:0]
	for _, pid := range all {
		if r.belongs(pid, c) {
			kept = append(kept, pid)
		}
	}
	return kept
}

func (r *reaper) belongs(pid int32, c *child) bool {
	if pid == c.pid || r.own(pid) {
		return false
	}
	if c.tag != 0 && r.place.tags {
		return bearsTag(pid, c.tag)
	}
	return c.pid != 0 && (sys.Getsid(pid) == c.pid || sys.Getpgid(pid) == c.pid)
}

// own tells whether tier 1 started the process. Only a scan can meet one.
func (r *reaper) own(pid int32) bool {
	if r.orphans.list >= 0 {
		return false
	}
	if pid == r.tier2.pid || pid == r.main.pid {
		return true
	}
	for c := r.children.first; c != nil; c = c.next {
		if c.pid == pid && c.state == alive {
			return true
		}
	}
	return false
}

// bearsTag tells whether a process has a supplementary group.
func bearsTag(pid int32, tag uint32) bool {
	var buffer [4096]byte
	status := readProc(buffer[:], "/proc/", decimal(int(pid)), "/status")
	const key = "\nGroups:"
	for i := 0; i+len(key) <= len(status); i++ {
		if string(status[i:i+len(key)]) != key {
			continue
		}
		groups := status[i+len(key):]
		for n := 1; ; n++ {
			group := field(groups, n)
			if len(group) == 0 {
				return false
			}
			if number(group) == uint64(tag) {
				return true
			}
		}
	}
	return false
}

// parent returns the parent's pid, field 4 of proc_pid_stat(5).
func parent(pid int32) int32 {
	var buffer [512]byte
	return int32(number(field(afterName(readProc(buffer[:], "/proc/", decimal(int(pid)), "/stat")), 4-2)))
}

// kill sends a signal to a process (or, for a negative pid, a group) of a user.
// Without CAP_KILL root may not signal others: then a child that has become
// that user does.
func (r *reaper) kill(pid, signal int32, user uint32) unix.Errno {
	errno := unix.Errno(sys.Kill(pid, signal))
	if errno != unix.EPERM || !r.place.setIDs || user == 0 {
		return errno
	}
	c := sys.Command{
		Session: sys.SameGroup,
		SetIDs:  true, UID: user, GID: r.policy.User.GID,
		Kill: true, KillPID: pid, KillSignal: signal,
	}
	c.Start()
	if c.PID == 0 {
		return unix.Errno(c.Errno)
	}
	if c.PIDFD >= 0 {
		sys.Close(c.PIDFD)
	}
	sys.Collect(c.PID)
	r.dumpableAgain()
	return unix.Errno(c.Errno)
}
