package reap

import (
	"time"

	"golang.org/x/sys/unix"

	"rlminit/reap/say"
	"rlminit/reap/sys"
	"rlminit/reap/threads"
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
	mostInVain   = 8                 // early ends in a row of which none has booted: a second
)

// tier2 is the supervisor's life: when it is started again, and whether it is of
// use. Messages to it are the pair's.
//
// Invariant: restartAt is never as long as it is alive or on its way.
type tier2 struct {
	process
	since     int64 // when it was started
	restartAt int64
	ends      ends
	booted    bool      // one was through with the boot: from then on nothing ends the container but its end
	inVain    int       // early ends in a row before that, all like the last
	lastEnd   wire.Exit // of them
	traceable bool      // the group that would keep it from being traced cannot be had
	silences  int       // supervisors in a row that were replaced for silence: each doubles the time that the next has, which may only be slow
	pulse     pulse
	room      room        // for the next one
	rest      *time.Timer // gives back what its boot took

	pair      *pair
	policy    *wire.Policy
	signaller *signaller
}

// pulse is how tier 2 is asked whether it is alive.
type pulse struct {
	at         int64
	unanswered int
	owesPong   int  // pings in a row that no Pong came after
	events     bool // since the last ping
}

// ends counts the reports of tier 2's ends. An attacker that can end it shall not fill
// the log with that, nor be able to keep it from coming back by doing so often.
type ends struct {
	saidAt int64
	unsaid int // since then
}

// startTier2 makes a new pair and a process at its other end.
func (r *reaper) startTier2() {
	t := &r.tier2
	t.restartAt = never
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.failed(r.now, "cannot make a socket pair: "+err.Error())
		return
	}
	if errno := r.pair.open(pair[0]); errno != 0 {
		wire.CloseAll(pair[:])
		t.failed(r.now, "cannot watch its socket: "+errno.String())
		return
	}
	t.spawning, t.since, t.pulse = true, r.now, pulse{at: r.now + helloWithin}
	r.threads.Submit(&threads.Job{
		Command: r.commands.tier2(pair[1], t.traceable),
		FDs:     pair[1:],
		Stuck: func(*threads.Job) {
			say.Line("the supervisor cannot be started: its program lies on a file system that does not answer")
		},
		Done: r.tier2Spawned,
	}, r.now)
}

// tier2Spawned is called when the spawn is over.
func (r *reaper) tier2Spawned(j *threads.Job) {
	t, c := &r.tier2, j.Command
	wire.CloseAll(j.FDs)
	t.spawning = false
	if c.EffectiveGID != 0 && c.Errno == sys.EINVAL && !t.traceable {
		t.traceable = true // a small user namespace does not have that group
		r.pair.disconnect()
		r.startTier2()
		return
	}
	if c.Errno != 0 {
		what := "cannot start the supervisor: " + c.Step.Call() + c.Errno.String()
		cramped := r.tier2.room.wanted(c.Errno, r.now)
		if refused := c.Errno == sys.EPERM || c.Errno == sys.ENOSYS; refused && t.useless(wire.Exit{Code: int32(c.Errno)}, r.now, cramped) {
			say.Line(what, ", ", say.Number(t.inVain), " times in a row; the container ends")
			r.stop.end(exitFailed, r.now)
			return
		}
		t.failed(r.now, what)
		return
	}
	r.began(&t.process, c)
}

// tier2Ended collects tier 2 if it has ended, and makes a new one.
func (r *reaper) tier2Ended() {
	t := &r.tier2
	exit, over := t.collect()
	if !over {
		return
	}
	if r.stop.phase != running {
		r.pair.disconnect()
		return
	}
	cramped := false
	if r.now-t.since < earlyEnd {
		cramped = r.tier2.room.wanted(0, r.now)
	}
	what := "the supervisor " + inWords(exit, "ended")
	if t.useless(exit, r.now, cramped) {
		say.Line(what, ", ", say.Number(t.inVain), " times in a row, and has never come up: what it said before that is the cause; the container ends")
		r.stop.end(exitFailed, r.now)
		return
	}
	t.failed(r.now, what)
}

// useless tells whether tier 2 has ended early again and again, always in the same way, and
// was never through with a boot: then another one comes up no more than these. It does not
// count that somebody has killed it, the kernel for want of memory say, or that there was no
// room for it.
func (t *tier2) useless(exit wire.Exit, now int64, cramped bool) bool {
	alike := exit.Code == t.lastEnd.Code && exit.Signal == t.lastEnd.Signal
	t.lastEnd = exit
	switch {
	case t.booted, cramped, now-t.since >= earlyEnd, exit.Signal == int32(sys.SIGKILL):
		t.inVain = 0
	case !alike:
		t.inVain = 1
	default:
		t.inVain++
	}
	return t.inVain == mostInVain
}

// failed says what happened and plans the next attempt: at once, for ever, but
// for a pause from one start to the next. There is no back-off: it would be the
// weapon of an attacker that can end tier 2.
func (t *tier2) failed(now int64, what string) {
	t.pair.disconnect()
	t.restartAt = now
	if t.since != 0 {
		t.restartAt = max(now, t.since+restartEvery)
	}
	e := &t.ends
	if e.saidAt != 0 && now-e.saidAt < sayEvery {
		e.unsaid++
		return
	}
	if e.unsaid > 0 {
		what += " (and " + say.Number(e.unsaid) + " times before)"
	}
	*e = ends{saidAt: now}
	say.Line(what, "; started again, services are not affected")
}

// kill ends a tier 2 that is of no use. Its end starts the next.
func (t *tier2) kill() {
	if t.pid != 0 {
		t.signaller.kill(t.pid, sys.SIGKILL, t.policy.Supervisor.UID)
	}
}

// next is when there is something to do for it.
func (t *tier2) next() int64 {
	next := min(t.restartAt, t.pair.retryAt)
	if t.pid != 0 {
		next = min(next, t.pulse.at)
	}
	return next
}

// look pings tier 2 and ends one that is of no use. Pings are counted, not the
// time that went by: after a pause of the whole container tier 2 gets its chance.
func (t *tier2) look(now int64) {
	p := &t.pulse
	if t.pid == 0 || now < p.at {
		return
	}
	p.at = now + pingEvery
	switch {
	case t.pair.socket < 0: // let go of: it is about to end
	case !t.pair.greeted:
		say.Line("the supervisor does not say hello; replaced")
		t.kill()
	case p.unanswered >= 2<<t.silences, p.owesPong >= mostPongs<<t.silences:
		say.Line("the supervisor does not answer; replaced")
		t.silences = min(t.silences+1, 3) // 5 s become 40
		t.kill()
	default:
		p.unanswered++
		p.owesPong++
		p.events = false
		t.pair.pings++
		t.pair.owed |= owedPing
	}
}

// attend has tier 2 asked soon whether it is alive, for something happened: an
// exit that it will be told of, a signal, its own stop, a client at the door.
func (t *tier2) attend(now int64) {
	t.pulse.events = true
	if t.pair.greeted {
		t.pulse.at = min(t.pulse.at, now+pingEvery)
	}
}

// heard notes a sign of life. It is not asked again soon if nothing happened
// since it was: then it returns true, and the next client is to wake us.
func (t *tier2) heard(now int64) (atRest bool) {
	p := &t.pulse
	if atRest = p.unanswered > 0 && !p.events; atRest {
		t.silences = 0
		p.at = now + pingAtRest
	}
	p.unanswered = 0
	return atRest
}
