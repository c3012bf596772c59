package sys

import "unsafe"

// A Spawner is a thread that starts commands, one at a time.
//
// Its goroutine enters a system call once and for all, as the scheduler sees
// it, and runs nothing but system calls in a loop. So it never wants a
// processor, is never in the way of the collector, and no thread is ever started
// on its account.
type Spawner struct {
	wake     int32 // eventfd: there is a command
	finished int32 // eventfd: it is through
	command  *Command
	busy     uint32
	common   bool
	dropped  bool // the thread's bounding set

	path [32]byte
	stat [512]byte
	read int
	low  low
}

// NewSpawner starts the thread. It adds to the eventfd finished when it is
// through with a command. A common one is given no command with SetBounds and Caps: it
// drops its bounding set once, in place of each of its children, and keeps low numbers
// for their descriptors.
func NewSpawner(finished int32, common bool) (*Spawner, Errno) {
	wake, errno := Call(sysEventfd2, 0, openCloexec, 0, 0, 0, 0)
	if errno != 0 {
		return nil, Errno(errno)
	}
	s := &Spawner{wake: int32(wake), finished: finished, common: common}
	s.low.filler = -1
	if common {
		s.low.keep(s.wake)
	}
	go s.run()
	return s, 0
}

// Begin gives it a command, which is the thread's until Busy is false.
func (s *Spawner) Begin(c *Command) {
	s.command = c
	storeRelease(&s.busy, 1)
	add(s.wake)
}

// Busy tells whether it has a command and is not through with it.
func (s *Spawner) Busy() bool { return loadAcquire(&s.busy) == 1 }

// Stat returns what /proc/PID/stat said of the last command's process.
func (s *Spawner) Stat() []byte { return s.stat[:s.read] }

// run never returns.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *Spawner) run() {
	entersyscall()
	for {
		Call(sysRead, uintptr(s.wake), uintptr(unsafe.Pointer(&s.path)), 8, 0, 0, 0)
		if loadAcquire(&s.busy) == 0 {
			continue // interrupted
		}
		c := s.command
		if s.common && c.SetBounds {
			s.dropped = s.dropped || dropBounds(0) == 0
			c.SetBounds = !s.dropped // else the child tries, and tells
		}
		s.low.fill(c)
		c.start()
		s.low.empty()
		s.read = 0
		switch {
		case c.PID == 0:
		case c.Errno != 0 || c.Step != StepExec:
			// It has exited, or is about to. Without an error somebody has
			// killed it on its way.
			if c.Errno == 0 {
				c.Errno = EINTR
			}
			pid := c.PID
			// Nobody may signal it by its number any more.
			storeRelease((*uint32)(unsafe.Pointer(&c.PID)), 0)
			Collect(pid)
		default:
			s.readStat(c.PID)
			if Undumpable && len(c.OOMScore) > 0 {
				s.setScore(c)
			}
		}
		storeRelease(&s.busy, 0)
		add(s.finished)
	}
}

// Collect waits for a child that cannot live on.
//
//go:nosplit
//go:norace
func Collect(pid int32) {
	for {
		if _, errno := Call(sysWait4, uintptr(pid), 0, waitAll, 0, 0, 0); Errno(errno) != EINTR {
			return
		}
	}
}

// readStat reads /proc/PID/stat while nobody can have collected the process.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *Spawner) readStat(pid int32) {
	fd, errno := s.open(pid, "/stat\x00", 0)
	if errno != 0 {
		return
	}
	if n, errno := Call(sysRead, fd, uintptr(unsafe.Pointer(&s.stat)), unsafe.Sizeof(s.stat), 0, 0, 0); errno == 0 {
		s.read = int(n)
	}
	Call(sysClose, fd, 0, 0, 0, 0, 0)
}

// scorePatience bounds how long a process that executes its program may take until it
// can be dumped, in ns: a few instructions of its own, but it may have to wait for a
// processor. A program that its user may not read never can.
const scorePatience = 1e9

// setScore sets the OOM score of a process whose program has just begun.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *Spawner) setScore(c *Command) {
	for waited := int64(0); ; {
		fd, errno := s.open(c.PID, "/oom_score_adj\x00", openWriteOnly)
		if errno == 0 {
			Call(sysWrite, fd, uintptr(unsafe.Pointer(&c.OOMScore[0])), uintptr(len(c.OOMScore)), 0, 0, 0)
			Call(sysClose, fd, 0, 0, 0, 0, 0)
		}
		if errno != EACCES || waited >= scorePatience {
			return
		}
		pause := [2]int64{0, 50e3 + waited} // struct timespec; twice as long each time
		waited += pause[1]
		Call(sysNanosleep, uintptr(unsafe.Pointer(&pause)), 0, 0, 0, 0, 0)
	}
}

// open opens a file of /proc/PID, whose name ends with a NUL.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *Spawner) open(pid int32, name string, flags uintptr) (uintptr, Errno) {
	n := copyString(s.path[:], 0, "/proc/")
	digits := 1
	for rest := pid; rest >= 10; rest /= 10 {
		digits++
	}
	for i := digits - 1; i >= 0; i-- {
		s.path[n+i] = byte('0' + pid%10)
		pid /= 10
	}
	copyString(s.path[:], n+digits, name)
	fd, errno := Call(sysOpenat, atCwd, uintptr(unsafe.Pointer(&s.path)), openCloexec|flags, 0, 0, 0)
	return fd, Errno(errno)
}

// copyString copies byte by byte: the child-safe code calls nothing that could
// grow the stack.
//
//go:nosplit
//go:norace
func copyString(b []byte, at int, s string) int {
	for i := 0; i < len(s); i++ {
		b[at+i] = s[i]
	}
	return at + len(s)
}

// add adds one to an eventfd.
//
//go:nosplit
//go:norace
func add(fd int32) {
	one := [1]uint64{1}
	Call(sysWrite, uintptr(fd), uintptr(unsafe.Pointer(&one)), 8, 0, 0, 0)
}

// storeRelease and loadAcquire are sync/atomic for code that the race detector
// must not instrument.
func storeRelease(p *uint32, v uint32)

func loadAcquire(p *uint32) uint32

const waitAll = 0x40000000 // __WALL
