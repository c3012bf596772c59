// Package threads is the threads of tier 1 that spawn, and what waits for them. The loop
// gives them jobs, and hears of each when it is over or has become stuck. A thread goes
// through some jobs without the loop, which alone calls what is in this package.
package threads

import (
	"math"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"rlminit/reap/proc"
	"rlminit/reap/sys"
	"rlminit/wire"
)

// How many threads there are: Most, or Few where processes or descriptors are few. Where
// bounding sets can be dropped, the last thread starts processes that keep theirs, and the
// other threads have none. Of those others atOnce are given jobs. One more is given jobs
// for each whose spawn is slow: a child looks for its program and its directory itself,
// and their file system may not answer.
const (
	atOnce     = 2
	Few        = atOnce + 1
	plentyOpen = 1024 // with as many descriptors or more they are not few
	Most       = 8
)

// A spawn that is still under way when it was looked at so often, 2 s after its
// beginning, counts as stuck. Looks are counted, not the time that went by: a
// container that was paused has no stuck spawns. Nor does a look count that finds the
// process running, or waiting for a processor: the machine is busy then. From the first
// look on a spawn is slow, and another thread takes the place of its thread.
const (
	slowAfter = 50e6 // ns: when the first look is
	mostLooks = 5
	lookEvery = 500e6 // ns
)

// Job is one spawn on its way through a spawn thread.
type Job struct {
	Command *sys.Command
	Done    func(*Job) // called by the loop
	FDs     []int      // the message's, closed by the loop when done
	Size    int        // bytes of arguments
	lookAt  int64      // when to see whether it is still under way
	looks   int        // how often it was
	Stuck   func(*Job) // called by the loop, once
}

// thread is one that spawns, with the jobs that it was given and is not known to be
// through with. It goes through them without the loop, which is told when it is through
// with all.
type thread struct {
	*sys.Spawner
	jobs  []*Job // the first is under way
	taken int    // how many came before them
}

// Threads are the spawn threads, and what waits for them.
type Threads struct {
	spawners []*thread
	Finished int // eventfd: a spawner is through
	queue    []*Job

	queuedFDs, queuedSize int // of the queue

	Bounded bool // bounding sets can be dropped
	FewFDs  bool // PID 1 may have few descriptors
}

// never is a time that does not come.
const never = int64(math.MaxInt64)

// What may wait for a thread before no more is taken in. It is some dozen
// spawns; of the descriptors that tier 1 keeps free for itself a part.
const (
	MostQueuedFDs  = 96
	mostQueuedSize = 8 << 20
)

// Loaded tells whether enough waits for a thread.
func (t *Threads) Loaded() bool {
	return t.queuedFDs > MostQueuedFDs || t.queuedSize > mostQueuedSize || t.FewFDs && t.Next() != never
}

// Start makes the spawn threads.
func (t *Threads) Start(pids uint64) error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	t.Finished = fd
	many := Most
	if sys.NoFile.Hard < plentyOpen || pids < wire.PlentyPIDs { // each has some descriptors
		many = Few
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

// Submit queues a job and gives it to a thread if one is free.
func (t *Threads) Submit(j *Job, now int64) {
	t.insert(len(t.queue), j)
	t.assign(now)
}

// insert puts jobs into the queue.
func (t *Threads) insert(at int, jobs ...*Job) {
	t.queue = slices.Insert(t.queue, at, jobs...)
	for _, j := range jobs {
		t.queuedFDs, t.queuedSize = t.queuedFDs+len(j.FDs), t.queuedSize+j.Size
	}
}

// assign gives queued jobs to free threads: each of those that are used at once its share.
func (t *Threads) assign(now int64) {
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
			s.jobs, commands = append(s.jobs, j), append(commands, j.Command)
		}
		if len(commands) > 0 {
			s.taken, s.jobs[0].lookAt = 0, now+slowAfter
			s.Begin(commands...)
		}
	}
}

// recall takes back what a thread has not begun, whose spawn is slow: all, if it had no
// processor yet, and nothing the second time.
func (t *Threads) recall(s *thread) {
	begun := min(s.Recall()-s.taken, len(s.jobs))
	t.insert(0, s.jobs[begun:]...)
	s.jobs = s.jobs[:begun:begun]
}

