package reap

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"rlminit/reap/say"
	"rlminit/reap/sys"
	"rlminit/wire"
)

// siginfo is siginfo_t as waitid(2) fills it in.
type siginfo struct {
	signo, errno, code, _ int32
	pid                   int32
	uid                   uint32
	status                int32
	_                     [128 - 28]byte
}

// Values of siginfo.code, waitid(2).
const (
	cldExited  = 1
	cldKilled  = 2
	cldDumped  = 3
	cldStopped = 5
)

// waitid waits without blocking. It returns false where there is nothing.
func waitid(kind, id, options int, info *siginfo) (bool, unix.Errno) {
	for {
		*info = siginfo{}
		_, _, errno := unix.RawSyscall6(unix.SYS_WAITID, uintptr(kind), uintptr(id),
			uintptr(unsafe.Pointer(info)), uintptr(options|unix.WNOHANG), 0, 0)
		if errno != unix.EINTR {
			return errno == 0 && info.pid != 0, errno
		}
	}
}

// exitOf turns what waitid tells into an Exit, as of now.
func exitOf(info *siginfo) wire.Exit {
	if info.code == cldExited {
		return wire.Exit{At: sinceBoot(), Code: info.status}
	}
	return wire.Exit{At: sinceBoot(), Code: -1, Signal: info.status, Core: info.code == cldDumped}
}

// codeOf is the exit in a shell's terms: its code, or 128 + its signal.
func codeOf(e wire.Exit) int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return int(e.Code)
}

// inWords tells how a process has ended.
func inWords(e wire.Exit, by string) string {
	if e.Signal != 0 {
		return "was killed by signal " + say.Number(int(e.Signal))
	}
	return by + " with code " + say.Number(int(e.Code))
}

// watch waits for the end of a process by its pidfd, and returns false where
// that cannot be done: it must be polled then.
func watch(events *sys.Events, pidfd *int32, key uint64) bool {
	if *pidfd < 0 {
		return false
	}
	if events.Add(*pidfd, sys.Readable, key) == 0 {
		return true
	}
	sys.Close(*pidfd)
	*pidfd = -1
	return false
}

// hasEnded peeks at a process of ours and leaves it a zombie, whose pid and group
// nobody else can have.
func hasEnded(pid, pidfd int32, info *siginfo) bool {
	kind, id := unix.P_PID, int(pid)
	if pidfd >= 0 {
		kind, id = unix.P_PIDFD, int(pidfd)
	}
	yes, errno := waitid(kind, id, unix.WEXITED|unix.WNOWAIT, info)
	if errno == unix.EINVAL && kind == unix.P_PIDFD {
		yes, _ = waitid(unix.P_PID, int(pid), unix.WEXITED|unix.WNOWAIT, info)
	}
	return yes
}

// collect collects a process if it has ended, and tells how.
func collect(pid int32, pidfd *int32) (exit wire.Exit, over bool) {
	var info siginfo
	if pid == 0 || !hasEnded(pid, *pidfd, &info) {
		return exit, false
	}
	exit = exitOf(&info)
	waitid(unix.P_PID, int(pid), unix.WEXITED, &info)
	if *pidfd >= 0 {
		sys.Close(*pidfd) // leaves epoll too
		*pidfd = -1
	}
	return exit, true
}

// process is one that tier 1 has started by itself.
//
// Invariant: pid is 0 as long as it is spawning, and from the moment on in which
// it is collected.
type process struct {
	key      uint64 // of its end, in the loop
	spawning bool
	pid      int32
	pidfd    int32 // -1: its end is polled for
}

// collect collects it if it has ended.
func (p *process) collect() (exit wire.Exit, over bool) {
	if exit, over = collect(p.pid, &p.pidfd); over {
		p.pid = 0
	}
	return exit, over
}

func (p *process) unwatched() bool { return p.pid != 0 && p.pidfd < 0 }

// began has the end of a process of our own waited for.
func (r *reaper) began(p *process, c *sys.Command) {
	p.pid, p.pidfd = c.PID, c.PIDFD
	if !watch(r.events, &p.pidfd, p.key) {
		r.sweep = true
	}
}

// childEnded collects a child of tier 2's if it has ended.
func (r *reaper) childEnded(c *child) {
	exit, over := collect(c.pid, &c.pidfd)
	if !over {
		return
	}
	c.exit = exit
	// Its own children were handed to us before it became a zombie.
	c.exit.Leftovers = uint32(len(r.orphans.leftovers(c)))
	c.exit.TimedOut = c.expiry.timedOut
	c.exit.OutOfMemory = c.tag != 0 && r.leaves.OOMKills(c.tag) > c.oomKills
	r.sweep = r.sweep || c.expiry.watched // its end may be complete
	r.main.serviceGone(c)
	r.step(c, ended)
}

// pollUnwatched looks at children without a pidfd.
func (r *reaper) pollUnwatched() {
	list := r.children.unwatched
	kept := list[:0]
	for _, c := range list {
		r.childEnded(c)
		if c.state == alive || c.state == pending {
			kept = append(kept, c)
		}
	}
	clear(list[len(kept):])
	r.children.unwatched = kept
	if r.tier2.unwatched() {
		r.tier2Ended()
	}
	if r.prepare.unwatched() {
		r.prepareEnded()
	}
	r.main.lookAtTerminal()
	if r.main.unwatched() {
		r.mainEnded()
	}
}

// batch is how many orphans are collected in one turn.
const batch = 256

// reapOrphans collects reparented processes. Those are children
// of our first thread, where the loop runs, and our own are children of the
// spawn threads: with __WNOTHREAD a sweep costs nothing for those that live.
func (r *reaper) reapOrphans() {
	var info siginfo
	for range batch {
		found, _ := waitid(unix.P_ALL, 0, unix.WEXITED|unix.WNOTHREAD, &info)
		if !found {
			return
		}
		r.orphans.collected(info.pid)
		if r.policy.WarnOnReap || r.policy.Verbosity > 1 {
			say.Line("Reaped zombie process with pid=", say.Number(int(info.pid)))
		}
	}
	r.sweep = true // more may be waiting
}

// childless tells whether no process at all is left to wait for.
func childless() bool {
	var info siginfo
	_, errno := waitid(unix.P_ALL, 0, unix.WEXITED|unix.WNOWAIT|unix.WALL, &info)
	return errno == unix.ECHILD
}
