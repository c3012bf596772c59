package reap

import (
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
	"rlminit/wire"
)

// processors is GOMAXPROCS: one for the loop, and one so that neither the collector
// nor the end of a system call has to wait for it. Set by hand, it also stops the
// runtime from looking at the cgroup's limits every second.
const processors = 2

// spareThreads is how many threads the runtime is made to have at the same time beside
// the loop's and the spawners', which leaves it one more. Each processor can need
// one, and one more may be wanted while another is on its way to being idle again.
const spareThreads = 2*processors - 1

// The threads that start processes. Where bounding sets can be dropped, the last starts
// what is to have one, and the others have none. Of those atOnce have a spawn under way;
// the rest take the place of one whose spawn is slow, for a child looks for its program
// and its directory itself, and their file system may not answer.
const (
	atOnce      = 2
	fewSpawners = atOnce + 1 // where processes or descriptors are few
	plentyOpen  = 1024       // descriptors, with which they are not
	spawners    = 8
)

// A spawn that is still under way when it was looked at so often, 2 s after its
// beginning, counts as stuck. Looks are counted, not the time that went by: a
// container that was paused has no stuck spawns. From the first look on it is slow, and
// another thread takes the place of its thread.
const (
	slowAfter = 50e6 // ns: when the first look is
	mostLooks = 5
	lookEvery = 500e6 // ns
)

// job is one spawn on its way through a spawn thread.
type job struct {
	command *sys.Command
	done    func(*job) // called by the loop
	fds     []int      // the message's, closed by the loop when done
	size    int        // bytes of arguments
	lookAt  int64      // when to see whether it is still under way
	looks   int        // how often it was
	stuck   func(*job) // called by the loop, once
}

// thread is one that spawns, with the jobs that it was given and is not known to be
// through with. It goes through them without the loop, which is told when it is through
// with all.
type thread struct {
	*sys.Spawner
	jobs  []*job // the first is under way
	taken int    // how many came before them
}

// threads are the spawn threads, and what waits for them.
type threads struct {
	spawners []*thread
	finished int // eventfd: a spawner is through
	queue    []*job

	queuedFDs, queuedSize int // of the queue

	place *place
}

// What may wait for a thread before no more is taken in. It is some dozen
// spawns; of the descriptors that tier 1 keeps free for itself a part.
const (
	mostQueuedFDs  = 96
	mostQueuedSize = 8 << 20
)

// loaded tells whether enough waits for a thread.
func (t *threads) loaded() bool {
	return t.queuedFDs > mostQueuedFDs || t.queuedSize > mostQueuedSize || t.place.fewFDs && t.next() != never
}

// start makes the spawn threads.
func (t *threads) start() error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	t.finished = fd
	many := spawners
	if sys.NoFile.Hard < plentyOpen || t.place.pids < wire.PlentyPIDs { // each has some descriptors
		many = fewSpawners
	}
	for i := range many {
		s, errno := sys.NewSpawner(int32(fd), i != many-1)
		if errno != 0 {
			return unix.Errno(errno)
		}
		t.spawners = append(t.spawners, &thread{Spawner: s})
	}
	return nil
}

// submit queues a job and gives it to a thread if one is free.
func (t *threads) submit(j *job, now int64) {
	t.queue = append(t.queue, j)
	t.queuedFDs += len(j.fds)
	t.queuedSize += j.size
	t.assign(now)
}

// assign gives queued jobs to free threads: each of those that are used at once its share.
func (t *threads) assign(now int64) {
	share := min((len(t.queue)+atOnce-1)/atOnce, sys.MostCommands)
	for i, s := range t.spawners {
		if len(t.queue) == 0 {
			return
		}
		if len(s.jobs) > 0 || s.Busy() || !t.last(i) && t.fast() >= atOnce {
			continue
		}
		var commands []*sys.Command
		for n := 0; n < len(t.queue) && len(commands) < share; {
			if !t.takes(i, t.queue[n]) {
				n++
				continue
			}
			j := t.unqueue(n)
			s.jobs, commands = append(s.jobs, j), append(commands, j.command)
		}
		if len(commands) > 0 {
			s.taken, s.jobs[0].lookAt = 0, now+slowAfter
			s.Begin(commands...)
		}
	}
}

// recall takes back what a thread has not begun, whose spawn is slow.
func (t *threads) recall(s *thread) {
	begun := max(1, s.Recall()-s.taken)
	if begun >= len(s.jobs) {
		return
	}
	rest := s.jobs[begun:]
	s.jobs = s.jobs[:begun:begun]
	t.queue = append(slices.Clone(rest), t.queue...)
	for _, j := range rest {
		t.queuedFDs += len(j.fds)
		t.queuedSize += j.size
	}
}

// waiting is how many jobs are yet to be begun, at the most.
func (t *threads) waiting() int {
	n := len(t.queue)
	for _, s := range t.spawners {
		n += max(0, len(s.jobs)-1)
	}
	return n
}

