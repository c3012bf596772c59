package sys

import "unsafe"

// A Spawner is a thread that starts commands, some after each other without anybody
// having to wake it in between.
//
// Its goroutine enters a system call once and for all, as the scheduler sees
// it, and runs nothing but system calls in a loop. So it never wants a
// processor, is never in the way of the collector, and no thread is ever started
// on its account.
type Spawner struct {
	wake     int32 // eventfd: there are commands
	finished int32 // eventfd: it is through with them
	commands []*Command
	begun    uint32 // how many of them; more than there are: none is begun any more
	done     uint32 // how many of them
	busy     uint32
	common   bool
	dropped  bool   // the thread's bounding set
	timed    bool   // the clock tells when a process was started as /proc does
	before   uint64 // ticks before the command that is under way

	path [32]byte
	stat [512]byte
	low  low
}

// MostCommands is how many commands a spawner takes at a time.
const MostCommands = 8

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

// Begin gives commands to one that is not busy. They are the thread's until Busy is
// false, but for those that it is through with or that are taken back.
func (s *Spawner) Begin(commands ...*Command) {
	s.commands = commands
	exchange(&s.begun, 0)
	exchange(&s.done, 0)
	exchange(&s.busy, 1)
	add(s.wake)
}

// Busy tells whether it has commands and is not through with them.
func (s *Spawner) Busy() bool { return loadAcquire(&s.busy) == 1 }

// Done is how many of its commands, in their order, it is through with.
func (s *Spawner) Done() int { return int(loadAcquire(&s.done)) }

// Recall takes back the commands that it has not begun, and returns how many it has.
func (s *Spawner) Recall() (begun int) {
	return int(min(exchange(&s.begun, 1<<30), uint32(len(s.commands))))
}

// run never returns. Its frame is small, and start is called from here, for the stack
// of a child that shares it is bounded.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *Spawner) run() {
	entersyscall()
	for {
		c := s.next()
		s.prepare(c)
		c.start()
		s.conclude(c)
	}
}

// next claims the next command, as soon as there is one.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func (s *Spawner) next() *Command {
	for {
		if loadAcquire(&s.busy) == 1 {
			if i := fetchAdd(&s.begun, 1); i < uint32(len(s.commands)) {
				return s.commands[i]
			}
			exchange(&s.busy, 0)
			add(s.finished)
		}
		Call(sysRead, uintptr(s.wake), uintptr(unsafe.Pointer(&s.path)), 8, 0, 0, 0)
	}
}

// prepare is what the thread does before a command is started.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func (s *Spawner) prepare(c *Command) {
	if s.common && c.SetBounds {
		s.dropped = s.dropped || dropBounds(0) == 0
		c.SetBounds = !s.dropped // else the child tries, and tells
	}
	s.low.fill(c)
	s.before = ticks()
}

// conclude is what it does when the command has been started, or has failed.
//
//go:nosplit
//go:norace
//go:nocheckptr
//go:noinline
func (s *Spawner) conclude(c *Command) {
	s.low.empty()
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
		exchange((*uint32)(unsafe.Pointer(&c.PID)), 0)
		Collect(pid)
	default:
		s.setTime(c)
		if Undumpable && len(c.OOMScore) > 0 {
			s.setScore(c)
		}
	}
	fetchAdd(&s.done, 1)
}

// setTime sets when the process was started: at the tick of the clock that it was before
// the fork, if it still was in the child. To read it from /proc/PID/stat waits until the
// program has taken over. That is done between two ticks, and for the first process, for
// not every kernel's /proc may go by this clock.
//
//go:nosplit
//go:norace
func (s *Spawner) setTime(c *Command) {
	sure := s.before == c.StartTime
	if s.timed && sure {
		return
	}
	now := c.StartTime
	c.StartTime = s.readTime(c.PID)
	s.timed = s.timed || sure && c.StartTime == now
}

// ticks is CLOCK_BOOTTIME in hundredths of a second, as proc_pid_stat(5) has times.
//
//go:nosplit
//go:norace
//go:nocheckptr
func ticks() uint64 { return uint64(sinceBoot()) / 1e7 }

// sinceBoot is CLOCK_BOOTTIME in ns.
//
//go:nosplit
//go:norace
//go:nocheckptr
func sinceBoot() int64 {
	var now [2]int64 // struct timespec
	Call(sysClockGettime, clockBoottime, uintptr(unsafe.Pointer(&now)), 0, 0, 0, 0)
	return now[0]*1e9 + now[1]
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

// readTime reads field 22 of /proc/PID/stat, while nobody can have collected the process.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (s *Spawner) readTime(pid int32) (time uint64) {
	fd, errno := s.open(pid, "/stat\x00", 0)
	if errno != 0 {
		return 0
	}
	n, failure := Call(sysRead, fd, uintptr(unsafe.Pointer(&s.stat)), unsafe.Sizeof(s.stat), 0, 0, 0)
	Call(sysClose, fd, 0, 0, 0, 0, 0)
	if failure != 0 {
		return 0
	}
	at := int(n) - 1
	for at >= 0 && s.stat[at] != ')' { // the name before it may hold anything
		at--
	}
	for field := 2; at >= 0 && at < int(n); at++ {
		if s.stat[at] == ' ' {
			field++
		} else if field == 22 {
			time = time*10 + uint64(s.stat[at]-'0')
		}
	}
	return time
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

// exchange, fetchAdd and loadAcquire are sync/atomic for code that the race detector
// must not instrument. The first two return what was there before.
func exchange(p *uint32, v uint32) uint32

func fetchAdd(p *uint32, delta uint32) uint32

func loadAcquire(p *uint32) uint32

const (
	waitAll       = 0x40000000 // __WALL
	clockBoottime = 7
)
