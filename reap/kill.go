package reap

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
)

// kill sends a signal to a process (or, for a negative pid, a group) of a user.
// Without CAP_KILL root may not signal others: then a child that has become
// that user does.
func (r *reaper) kill(pid, signal int32, user uint32) unix.Errno {
	errno := unix.Errno(sys.Kill(pid, signal))
	if errno != unix.EPERM || !r.place.setIDs || user == 0 {
		return errno
	}
	c := sys.Command{
		Session: sys.SameGroup,
		SetIDs:  true, UID: user, GID: r.policy.User.GID,
		Kill: true, KillPID: pid, KillSignal: signal,
	}
	c.Start()
	if c.PID == 0 {
		return unix.Errno(c.Errno)
	}
	if c.PIDFD >= 0 {
		sys.Close(c.PIDFD)
	}
	sys.Collect(c.PID)
	r.dumpableAgain()
	return unix.Errno(c.Errno)
}

// killJob kills a process that is on its way to its program. By pidfd, for its
// thread may be collecting it at this moment: if that says that it is gone, its
// pid may be another's already.
func (r *reaper) killJob(j *job) {
	pid, pidfd := j.inFlight()
	if pidfd >= 0 {
		if err := unix.PidfdSendSignal(int(pidfd), unix.SIGKILL, nil, 0); err == nil || err == unix.ESRCH {
			return
		}
	}
	if pid > 0 { // no CAP_KILL, or no pidfds
		r.kill(pid, sys.SIGKILL, j.command.UID)
	}
}

// userOf is whom a process has to be to signal one of which nothing is known but its
// number: a profile's user, as /proc has it, or else the services'.
func (r *reaper) userOf(pid int32) uint32 {
	var st unix.Stat_t
	if unix.Stat("/proc/"+decimal(int(pid)), &st) == nil && r.policy.Profiles.Has(st.Uid) {
		return st.Uid
	}
	return r.policy.User.UID
}
