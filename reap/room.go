package reap

import (
	"bytes"
	"strings"

	"rlminit/reap/proc"
	"rlminit/reap/say"
	"rlminit/reap/sys"
	"rlminit/reap/threads"
	"rlminit/wire"
)

// A container's limit on processes may be taken up by one service: then tier 2,
// which needs some threads, cannot be started any more, and nobody could command
// that service to stop. The greatest user is ended then, and nobody else.
const (
	fewestTaken = 8               // processes and threads, with fewer a service is not what takes up the room
	roomWithin  = 2e9             // ns: before another service is ended, the room of the last must have come free
	earlyEnd    = 5e9             // ns: a tier 2 that ended so soon may have had no room
	keptFree    = 1 + threads.Few // processes and threads that no service is begun with
)

// room has the acts where the container's limit on processes leaves none to
// tier 2.
type room struct {
	at int64 // CLOCK_MONOTONIC: before then no service is ended for it

	place     *place
	policy    *wire.Policy
	children  *children
	orphans   *orphans
	deadlines *deadlines
	voice     *say.Voice
}

// crampedIn tells whether fewer are free of the limit than are needed, by files as
// proc.PIDsFiles are: what is taken of it stands in the file beside, pids.current.
func crampedIn(files []string, needed int) bool {
	for _, file := range files {
		limit := proc.PIDsLimit(file)
		var buffer [32]byte
		current := proc.Read(buffer[:], strings.TrimSuffix(file, "max"), "current")
		if limit < 1<<62 && len(current) > 0 {
			return proc.Number(current)+uint64(needed) > limit
		}
	}
	return false
}

// full tells whether one more process, with those that wait to be, would take what is
// kept free: the runtime of one supervisor has a thread more than that of another, and
// where many services have a process each, none of them can be ended for it.
func (r *room) full(waiting int) bool {
	return r.place.pids < wire.PlentyPIDs && crampedIn(proc.PIDsFiles, waiting+1+keptFree)
}

// wanted is told that tier 2, or what touches the services' files for it, could
// not be started, or ended early. It tells whether there may have been no room for it.
func (r *room) wanted(errno sys.Errno, now int64) (cramped bool) {
	limit := proc.PIDsLimit(proc.PIDsFiles...) // it may be another than at boot
	needed := wire.SupervisorRoom(int(min(limit, 1<<30)), r.policy.Supervisor.UID != r.policy.User.UID)
	cramped = errno == sys.EAGAIN || errno == 0 && crampedIn(proc.PIDsFiles, needed)
	if cramped {
		r.make(now)
	}
	return cramped
}

// make ends the service that has the most processes and threads, by its tag or
// its session, if they are many.
func (r *room) make(now int64) {
	if now < r.at || !r.orphans.known {
		return
	}
	taken := make(map[uint32]int)
	var buffer [4096]byte
	r.orphans.eachProcess(func(pid int32) {
		status := proc.Read(buffer[:], "/proc/", say.Number(int(pid)), "/status")
		taken[r.keyOf(pid, status)] += threadsIn(status)
	})
	delete(taken, 0)
	most := r.fullest(taken)
	if most == nil {
		r.voice.Once("the pids limit of this container is reached, and no one service takes it up: there is no room for the supervisor; raise --pids-limit")
		return
	}
	r.at = now + roomWithin
	say.Line("the pids limit of this container is reached and leaves no room for the supervisor: ",
		wire.ServiceOf(most.name), ", which has ", say.Number(taken[r.key(most)]), " processes and threads, is ended")
	r.deadlines.watch(most)
	r.deadlines.slay(most, now)
}

// fullest is the child that has the most of what is taken, the one that is alive
// where several share a key; nil if nobody has many.
func (r *room) fullest(taken map[uint32]int) (most *child) {
	for c := r.children.first; c != nil; c = c.next {
		n := taken[r.key(c)]
		if n >= fewestTaken && (most == nil || n > taken[r.key(most)] || r.key(c) == r.key(most) && c.state == alive) {
			most = c
		}
	}
	return most
}

// key is the common mark of a child's processes; 0 for none.
func (r *room) key(c *child) uint32 {
	switch {
	case c.state != alive && c.state != exited:
		return 0
	case r.place.tags:
		return c.tag
	}
	return uint32(c.pid)
}

// keyOf is that of a process.
func (r *room) keyOf(pid int32, status []byte) uint32 {
	if r.place.tags {
		return tagIn(status, r.policy)
	}
	return uint32(max(sys.Getsid(pid), 0))
}

// threadsIn is how many threads /proc/PID/status tells of.
func threadsIn(status []byte) int {
	_, threads, _ := bytes.Cut(status, []byte("\nThreads:"))
	return int(proc.Number(proc.Field(threads, 1)))
}
