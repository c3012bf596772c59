package reap

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/pure"
	"rlminit/reap/sys"
)

// mainCommand is the container's command: in the foreground of the terminal,
// and the one whose end is the container's.
type mainCommand struct {
	wanted   bool
	spawning bool
	pid      int32 // 0: not yet, or no longer
	pidfd    int32
	user     uint32
	ended    bool
	code     int
	waiting  []int32 // signals that came before it ran
	terminal pure.Terminal
	argv     []string
}

// mostWaiting bounds the signals that wait for a main command.
const mostWaiting = 64

func (m *mainCommand) running() bool { return m.pid != 0 }

// startMain spawns the main command, if there is one.
func (r *reaper) startMain() {
	p := r.policy.Main
	if p == nil {
		return
	}
	m := &r.main
	m.wanted, m.spawning, m.pidfd, m.argv = true, true, -1, p.Argv
	if r.stop.mainSignal = p.StopSignal; p.StopSignal <= 0 || p.StopSignal > 64 {
		r.stop.mainSignal = sys.SIGTERM
	}
	m.terminal.Find()
	c := &sys.Command{Session: sys.ForegroundGroup, OOMScore: r.oomScore(oomChild)}
	if no := r.program(c, p, p.Argv, p.Env, 0); no != nil {
		say("cannot run the main command: ", no.reason)
		r.mainFailed(exitFailed)
		return
	}
	c.ShellFallback() // an entrypoint may be a script that does not say so
	m.user = c.UID
	r.threads.submit(&job{command: c, done: r.mainSpawned, stuck: func(*job) {
		say("cannot run \"", p.Argv[0], "\" yet: its file system does not answer")
	}}, r.now)
}

func (r *reaper) mainSpawned(j *job) {
	m, c := &r.main, j.command
	m.spawning = false
	if c.Errno != 0 {
		code := exitFailed
		reason := c.Errno.String()
		switch {
		case c.Step == sys.StepDir:
			reason = "its working directory: " + reason
		case c.Step != sys.StepExec:
		case c.Errno == sys.ENOENT || c.Errno == sys.ENOTDIR:
			code = exitNotFound
		default:
			code = exitNotExecutable
		}
		say("cannot run \"", m.argv[0], "\": ", reason)
		r.mainFailed(code)
		return
	}
	m.pid, m.pidfd = c.PID, c.PIDFD
	r.raiseOOMScore(c.PID, oomChild)
	r.watch(&m.pidfd, keyMain)
	r.sweep = true // it may have ended or been stopped before we knew its pid
	for _, signal := range m.waiting {
		r.kill(m.pid, signal, m.user)
	}
	m.waiting = nil
}

// mainFailed answers that there will be no main command: that ends the container.
func (r *reaper) mainFailed(code int) {
	r.main.spawning, r.main.ended, r.main.code = false, true, code
	if r.stop.code < 0 {
		r.stop.code = code // also where the container lives with a service
	}
	r.beginStop()
}

// mainEnded collects the main command if it has ended, and ends the container
// with it unless that lives and dies with a service. It also wakes it where the terminal has stopped it.
func (r *reaper) mainEnded() {
	m := &r.main
	var info siginfo
	if m.pid == 0 || !hasEnded(m.pid, m.pidfd, &info) {
		return
	}
	reapNow(m.pid, &m.pidfd)
	m.pid, m.ended = 0, true
	exit := exitOf(&info)
	m.code = int(exit.Code)
	if exit.Signal != 0 {
		m.code = 128 + int(exit.Signal)
	}
	if !r.policy.ExitOn {
		r.beginStop()
	}
}

// mainStopped looks whether the terminal has stopped main.
func (r *reaper) mainStopped() {
	m := &r.main
	var info siginfo
	if m.pid == 0 {
		return
	}
	if found, _ := waitid(unix.P_PID, int(m.pid), unix.WSTOPPED, &info); found && info.code == cldStopped {
		m.terminal.Stopped(m.pid, info.status)
	}
}

// forward hands a signal on, in the order of arrival.
func (m *mainCommand) forward(r *reaper, signal int32) {
	switch {
	case m.pid != 0:
		if signal != sys.SIGCONT || !m.terminal.Continued(m.pid) {
			r.kill(m.pid, signal, m.user)
		}
	case m.spawning && len(m.waiting) < mostWaiting:
		m.waiting = append(m.waiting, signal)
	case !m.wanted:
		r.forwardToService(signal)
	}
}

// forwardToService hands a signal on to a main command that is started again,
// and so is a service. Nothing else has that name.
func (r *reaper) forwardToService(signal int32) {
	for c := r.children.first; c != nil; c = c.next {
		if c.name == "main" && c.state == alive {
			r.kill(c.pid, signal, c.user)
		}
	}
}
