package reap

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
	"rlminit/wire"
)

// How tier 2 is kept alive, in ns.
const (
	pingEvery    = 5_000_000_000 / 3 // after an event; the third finds two unanswered: 5 s of silence
	pingAtRest   = 30e9              // where there was no event: nobody is woken for it more often
	helloWithin  = 10e9              // of a new tier 2
	restartEvery = 100e6             // from one start to the next, at least
	sayEvery     = 1e9               // of its ends; those between are counted
	mostPongs    = 12                // pings without a Pong, whatever else it sends meanwhile: 20 s
	retrySend    = 100e6             // after a send that failed for want of memory or descriptors
)

// tier2 is the supervisor's process and our end of the pair.
type tier2 struct {
	pid        int32 // 0: none
	pidfd      int32
	spawning   bool
	socket     int // -1: none
	generation uint32
	since      int64 // when it was started
	restartAt  int64 // never, where it is alive
	ends       ends

	greeted  bool // said Hello
	full     bool // the socket; until it can be written
	writable bool // epoll waits for that
	deaf     bool // epoll does not wait for messages
	retryAt  int64
	owed     tier2Owed
	snapshot snapshot

	strangers []wire.Signalled // answers about what is not in the table

	tier2Start
	pingAt     int64
	pings      uint64
	unanswered int
	owesPong   int  // pings in a row that no Pong came after
	events     bool // since the last ping
}

// ends is what was said of the ends of tier 2. Whoever can end it shall not fill
// the log with that, nor be able to keep it from coming back by doing so often.
type ends struct {
	saidAt int64
	unsaid int // since then
}

// tier2Start is what each tier 2 is started with.
type tier2Start struct {
	paths, environ []string
	passed         [3]int // control listener, bundle, policy
	traceable      bool   // the group that would keep it from being traced cannot be had
}

// tier2Owed are messages that concern no child.
type tier2Owed uint8

const (
	owedWelcome tier2Owed = 1 << iota
	owedPing
	owedShutdown
	owedReload
)

// snapshot is how far the table has been told to a new tier 2.
type snapshot struct {
	underWay bool
	ids      []uint64
	keys     []string
}

// startTier2 makes a new pair and a process at its other end.
func (r *reaper) startTier2() {
	t := &r.tier2
	t.restartAt = never
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		r.tier2Failed("cannot make a socket pair: " + err.Error())
		return
	}
	if errno := r.events.Add(int32(pair[0]), sys.Readable, keySocket); errno != 0 {
		wire.CloseAll(pair[:])
		r.tier2Failed("cannot watch its socket: " + errno.String())
		return
	}
	t.generation++
	*t = tier2{
		pidfd: -1, spawning: true, socket: pair[0], generation: t.generation,
		since: r.now, restartAt: never, ends: t.ends, pingAt: r.now + helloWithin,
		tier2Start: t.tier2Start, owed: t.owed,
	}
	r.threads.submit(&job{
		command: r.tier2Command(pair[1]),
		fds:     pair[1:],
		stuck: func(*job) {
			say("the supervisor cannot be started: its program lies on a file system that does not answer")
		},
		done: r.tier2Spawned,
	}, r.now)
}

// tier2Spawned is called when the spawn is over.
func (r *reaper) tier2Spawned(j *job) {
	t := &r.tier2
	c := j.command
	wire.CloseAll(j.fds)
	t.spawning = false
	if c.Opaque && c.Errno == sys.EINVAL && !t.traceable {
		t.traceable = true // a small user namespace does not have that group
		r.disconnect()
		r.startTier2()
		return
	}
	if c.Errno != 0 {
		r.tier2Failed("cannot start the supervisor: " + c.Errno.String())
		r.wantsRoom(c.Errno)
		return
	}
	t.pid, t.pidfd = c.PID, c.PIDFD
	r.raiseOOMScore(c.PID, oomTier2)
	if !r.watch(&t.pidfd, keyTier2) {
		r.sweep = true
	}
}

