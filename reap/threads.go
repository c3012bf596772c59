package reap

import (
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"rlminit/reap/proc"
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
	command   *sys.Command
	done      func(*job) // called by the loop
	fds       []int      // the message's, closed by the loop when done
	size      int        // bytes of arguments
	startTime uint64     // clock ticks since boot, of the process
	lookAt    int64      // when to see whether it is still under way
	looks     int        // how often it was
	stuck     func(*job) // called by the loop, once
}

// threads are the spawn threads, and what waits for them.
type threads struct {
	spawners []*sys.Spawner
	jobs     []*job // nil: that one is free
	finished int    // eventfd: a spawner is through
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
		t.spawners = append(t.spawners, s)
	}
	t.jobs = make([]*job, many)
	return nil
}

// submit queues a job and gives it to a thread if one is free.
func (t *threads) submit(j *job, now int64) {
	t.queue = append(t.queue, j)
	t.queuedFDs += len(j.fds)
	t.queuedSize += j.size
	t.assign(now)
}

// assign gives queued jobs to free threads.
func (t *threads) assign(now int64) {
	for i, s := range t.spawners {
		if t.jobs[i] != nil || !t.last(i) && t.fast() >= atOnce {
			continue
		}
		n := slices.IndexFunc(t.queue, func(j *job) bool { return t.takes(i, j) })
		if n < 0 {
			continue
		}
		j := t.unqueue(n)
		j.lookAt = now + slowAfter
		t.jobs[i] = j
		s.Begin(j.command)
	}
}

// last tells whether a thread is the one for what is to have a bounding set.
func (t *threads) last(i int) bool { return i == len(t.spawners)-1 }

// fast is how many of the other threads have a spawn under way that is not slow.
func (t *threads) fast() (n int) {
	for i, j := range t.jobs {
		if j != nil && j.looks == 0 && !t.last(i) {
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

// harvest calls what waits for the jobs that are done, and gives out new ones.
func (t *threads) harvest(now int64) {
	var count [8]byte
	unix.Read(t.finished, count[:])
	for i, s := range t.spawners {
		j := t.jobs[i]
		if j == nil || s.Busy() {
			continue
		}
		t.jobs[i] = nil
		j.startTime = proc.StartTime(s.Stat())
		j.done(j)
	}
	t.assign(now)
}

// idle tells whether no spawn is under way.
func (t *threads) idle() bool {
	return !slices.ContainsFunc(t.jobs, func(j *job) bool { return j != nil })
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
	for _, j := range t.jobs {
		if j != nil && j.looks < mostLooks {
			next = min(next, j.lookAt)
		}
	}
	return next
}

// look tells of spawns that have become stuck. With every thread stuck that would take
// a job, it is not kept waiting.
func (t *threads) look(now int64) {
	var blocked [spawners]bool
	for i, j := range t.jobs {
		if j == nil || !t.spawners[i].Busy() {
			continue
		}
		if j.looks < mostLooks && now >= j.lookAt {
			j.lookAt = now + lookEvery
			if j.looks++; j.looks == mostLooks {
				j.stuck(j)
			}
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
	for _, j := range refused {
		j.command.Step, j.command.Errno = sys.StepNone, sys.EAGAIN
		j.done(j)
	}
	t.assign(now)
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
