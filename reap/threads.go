package reap

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
)

// processors is GOMAXPROCS: one for the loop and one for each spawn thread, so
// that none of them ever waits for another after a system call. Set by hand, it
// also stops the runtime from looking at the cgroup's limits every second.
const processors = 1 + spawnThreads

const spawnThreads = 2

// spawnPatience is how long a spawn may take before it counts as stuck, in ns.
const spawnPatience = 2e9

// job is one spawn on its way through a spawn thread.
type job struct {
	command   *sys.Command
	done      func(*job) // called by the loop
	fds       []int      // the message's, closed by the loop when done
	startTime uint64     // clock ticks since boot, of the process
	since     int64      // when a thread took it
	stuck     func(*job) // called by the loop, once
	told      bool       // that it is stuck
}

// spawner is a thread that spawns. It waits in read(2) on an eventfd, not on a
// channel: the kernel wakes it, and the scheduler needs no thread to do so.
type spawner struct {
	wake   int
	work   atomic.Pointer[job] // set by the loop, taken back by it when finished
	finish atomic.Bool
}

// threads makes all threads that tier 1 will ever have. A thread that the
// runtime wants later, and does not get for want of pids, would end PID 1.
type threads struct {
	spawners [spawnThreads]spawner
	finished int // eventfd: a spawner is through
	queue    []*job
}

// start makes the spawn threads.
func (t *threads) start() error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	t.finished = fd
	for i := range t.spawners {
		s := &t.spawners[i]
		if s.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
			return err
		}
		go s.run(t.finished)
	}
	return nil
}

// run spawns for ever. The loop's goroutine is locked to the first thread, so
// this one is always on another, and what it starts is never taken for an orphan.
func (s *spawner) run(finished int) {
	var count [8]byte
	for {
		if _, err := unix.Read(s.wake, count[:]); err != nil {
			continue
		}
		j := s.work.Load()
		if j == nil {
			continue
		}
		j.spawn()
		s.finish.Store(true)
		notify(finished)
	}
}

// spawn runs on a spawn thread.
func (j *job) spawn() {
	c := j.command
	c.Start()
	if c.PID == 0 {
		return
	}
	if c.Errno != 0 || c.Step != sys.StepExec {
		// It has exited, or is about to. Step is not StepExec where somebody
		// killed it on its way.
		if c.Errno == 0 {
			c.Errno = sys.EINTR
		}
		collect(c.PID)
		return
	}
	j.startTime = startTime(c.PID)
}

// collect waits for a child that cannot live on.
func collect(pid int32) {
	for {
		_, err := unix.Wait4(int(pid), nil, unix.WALL, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// notify adds to an eventfd.
func notify(fd int) {
	one := [8]byte{1}
	unix.Write(fd, one[:])
}

// submit queues a job and gives it to a thread if one is free.
func (t *threads) submit(j *job, now int64) {
	t.queue = append(t.queue, j)
	t.assign(now)
}

// assign gives queued jobs to free threads.
func (t *threads) assign(now int64) {
	for i := range t.spawners {
		s := &t.spawners[i]
		if len(t.queue) == 0 {
			return
		}
		if s.work.Load() != nil {
			continue
		}
		j := t.queue[0]
		t.queue[0] = nil
		t.queue = t.queue[1:]
		j.since = now
		s.finish.Store(false)
		s.work.Store(j)
		notify(s.wake)
	}
}

// harvest calls what waits for the jobs that are done, and gives out new ones.
func (t *threads) harvest(now int64) {
	var count [8]byte
	unix.Read(t.finished, count[:])
	for i := range t.spawners {
		s := &t.spawners[i]
		j := s.work.Load()
		if j == nil || !s.finish.Load() {
			continue
		}
		s.work.Store(nil)
		j.done(j)
	}
	t.assign(now)
}

// overdue tells of jobs that have become stuck, and returns when the next one
// would; 0 for never. With every thread stuck, nothing is kept waiting.
func (t *threads) overdue(now int64) (next int64) {
	blocked := 0
	for i := range t.spawners {
		j := t.spawners[i].work.Load()
		if j == nil || t.spawners[i].finish.Load() {
			continue
		}
		if due := j.since + spawnPatience; now < due {
			if next == 0 || due < next {
				next = due
			}
			continue
		}
		blocked++
		if !j.told {
			j.told = true
			j.stuck(j)
		}
	}
	if blocked < len(t.spawners) {
		return next
	}
	for _, j := range t.queue {
		j.command.Step, j.command.Errno = sys.StepNone, sys.EAGAIN
		j.done(j)
	}
	t.queue = nil
	return next
}

// inFlight returns pid and pidfd of a job's process, of which the thread may
// be in the middle. 0 and -1 where there is none yet.
func (j *job) inFlight() (pid, pidfd int32) {
	return atomic.LoadInt32(&j.command.PID), atomic.LoadInt32(&j.command.PIDFD)
}

// spares makes the runtime start its threads ahead of need: goroutines that are
// blocked in a system call at the same time need one each, and the runtime
// keeps idle threads for ever. The function that is returned ends them, and
// must be called when there was time for all to block.
func spares() (release func(), err error) {
	var in, out [2]int
	if err := unix.Pipe2(in[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	if err := unix.Pipe2(out[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	var running atomic.Int32
	running.Store(processors)
	for range processors {
		go func() {
			var b [1]byte
			unix.Write(out[1], b[:])
			unix.Read(in[0], b[:])
			if running.Add(-1) == 0 {
				unix.Close(in[0])
				unix.Close(out[1])
			}
		}()
	}
	return func() {
		var b [processors]byte
		for n := 0; n < len(b); {
			m, err := unix.Read(out[0], b[n:])
			if err != nil && err != unix.EINTR {
				break
			}
			n += max(m, 0)
		}
		unix.Close(in[1]) // every read of in[0] ends
		unix.Close(out[0])
	}, nil
}

// startTime reads field 22 of proc_pid_stat(5); 0 without /proc.
func startTime(pid int32) uint64 {
	var buffer [1024]byte
	content := readProc(buffer[:], "/proc/", decimal(int(pid)), "/stat")
	// The name of the program is in parentheses and may hold anything.
	i := len(content) - 1
	for i >= 0 && content[i] != ')' {
		i--
	}
	if i < 0 {
		return 0
	}
	return number(field(content[i+1:], 22-2))
}

// readProc reads a file of /proc, from its beginning, as far as buffer goes.
func readProc(buffer []byte, path ...string) []byte {
	name := make([]byte, 0, 64)
	for _, part := range path {
		name = append(name, part...)
	}
	fd, err := unix.Open(unsafe.String(&name[0], len(name)), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	return readAll(fd, buffer)
}

// readAll fills buffer from fd.
func readAll(fd int, buffer []byte) []byte {
	n := 0
	for n < len(buffer) {
		m, err := unix.Pread(fd, buffer[n:], int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil || m == 0 {
			break
		}
		n += m
	}
	return buffer[:n]
}

// field returns the n-th field, from 1, of fields that blanks separate.
func field(b []byte, n int) []byte {
	for {
		for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
			b = b[1:]
		}
		end := 0
		for end < len(b) && b[end] != ' ' && b[end] != '\t' && b[end] != '\n' {
			end++
		}
		if n--; n == 0 || end == 0 {
			return b[:end]
		}
		b = b[end:]
	}
}

// number reads decimal digits up to the first other character.
func number(b []byte) uint64 {
	var n uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + uint64(c-'0')
	}
	return n
}
