package reap

import (
	"golang.org/x/sys/unix"

	"rlminit/reap/pure"
	"rlminit/reap/say"
	"rlminit/reap/sys"
	"rlminit/reap/threads"
	"rlminit/wire"
)

// mainCommand is the container's command: in the foreground of the terminal,
// and the one whose end is the container's. Where it is a service, tier 2 starts
// it, and it has the terminal alone.
//
// Invariant: waiting is empty but while it is spawning. At most one of pid and
// service is there.
type mainCommand struct {
	process
	wanted   bool
	user     uint32
	code     int
	waiting  []int32 // signals that came before it ran
	terminal pure.Terminal
	service  *child // the main command that is a service; nil: it does not run

	policy    *wire.Policy
	signaller *signaller
}

// mostWaiting bounds the signals that wait for a main command.
const mostWaiting = 64

// startMain spawns the main command, if there is one.
func (r *reaper) startMain() {
	p, m := r.policy.Main, &r.main
	if p != nil || r.policy.Supervised {
		m.terminal.Find()
	}
	if p == nil {
		return
	}
	m.wanted, m.spawning = true, true
	if r.stop.mainSignal = p.StopSignal; p.StopSignal <= 0 || p.StopSignal > 64 {
		r.stop.mainSignal = sys.SIGTERM
	}
	c := &sys.Command{OOMScore: oomChild, Session: sys.ForegroundGroup}
	if no := r.commands.program(c, p, p.Argv, p.Env, 0); no != nil {
		say.Line("cannot run the main command: ", no.reason)
		r.mainFailed(exitFailed)
		return
	}
	if r.leaves.There() {
		if no := r.leaves.Enter(c, 0, p.Bounds); no != nil {
			say.Line("cannot run the main command: its cgroup: ", no.Reason, ": ", no.Errno.Error())
			r.mainFailed(exitFailed)
			return
		}
	}
	c.ShellFallback() // an entrypoint may be a script that does not say so
	m.user = c.UID
	r.threads.Submit(&threads.Job{Command: c, Done: r.mainSpawned, Stuck: func(*threads.Job) {
		say.Line("cannot run \"", p.Argv[0], "\" yet: its file system does not answer")
	}}, r.now)
}

func (r *reaper) mainSpawned(j *threads.Job) {
	m, c := &r.main, j.Command
	m.spawning = false
	r.leaves.Close(c)
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
		say.Line("cannot run \"", r.policy.Main.Argv[0], "\": ", reason)
		r.mainFailed(code)
		return
	}
	r.began(&m.process, c)
	r.sweep = true // it may have ended or been stopped before we knew its pid
	r.voice.Tell(1, "the main command runs, pid ", say.Number(int(m.pid)))
	for _, signal := range m.waiting {
		m.signal(m.pid, signal, m.user)
	}
	m.waiting = nil
}

// mainFailed answers that there will be no main command: that ends the container.
func (r *reaper) mainFailed(code int) {
	r.main.spawning, r.main.code = false, code
	r.stop.end(code, r.now) // also where the container lives with a service
}

// mainEnded collects the main command if it has ended, and ends the container
// with it unless that lives and dies with a service.
func (r *reaper) mainEnded() {
	m := &r.main
	exit, over := m.collect()
	if !over {
		return
	}
	m.code = codeOf(exit)
	r.voice.Tell(1, "the main command ", inWords(exit, "exited"))
	for _, code := range r.policy.Success {
		if m.code == int(code) {
			m.code = 0
		}
	}
	if !r.policy.ExitOn && r.stop.phase == running {
		r.pair.ending.Main = int32(m.code)
		r.stop.begin(r.now)
	}
}

// lookAtTerminal looks whether the terminal has stopped main.
func (m *mainCommand) lookAtTerminal() {
	var info siginfo
	pid, _, terminal := m.current()
	if pid == 0 || !terminal {
		return
	}
	if found, _ := waitid(unix.P_PID, int(pid), unix.WSTOPPED, &info); found && info.code == cldStopped {
		m.terminal.Stopped(pid, info.status)
	}
}

// forward hands a signal on, in the order of arrival.
func (m *mainCommand) forward(signal int32) {
	switch pid, user, terminal := m.current(); {
	case pid == 0 && m.spawning && len(m.waiting) < mostWaiting:
		m.waiting = append(m.waiting, signal)
	case pid != 0 && (signal != sys.SIGCONT || !terminal || !m.terminal.Continued(pid)):
		m.signal(pid, signal, user)
	}
}

// current is the main command's process, be it a service or not: its pid, 0 for
// none; its user; and whether it may have the terminal.
func (m *mainCommand) current() (pid int32, user uint32, terminal bool) {
	if c := m.service; c != nil && c.state == alive {
		return c.pid, c.user, c.terminal
	}
	return m.pid, m.user, true
}

// signal sends a signal for the main command to the policy's target.
func (m *mainCommand) signal(pid, signal int32, user uint32) {
	if m.policy.SignalGroup {
		pid = -pid
	}
	m.signaller.kill(pid, signal, user)
}

// beginStop asks the command, unless it is a service, to end; one that is on its way
// as soon as it runs.
func (m *mainCommand) beginStop(signal int32) {
	if m.pid != 0 {
		m.signal(m.pid, signal, m.user)
		m.signal(m.pid, sys.SIGCONT, m.user)
	} else if m.spawning {
		m.waiting = append(m.waiting, signal)
	}
}

// is tells whether tier 2 asks for the main command.
func (m *mainCommand) is(s *wire.Spawn) bool {
	return m.policy.Supervised && s.Name == wire.MainService
}

// checkTerminal refuses the terminal to all but the main command, and to that if
// it has it already.
func (m *mainCommand) checkTerminal(s *wire.Spawn) *refusal {
	if s.Terminal && (!m.is(s) || m.service != nil || !m.terminal.Found()) {
		return &refusal{wire.StepPolicy, unix.EPERM, "the terminal is the main command's alone, and there may be none"}
	}
	return nil
}

// serviceGone answers that a child is no more: if it was the main command, the
// terminal is as it was found until the next one has it, and ^C ends the container.
func (m *mainCommand) serviceGone(c *child) {
	if m.service != c {
		return
	}
	m.service = nil
	if c.terminal {
		m.terminal.Restore()
	}
}
