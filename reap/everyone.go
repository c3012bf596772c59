package reap

import (
	"rlminit/reap/sys"
	"rlminit/wire"
)

// everyone is all processes of the container that tier 1 knows of: the way to
// all of them at once. It keeps nothing of its own.
type everyone struct {
	children  *children
	orphans   *orphans
	signaller *signaller
	prepare   *prepare
	main      *mainCommand
	tier2     *tier2
}

// own tells whether tier 1 started a process.
func (e *everyone) own(pid int32) bool {
	if pid == e.tier2.pid || pid == e.main.pid {
		return true
	}
	for c := e.children.first; c != nil; c = c.next {
		if c.pid == pid && c.state == alive {
			return true
		}
	}
	return false
}

// onlyTier2 tells whether no process but tier 2 is left.
func (e *everyone) onlyTier2() bool {
	for c := e.children.first; c != nil; c = c.next {
		if (c.state == alive || c.state == pending) && c.name != wire.FilesProgram { // which ends with tier 2
			return false
		}
	}
	for _, pid := range e.orphans.all() {
		if pid != e.tier2.pid {
			return false
		}
	}
	return true
}

// signal signals main's group, the groups of all children, and orphans.
func (e *everyone) signal(signal int32) {
	e.prepare.signal(signal)
	if m := e.main; m.pid != 0 {
		e.signaller.kill(-m.pid, signal, m.user)
	}
	for c := e.children.first; c != nil; c = c.next {
		if c.pid != 0 && (c.state == alive || c.state == pending) && (c.name != wire.FilesProgram || signal == sys.SIGKILL) {
			e.signaller.kill(-c.pid, signal, c.user)
		}
	}
	for _, pid := range e.orphans.all() {
		if pid != e.tier2.pid {
			e.signaller.killUnknown(pid, signal)
		}
	}
}

// killAll sends SIGKILL to all there is. Only as PID 1 is that everything in a
// PID namespace of our own; anywhere else it would be everybody's.
func (e *everyone) killAll() {
	if e.signaller.place.pid == 1 && sys.Kill(-1, sys.SIGKILL) == 0 && e.signaller.place.kill {
		return
	}
	e.signal(sys.SIGKILL)
	e.tier2.kill()
	e.signaller.threads.Each(e.signaller.killJob)
}
