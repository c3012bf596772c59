package reap

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/pure"
	"rlminit/reap/sys"
	"rlminit/wire"
)

// mainCommand is the container's command: in the foreground of the terminal,
// and the one whose end is the container's.
type mainCommand struct {
	wanted   bool
	spawning bool
	pid      int32 // 0: not yet, or no longer
	pidfd    int32
	user     uint32
	code     int
	waiting  []int32 // signals that came before it ran
	terminal pure.Terminal
	service  *child // the main command that is a service; nil: it does not run
}

// mostWaiting bounds the signals that wait for a main command.
const mostWaiting = 64

func (m *mainCommand) running() bool { return m.pid != 0 }

// startMain spawns the main command, if there is one.
func (r *reaper) startMain() {
	p, m := r.policy.Main, &r.main
	if p != nil || r.policy.Supervised {
		m.terminal.Find()
	}
	if p == nil {
		return
	}
	m.wanted, m.spawning, m.pidfd = true, true, -1
	if r.stop.mainSignal = p.StopSignal; p.StopSignal <= 0 || p.StopSignal > 64 {
		r.stop.mainSignal = sys.SIGTERM
	}
	c := &sys.Command{Session: sys.ForegroundGroup, OOMScore: r.oomScore(oomChild)}
	if no := r.program(c, p, p.Argv, p.Env, 0); no != nil {
		say("cannot run the main command: ", no.reason)
		r.mainFailed(exitFailed)
		return
	}
	if r.leaves.bounds != nil {
		if no := r.leaves.enter(c, 0, p.Bounds); no != nil {
			say("cannot run the main command: its cgroup: ", no.reason, ": ", no.errno.Error())
			r.mainFailed(exitFailed)
			return
		}
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
	r.leaves.close(c)
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
		say("cannot run \"", r.policy.Main.Argv[0], "\": ", reason)
		r.mainFailed(code)
		return
	}
	m.pid, m.pidfd = c.PID, c.PIDFD
	r.raiseOOMScore(c.PID, oomChild)
	r.watch(&m.pidfd, keyMain)
	r.sweep = true // it may have ended or been stopped before we knew its pid
	r.tell(1, "the main command runs, pid ", decimal(int(m.pid)))
	for _, signal := range m.waiting {
		r.kill(r.target(m.pid), signal, m.user)
	}
	m.waiting = nil
}

// mainFailed answers that there will be no main command: that ends the container.
func (r *reaper) mainFailed(code int) {
	r.main.spawning, r.main.code = false, code
	r.end(code) // also where the container lives with a service
}

// mainEnded collects the main command if it has ended, and ends the container
// with it unless that lives and dies with a service.
func (r *reaper) mainEnded() {
	m := &r.main
	var info siginfo
	if m.pid == 0 || !hasEnded(m.pid, m.pidfd, &info) {
		return
	}
	reapNow(m.pid, &m.pidfd)
	m.pid = 0
	exit := exitOf(&info)
	m.code = codeOf(exit)
	if exit.Signal != 0 {
		r.tell(1, "the main command was killed by signal ", decimal(int(exit.Signal)))
	} else {
		r.tell(1, "the main command exited with code ", decimal(m.code))
	}
	for _, code := range r.policy.Success {
		if m.code == int(code) {
			m.code = 0
		}
	}
	if !r.policy.ExitOn {
		r.beginStop()
	}
}

// mainStopped looks whether the terminal has stopped main.
func (r *reaper) mainStopped() {
	m := &r.main
	var info siginfo
	pid, _, terminal := m.process()
	if pid == 0 || !terminal {
		return
	}
	if found, _ := waitid(unix.P_PID, int(pid), unix.WSTOPPED, &info); found && info.code == cldStopped {
		m.terminal.Stopped(pid, info.status)
	}
}

// forward hands a signal on, in the order of arrival.
func (m *mainCommand) forward(r *reaper, signal int32) {
	switch pid, user, terminal := m.process(); {
	case pid == 0 && m.spawning && len(m.waiting) < mostWaiting:
		m.waiting = append(m.waiting, signal)
	case pid != 0 && (signal != sys.SIGCONT || !terminal || !m.terminal.Continued(pid)):
		r.kill(r.target(pid), signal, user)
	}
}

// process is the main command's, be it a service or not: its pid, 0 for none;
// its user; and whether it may have the terminal.
func (m *mainCommand) process() (pid int32, user uint32, terminal bool) {
	if c := m.service; c != nil && c.state == alive {
		return c.pid, c.user, c.terminal
	}
	return m.pid, m.user, true
}

// target is whom a signal for the main command goes to, kill(2).
func (r *reaper) target(pid int32) int32 {
	if r.policy.SignalGroup {
		return -pid
	}
	return pid
}

// mainUser is who the main command runs as.
func (r *reaper) mainUser() *wire.Identity {
	if r.policy.Main != nil {
		return &r.policy.Main.Identity
	}
	if p := r.definition(wire.MainService); r.policy.Supervised && p != nil {
		return &p.Identity
	}
	return &r.policy.User
}

// isMain tells whether tier 2 asks for the main command.
func (r *reaper) isMain(m *wire.Spawn) bool {
	return r.policy.Supervised && m.Name == wire.MainService
}

// checkTerminal refuses the terminal to all but the main command, and to that if
// it has it already.
func (r *reaper) checkTerminal(m *wire.Spawn) *refusal {
	if m.Terminal && (!r.isMain(m) || r.main.service != nil || !r.main.terminal.Found()) {
		return &refusal{wire.StepPolicy, unix.EPERM, "the terminal is the main command's alone, and there may be none"}
	}
	return nil
}

// serviceGone answers that a child is no more: if it was the main command, the
// terminal is as it was found until the next one has it, and ^C ends the container.
func (r *reaper) serviceGone(c *child) {
	if r.main.service != c {
		return
	}
	r.main.service = nil
	if c.terminal {
		r.main.terminal.Restore()
	}
}