// last tells whether a thread is the one for what is to have a bounding set.
func (t *threads) last(i int) bool { return i == len(t.spawners)-1 }

// fast is how many of the other threads have a spawn under way that is not slow.
func (t *threads) fast() (n int) {
	for i, s := range t.spawners {
		if len(s.jobs) > 0 && s.jobs[0].looks == 0 && !t.last(i) {
			n++
		}
	}
	return n
}

// unqueue takes a job out of the queue.
func (t *threads) unqueue(n int) *job {
	j := t.queue[n]
	t.queue = slices.Delete(t.queue, n, n+1)
	t.queuedFDs -= len(j.fds)
	t.queuedSize -= j.size
	return j
}

// takes tells whether a thread starts such a job.
func (t *threads) takes(i int, j *job) bool {
	return !t.place.setBounds || (j.command.SetBounds && j.command.Caps == 0) != t.last(i)
}

// harvest hears of threads that are through.
func (t *threads) harvest(now int64) {
	var count [8]byte
	unix.Read(t.finished, count[:])
	t.conclude(now)
}

// conclude calls what waits for the jobs that are done. Threads that are free have new
// ones by then.
func (t *threads) conclude(now int64) {
	var done []*job
	for _, s := range t.spawners {
		n := 0
		if len(s.jobs) > 0 {
			n = s.Done() - s.taken
		}
		if n == 0 {
			continue
		}
		done = append(done, s.jobs[:n]...)
		s.jobs, s.taken = s.jobs[n:], s.taken+n
		if len(s.jobs) > 0 {
			s.jobs[0].lookAt = now + slowAfter
		}
	}
	t.assign(now)
	for _, j := range done {
		j.done(j)
	}
}

// soon tells whether a spawn is under way that is not slow, so that the loop has something
// to do again after slowAfter at the latest.
func (t *threads) soon() bool {
	return slices.ContainsFunc(t.spawners, func(s *thread) bool { return len(s.jobs) > 0 && s.jobs[0].looks == 0 })
}

// idle tells whether no spawn is under way.
func (t *threads) idle() bool {
	return !slices.ContainsFunc(t.spawners, func(s *thread) bool { return len(s.jobs) > 0 })
}

// dumpableAgain undoes, as root, what the last child's change of user has done
// to the memory that it shared: root in the container may look at /proc/1/fd
// again, by which programs write to the container's log.
func (t *threads) dumpableAgain() {
	if t.place.root && t.idle() {
		unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	}
}

// next returns when a spawn that is under way has to be looked at.
func (t *threads) next() int64 {
	next := never
	for _, s := range t.spawners {
		if len(s.jobs) > 0 && s.jobs[0].looks < mostLooks {
			next = min(next, s.jobs[0].lookAt)
		}
	}
	return next
}

// look tells of spawns that have become stuck. With every thread stuck that would take
// a job, it is not kept waiting.
func (t *threads) look(now int64) {
	t.conclude(now)
	var blocked [spawners]bool
	for i, s := range t.spawners {
		if len(s.jobs) == 0 {
			continue
		}
		j := s.jobs[0]
		if j.looks < mostLooks && now >= j.lookAt {
			j.lookAt = now + lookEvery
			if j.looks++; j.looks == mostLooks {
				j.stuck(j)
			}
			t.recall(s)
		}
		blocked[i] = j.looks == mostLooks
	}
	var refused []*job
	for n := len(t.queue) - 1; n >= 0; n-- {
		waits := false
		for i := range t.spawners {
			waits = waits || t.takes(i, t.queue[n]) && !blocked[i]
		}
		if !waits {
			refused = append(refused, t.unqueue(n))
		}
	}
	t.assign(now)
	for _, j := range refused {
		j.command.Step, j.command.Errno = sys.StepNone, sys.EAGAIN
		j.done(j)
	}
}

// inFlight returns pid and pidfd of a job's process, of which the thread may
// be in the middle. 0 and -1 where there is none yet.
func (j *job) inFlight() (pid, pidfd int32) {
	return atomic.LoadInt32(&j.command.PID), atomic.LoadInt32(&j.command.PIDFD)
}

// spares makes the runtime start its threads ahead of need: goroutines that are
// blocked in a system call at the same time need one each, and the runtime
// keeps idle threads for ever. A thread that it wants later, and does not get
// for want of pids, would end PID 1. The function that is returned ends them, and
// must be called when there was time for all to block.
func spares(n int) (release func(), err error) {
	var in, out [2]int
	if err := unix.Pipe2(in[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	if err := unix.Pipe2(out[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	var running atomic.Int32
	running.Store(int32(n))
	for range n {
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
		for b := make([]byte, n); len(b) > 0; {
			m, err := unix.Read(out[0], b)
			if err != nil && err != unix.EINTR {
				break
			}
			b = b[max(m, 0):]
		}
		unix.Close(in[1]) // every read of in[0] ends
		unix.Close(out[0])
	}, nil
}