// tier2Ended collects tier 2 if it has ended, and makes a new one.
func (r *reaper) tier2Ended() {
	t := &r.tier2
	var info siginfo
	if t.pid == 0 || !hasEnded(t.pid, t.pidfd, &info) {
		return
	}
	reapNow(t.pid, &t.pidfd)
	t.pid = 0
	if r.stop.phase != running {
		r.disconnect()
		return
	}
	exit := exitOf(&info)
	if r.now-t.since < earlyEnd {
		r.wantsRoom(0)
	}
	if exit.Signal != 0 {
		r.tier2Failed("the supervisor was killed by signal " + decimal(int(exit.Signal)))
	} else {
		r.tier2Failed("the supervisor ended with code " + decimal(int(exit.Code)))
	}
}

// tier2Failed says what happened and plans the next attempt: at once, for ever,
// but for a pause from one start to the next. There is no back-off: it would be
// the weapon of whoever can end tier 2.
func (r *reaper) tier2Failed(what string) {
	t := &r.tier2
	r.disconnect()
	t.restartAt = r.now
	if t.since != 0 {
		t.restartAt = max(r.now, t.since+restartEvery)
	}
	e := &t.ends
	if e.saidAt != 0 && r.now-e.saidAt < sayEvery {
		e.unsaid++
		return
	}
	if e.unsaid > 0 {
		what += " (and " + decimal(e.unsaid) + " times before)"
	}
	*e = ends{saidAt: r.now}
	say(what, "; started again, services are not affected")
}

// disconnect closes our end of the pair. All that was owed is derived anew from
// the table by the next snapshot.
func (r *reaper) disconnect() {
	t := &r.tier2
	if t.socket >= 0 {
		unix.Close(t.socket)
		t.socket = -1
	}
	t.greeted, t.full = false, false
	t.owed &= owedReload
	t.snapshot = snapshot{}
	t.strangers = nil
	for i, c := range r.children.owing {
		c.queued, c.owed = false, 0
		r.children.owing[i] = nil
	}
	r.children.owing = r.children.owing[:0]
}

// killTier2 ends a tier 2 that is of no use. Its end starts the next.
func (r *reaper) killTier2() {
	if r.tier2.pid != 0 {
		r.kill(r.tier2.pid, sys.SIGKILL, r.policy.Supervisor.UID)
	}
}

// connected tells whether messages can be sent: the pair is there, and Hello
// was said.
func (t *tier2) connected() bool { return t.socket >= 0 && t.greeted }

func (t *tier2) next() int64 {
	next := t.restartAt
	if t.pid != 0 {
		next = min(next, t.pingAt)
	}
	if t.retryAt != 0 {
		next = min(next, t.retryAt)
	}
	return next
}

// tier2Timers restarts, pings and replaces. Pings are counted, not the time
// that went by: after a pause of the whole container tier 2 gets its chance.
func (r *reaper) tier2Timers() {
	t := &r.tier2
	if t.retryAt != 0 && r.now >= t.retryAt {
		t.retryAt, t.full = 0, false
	}
	if r.now >= t.restartAt && r.stop.phase == running {
		r.startTier2()
	}
	if t.pid == 0 || r.now < t.pingAt {
		return
	}
	t.pingAt = r.now + pingEvery
	switch {
	case t.socket < 0: // let go of: it is about to end
	case !t.greeted:
		say("the supervisor does not say hello; replaced")
		r.killTier2()
	case t.unanswered >= 2, t.owesPong >= mostPongs:
		say("the supervisor does not answer; replaced")
		r.killTier2()
	default:
		t.unanswered++
		t.owesPong++
		t.pings++
		t.events = false
		t.owed |= owedPing
	}
}

// attend has tier 2 asked soon whether it is alive, for something happened: an
// exit that it will be told of, a signal, its own stop, a client at the door.
func (t *tier2) attend(now int64) {
	t.events = true
	if t.greeted {
		t.pingAt = min(t.pingAt, now+pingEvery)
	}
}

// heard notes a sign of life. It is not asked again soon if nothing happened
// since it was, but the next client wakes us.
func (r *reaper) heard() {
	t := &r.tier2
	if t.unanswered > 0 && !t.events {
		t.pingAt = r.now + pingAtRest
		r.events.Change(int32(t.passed[0]), sys.Readable|sys.OneShot, keyControl)
	}
	t.unanswered = 0
}
