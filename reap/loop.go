package reap

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/leaves"
	"rlminit/reap/pure"
	"rlminit/reap/say"
	"rlminit/reap/sys"
	"rlminit/reap/threads"
	"rlminit/wire"
)

// reaper is tier 1: the loop, and the rooms that it wires together. Each has what
// is its own and knows of the others what its fields show. Only the loop's
// goroutine touches any of it.
type reaper struct {
	place  place        // the abilities of this container
	policy *wire.Policy // as the configuration has it; set once, at boot

	events    *sys.Events
	signals   *sys.Signals
	threads   threads.Threads
	signaller signaller
	voice     say.Voice
	commands  commands

	children  children
	deadlines deadlines
	orphans   orphans
	leaves    leaves.Leaves
	held      held

	pair    pair
	tier2   tier2
	prepare prepare
	main    mainCommand
	stop    stop

	sweep bool  // a child may have ended
	now   int64 // CLOCK_MONOTONIC, ns, of this turn
}

// newReaper wires the rooms.
func newReaper() *reaper {
	r := &reaper{policy: new(wire.Policy), children: newChildren()}
	r.leaves.Entries = func(tag uint32) int { return r.children.tags[tag].entries }
	r.signaller = signaller{place: &r.place, policy: r.policy, threads: &r.threads}
	r.commands = commands{policy: r.policy, place: &r.place, children: &r.children, main: &r.main, null: -1}
	r.orphans = orphans{list: -1, place: &r.place, policy: r.policy, leaves: &r.leaves, ours: r.stop.everyone.own}
	r.deadlines = deadlines{
		children: &r.children, orphans: &r.orphans, leaves: &r.leaves, signaller: &r.signaller, tier2: &r.tier2.process,
		expire: func(c *child) { r.step(c, due) }, clock: -1,
	}
	r.held = held{byKey: make(map[string][]int), refused: make(map[string]string), place: &r.place, children: &r.children, voice: &r.voice}
	r.pair = pair{socket: -1, retryAt: never, budget: budget{resume: never}, children: &r.children, held: &r.held, voice: &r.voice}
	r.held.closer.budget = &r.pair.budget
	r.pair.receiver.Close = r.held.closer.close
	r.tier2 = tier2{process: process{key: keyTier2}, restartAt: never, pair: &r.pair, policy: r.policy, signaller: &r.signaller}
	r.tier2.room = room{place: &r.place, policy: r.policy, children: &r.children, orphans: &r.orphans, deadlines: &r.deadlines, voice: &r.voice}
	r.main = mainCommand{process: process{key: keyMain}, policy: r.policy, signaller: &r.signaller}
	r.prepare = prepare{process: process{key: keyPrepare}, signaller: &r.signaller}
	r.stop = stop{code: -1, pair: &r.pair, everyone: everyone{
		children: &r.children, orphans: &r.orphans, signaller: &r.signaller, prepare: &r.prepare, main: &r.main, tier2: &r.tier2,
	}}
	return r
}

// Keys of the loop's events. From firstID on they are ids of children.
const (
	keyChildren = 1 + iota
	keySignals
	keySpawned
	keySocket
	keyTier2
	keyMain
	keyPrepare
	keyControl
	keyClock
)

// loop runs until the container is over, and returns the exit code.
func (r *reaper) loop() int {
	for !r.stop.over {
		r.turn()
	}
	return r.stop.exitCode()
}

// turn waits once and handles what came. Whatever is wrong with one event or part, all
// others are done: they still need their init.
func (r *reaper) turn() {
	var ready []sys.EpollEvent
	survive(&r.voice, &r.sweep, func() {
		r.now = monotonic()
		ready = r.events.Wait(r.timeout())
		r.now = monotonic()
	})
	for i := range ready {
		survive(&r.voice, &r.sweep, func() { r.dispatch(&ready[i]) })
	}
	survive(&r.voice, &r.sweep, r.timers)
	survive(&r.voice, &r.sweep, func() {
		if r.sweep {
			r.sweep = false
			r.reapOrphans()
			r.pollUnwatched()
			r.deadlines.again()
			r.leaves.Tidy()
		}
	})
	survive(&r.voice, &r.sweep, func() {
		if !r.pair.flush(r.now, r.deaf(), r.threads.Soon()) {
			r.tier2.kill()
		}
	})
	survive(&r.voice, &r.sweep, r.stop.check)
}

// survive calls part. A fault in it is said once and survived, and sweep is set: what may
// have ended is looked at.
func survive(voice *say.Voice, sweep *bool, part func()) {
	defer func() {
		if fault := recover(); fault != nil {
			what := "unknown"
			if err, ok := fault.(error); ok { // the runtime's all are
				what = err.Error()
			}
			*sweep = true
			voice.Once("internal error: " + what + "; rlminit goes on, please report this")
		}
	}()
	part()
}

func (r *reaper) dispatch(event *sys.EpollEvent) {
	if event.Key() != keySocket {
		r.tier2.attend(r.now)
	}
	switch key := event.Key(); key {
	case keyControl, keyClock: // a client, which is tier 2's; a deadline, which timers sees
	case keyChildren:
		r.sweep = true
	case keySignals:
		for _, record := range r.signals.Next() {
			r.signal(record)
		}
	case keySpawned:
		r.threads.Harvest(r.now)
		r.signaller.dumpableAgain()
	case keySocket:
		if event.Events&sys.Writable != 0 {
			r.pair.full = false
		}
		switch {
		case event.Events&sys.Gone != 0 && r.deaf():
			r.letGo() // its last message is lost, as it would be a moment earlier
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
	if r.policy.Verbosity > 1 { // the line is made only where it is wanted
		say.Line("received signal ", say.Number(int(record.Signal)), " (", pure.Describe(record.Signal), ")")
	}
	switch record.Signal {
	case sys.SIGTERM, sys.SIGINT:
		r.stop.term(r.now)
	case sys.SIGQUIT:
		r.stop.quit(r.now)
	case sys.SIGHUP:
		r.pair.owed |= owedReload
	default:
		r.main.forward(record.Signal)
	}
}

// never is a time that does not come.
const never = int64(1<<63 - 1)

// timeout returns how long the loop may wait, in ms, rounded up; -1 for ever.
func (r *reaper) timeout() int {
	if r.sweep {
		return 0
	}
	next := min(r.tier2.next(), r.stop.next(), r.threads.Next(), r.deadlines.next(r.now), r.pair.budget.resume)
	if next == never {
		return -1
	}
	if next <= r.now {
		return 0
	}
	return int(min((next-r.now+999_999)/1_000_000, 1<<30))
}

// timers acts on passed deadlines. The threads come last: spawns that the others give
// them, with every thread stuck, shall not wait until something else happens.
func (r *reaper) timers() {
	r.pair.retry(r.now)
	if r.now >= r.tier2.restartAt && r.stop.phase == running {
		r.startTier2()
	}
	r.tier2.look(r.now)
	r.stop.look(r.now)
	r.deadlines.look(r.now)
	r.threads.Look(r.now)
}

// monotonic returns CLOCK_MONOTONIC in ns.
func monotonic() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // there is no kernel without it
	return now.Nano()
}

// sinceBoot returns CLOCK_BOOTTIME in ns, which both tiers read.
func sinceBoot() int64 { return int64(wire.SinceBoot()) }
