package reap

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/say"
	"rlminit/reap/sys"
	"rlminit/reap/threads"
	"rlminit/wire"
)

// signaller sends signals to processes whose number is known to be theirs still:
// only the loop collects.
type signaller struct {
	place   *place
	policy  *wire.Policy
	threads *threads.Threads
}

// kill sends a signal to a process (or, for a negative pid, a group) of a user.
// Without CAP_KILL root may not signal others: then a child that has become
// that user does.
func (s *signaller) kill(pid, signal int32, user uint32) unix.Errno {
	errno := unix.Errno(sys.Kill(pid, signal))
	if errno != unix.EPERM || !s.place.setIDs || user == 0 {
		return errno
	}
	c := sys.Command{
		Session: sys.SameGroup,
		SetIDs:  true, UID: user, GID: s.policy.User.GID,
		Kill: &sys.Victim{PID: pid, Signal: signal},
	}
	c.Start()
	if c.PID == 0 {
		return unix.Errno(c.Errno)
	}
	sys.Close(c.PIDFD)
	sys.Collect(c.PID)
	s.dumpableAgain()
	return unix.Errno(c.Errno)
}

// dumpableAgain undoes, as root, what the last child's change of user has done
// to the memory that it shared: root in the container may look at /proc/1/fd
// again, by which programs write to the container's log.
func (s *signaller) dumpableAgain() {
	if s.place.root && s.threads.Idle() {
		unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	}
}

// killPending kills a child on its way to its program, and notes the reason: the answer to
// its spawn names it. The first reason stays.
func (s *signaller) killPending(c *child, why unix.Errno) {
	if c.killed == 0 {
		c.killed = why
	}
	s.killJob(c.spawn)
}

// killJob kills a process that is on its way to its program. By pidfd, for its
// thread may be collecting it at this moment: if that says that it is gone, its
// pid may be another's already.
func (s *signaller) killJob(j *threads.Job) {
	pid, pidfd := j.InFlight()
	if pidfd >= 0 {
		if err := unix.PidfdSendSignal(int(pidfd), unix.SIGKILL, nil, 0); err == nil || err == unix.ESRCH {
			return
		}
	}
	if pid > 0 { // no CAP_KILL, or no pidfds
		s.kill(pid, sys.SIGKILL, j.Command.UID)
	}
}

// killUnknown signals a process known by its number alone, as a
// profile's user, as /proc has it, or else the services'.
func (s *signaller) killUnknown(pid, signal int32) {
	user := s.policy.User.UID
	var st unix.Stat_t
	if unix.Stat("/proc/"+say.Number(int(pid)), &st) == nil && s.policy.Profiles.Has(st.Uid) {
		user = st.Uid
	}
	s.kill(pid, signal, user)
}

// killBearer signals a process that may be somebody else's child, as long as it
// still bears what it is looked for: between the look at it and the signal its
// number could be given to another, but for the pidfd that holds on to the one
// that is looked at again.
func (s *signaller) killBearer(pid, signal int32, user uint32, bears func(pid int32) bool) {
	pidfd, err := unix.PidfdOpen(int(pid), 0)
	if err != nil {
		if err != unix.ESRCH { // no pidfds here
			s.kill(pid, signal, user)
		}
		return
	}
	if bears(pid) {
		if err := unix.PidfdSendSignal(pidfd, unix.Signal(signal), nil, 0); err == unix.EPERM {
			s.kill(pid, signal, user)
		}
	}
	unix.Close(pidfd)
}
