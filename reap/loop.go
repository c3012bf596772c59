package reap

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/pure"
	"rlminit/reap/sys"
	"rlminit/wire"
)

// reaper is all state of tier 1. Only the loop's goroutine touches it.
type reaper struct {
	place  place // what this container allows
	policy *wire.Policy

	directory string // the runtime directory

	events   *sys.Events
	signals  *sys.Signals
	threads  threads
	children children
	orphans  orphans
	held     map[string][]int
	heldFDs  int
	unheld   map[string]string // keys of which the last Hold was refused, and their services
	budget   budget            // of what tier 2 may ask for
	roomAt   int64             // before then no service is ended for want of room
	tier2    tier2
	prepare  prepare
	main     mainCommand
	stop     stop
	leaves   leaves

	receiver  wire.Receiver
	waker     int32    // a timer, for close
	unwatched []*child // alive, and without a pidfd
	sweep     bool     // a child may have ended
	now       int64    // CLOCK_MONOTONIC, ns, of this turn
	said      map[string]struct{}
	null      int // /dev/null, -1 where there is none
	enclosure sys.Enclosure
}

// Keys of what the loop waits for. From firstID on they are ids of children.
const (
	keyChildren = 1 + iota
	keySignals
	keySpawned
	keySocket
	keyTier2
	keyMain
	keyPrepare
	keyControl
)

// loop runs until the container is over, and returns the exit code.
func (r *reaper) loop() int {
	for !r.stop.over {
		r.turn()
	}
	return r.exitCode()
}

// turn waits once and handles what came. A fault in it is said and survived:
// whatever is wrong with one event, the others still need their init.
func (r *reaper) turn() {
	defer func() {
		if fault := recover(); fault != nil {
			r.sweep = true
			r.sayFault(fault)
		}
	}()
	r.now = monotonic()
	ready := r.events.Wait(r.timeout())
	r.now = monotonic()
	for i := range ready {
		r.dispatch(&ready[i])
	}
	r.timers()
	if r.sweep {
		r.sweep = false
		r.reapOrphans()
		r.pollUnwatched()
		r.endAgain()
		r.leaves.tidy(&r.children)
	}
	r.flush()
	r.checkOver()
}

func (r *reaper) dispatch(event *sys.EpollEvent) {
	if event.Key() != keySocket {
		r.tier2.attend(r.now)
	}
	switch key := event.Key(); key {
	case keyControl: // a client, which is tier 2's
	case keyChildren:
		r.sweep = true
	case keySignals:
		for _, record := range r.signals.Next() {
			r.signal(record)
		}
	case keySpawned:
		r.threads.harvest(r.now)
		r.dumpableAgain()
	case keySocket:
		if event.Events&sys.Writable != 0 {
			r.tier2.full = false
		}
		switch {
		case event.Events&sys.Gone != 0 && r.deaf():
			r.letGo() // what it sent last is lost, as it would be a moment earlier
		case event.Events&(sys.Readable|sys.Gone) != 0:
			r.receive()
		}
	case keyTier2:
		r.tier2Ended()
	case keyMain:
		r.mainEnded()
	case keyPrepare:
		r.prepareEnded()
	default:
		if c := r.children.byID[key]; c != nil {
			r.childEnded(c)
		}
	}
}

// signal handles what PID 1 was sent.
func (r *reaper) signal(record sys.Record) {
	if record.Signal == sys.SIGPIPE && record.Sender == r.place.pid {
		return // a line of ours that nobody reads
	}
	if r.policy.Verbosity > 1 {
		say("received signal ", decimal(int(record.Signal)), " (", pure.Describe(record.Signal), ")")
	}
	switch record.Signal {
	case sys.SIGTERM, sys.SIGINT:
		r.stopOrHurry()
	case sys.SIGQUIT:
		r.stopAtOnce()
	case sys.SIGHUP:
		r.tier2.owed |= owedReload
	default:
		r.main.forward(r, record.Signal)
	}
}

// dumpableAgain undoes, as root, what the last child's change of user has done
// to the memory that it shared: root in the container may look at /proc/1/fd
// again, by which programs write to the container's log.
func (r *reaper) dumpableAgain() {
	if r.place.root && r.threads.idle() {
		unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	}
}

// never is a time that does not come.
const never = int64(1<<63 - 1)

// timeout returns how long the loop may wait, in ms, rounded up; -1 for ever.
func (r *reaper) timeout() int {
	if r.sweep {
		return 0
	}
	next := min(r.tier2.next(), r.stop.next(), r.threads.next(), r.nextExpiry(), r.budget.next())
	if next == never {
		return -1
	}
	if next <= r.now {
		return 0
	}
	return int(min((next-r.now+999_999)/1_000_000, 1<<30))
}

// timers does what has become due. The threads come last: what the others give
// them, with every thread stuck, shall not wait until something else happens.
func (r *reaper) timers() {
	r.tier2Timers()
	r.stopTimers()
	r.expiryTimers()
	r.threads.look(r.now)
}

// sayFault says what went wrong inside.
func (r *reaper) sayFault(fault any) {
	what := "unknown"
	if err, ok := fault.(error); ok { // the runtime's all are
		what = err.Error()
	}
	say("internal error: ", what, "; rlminit goes on, please report this")
}

// monotonic returns CLOCK_MONOTONIC in ns.
func monotonic() int64 { return clock(unix.CLOCK_MONOTONIC) }

// sinceBoot returns CLOCK_BOOTTIME in ns, which both tiers read.
func sinceBoot() int64 { return clock(unix.CLOCK_BOOTTIME) }

func clock(id int32) int64 {
	var ts unix.Timespec
	if unix.ClockGettime(id, &ts) != nil {
		return 0
	}
	return ts.Nano()
}