// Waiting is how many jobs no thread has begun; those that a thread has done since it was
// last asked are counted too.
func (t *Threads) Waiting() int {
	n := len(t.queue)
	for _, s := range t.spawners {
		n += max(0, len(s.jobs)-1)
	}
	return n
}

// last tells whether a thread is the one for what is to have a bounding set.
func (t *Threads) last(i int) bool { return i == len(t.spawners)-1 }

// fast is how many of the other threads have a spawn under way that is not slow.
func (t *Threads) fast() (n int) {
	for i, s := range t.spawners {
		if len(s.jobs) > 0 && s.jobs[0].looks == 0 && !t.last(i) {
			n++
		}
	}
	return n
}

// unqueue takes a job out of the queue.
func (t *Threads) unqueue(n int) *Job {
	j := t.queue[n]
	t.queue = slices.Delete(t.queue, n, n+1)
	t.queuedFDs -= len(j.FDs)
	t.queuedSize -= j.Size
	return j
}

// takes tells whether a thread starts such a job.
func (t *Threads) takes(i int, j *Job) bool {
	return !t.Bounded || (j.Command.SetBounds && j.Command.Caps == 0) != t.last(i)
}

// Harvest hears of threads that are through.
func (t *Threads) Harvest(now int64) {
	var count [8]byte
	unix.Read(t.Finished, count[:])
	t.conclude(now)
}

// conclude calls what waits for the jobs that are done. Threads that are free have new
// ones by then.
func (t *Threads) conclude(now int64) {
	var done []*Job
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
		j.Done(j)
	}
}

// Soon tells whether jobs wait for a spawn that is not slow, so that the loop has something
// to do again after slowAfter at the latest.
func (t *Threads) Soon() bool {
	return t.Waiting() > 0 && slices.ContainsFunc(t.spawners, func(s *thread) bool { return len(s.jobs) > 0 && s.jobs[0].looks == 0 })
}

// Idle tells whether no spawn is under way.
func (t *Threads) Idle() bool {
	return !slices.ContainsFunc(t.spawners, func(s *thread) bool { return len(s.jobs) > 0 })
}

// Next returns when a spawn that is under way has to be looked at.
func (t *Threads) Next() int64 {
	next := never
	for _, s := range t.spawners {
		if len(s.jobs) > 0 && s.jobs[0].looks < mostLooks {
			next = min(next, s.jobs[0].lookAt)
		}
	}
	return next
}

// Look tells of spawns that have become stuck. With every thread stuck that would take
// a job, it is not kept waiting.
func (t *Threads) Look(now int64) {
	t.conclude(now)
	var blocked [Most]bool
	for i, s := range t.spawners {
		if len(s.jobs) == 0 {
			continue
		}
		j := s.jobs[0]
		if now >= j.lookAt && j.looks == 0 {
			if t.recall(s); len(s.jobs) == 0 {
				continue
			}
		}
		if now >= j.lookAt && j.looks < mostLooks {
			j.lookAt = now + lookEvery
			if j.looks == 0 || !j.runs() {
				j.looks++
			}
			if j.looks == mostLooks {
				j.Stuck(j)
			}
		}
		blocked[i] = j.looks == mostLooks
	}
	var refused []*Job
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
		j.Command.Step, j.Command.Errno = sys.StepNone, sys.EAGAIN
		j.Done(j)
	}
}

// InFlight returns pid and pidfd of a job's process, of which the thread may
// be in the middle. 0 and -1 where there is none yet.
func (j *Job) InFlight() (pid, pidfd int32) {
	return atomic.LoadInt32(&j.Command.PID), atomic.LoadInt32(&j.Command.PIDFD)
}

// runs tells whether a job's process is on a processor, or waits for one: state R of
// proc_pid_stat(5).
func (j *Job) runs() bool {
	pid, _ := j.InFlight()
	if pid <= 0 {
		return false
	}
	var buffer [512]byte
	state := proc.Field(proc.AfterName(proc.Read(buffer[:], "/proc/", sys.Decimal(pid), "/stat")), 1)
	return len(state) == 1 && state[0] == 'R'
}

// Each calls f for every job that a thread has.
func (t *Threads) Each(f func(*Job)) {
	for _, s := range t.spawners {
		for _, j := range s.jobs {
			f(j)
		}
	}
}
