package pure

import "rlminit/reap/sys"

// Terminal is the controlling terminal on stdin, if there is one, and who had
// it before the command.
type Terminal struct {
	found bool
	shell bool  // a job-control shell started us: it wakes what ^Z stopped
	group int32 // its foreground group at start
}

// Find looks at stdin.
func (t *Terminal) Find() {
	t.group = sys.Foreground(0)
	t.found = t.group > 0
	t.shell = t.found && sys.Getsid(0) != sys.Getpid()
}

// Found tells whether there is one.
func (t *Terminal) Found() bool { return t.found }

// Stopped answers that signal has stopped the main command, the leader of group pid.
//
// Where we lead the session, nobody else could ever continue what the terminal
// has stopped. Where a shell does, it knows only us: stop too, and give it the
// terminal back.
func (t *Terminal) Stopped(pid, signal int32) {
	if !t.found {
		return
	}
	if !jobControl(signal) {
		return // stopped by somebody who knows how to go on
	}
	if t.shell {
		sys.SetForeground(0, sys.Getpgid(0))
		sys.Kill(sys.Getpid(), sys.SIGSTOP)
		return
	}
	if signal != sys.SIGTSTP {
		sys.SetForeground(0, pid) // it wanted the terminal and nobody else is there to have it
	}
	sys.Kill(-pid, sys.SIGCONT)
}

// Continued answers SIGCONT, and tells whether that was all there is to do.
func (t *Terminal) Continued(pid int32) bool {
	if !t.shell {
		return false
	}
	if sys.Foreground(0) == sys.Getpgid(0) {
		sys.SetForeground(0, pid)
	}
	sys.Kill(-pid, sys.SIGCONT)
	return true
}

// Restore gives the terminal back to whom we found it with.
func (t *Terminal) Restore() {
	if t.found {
		sys.SetForeground(0, t.group)
	}
}
