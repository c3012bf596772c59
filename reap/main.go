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
	ended    bool
	code     int
	waiting  []int32 // signals that came before it ran
	terminal pure.Terminal
	argv     []string
}

// mostWaiting bounds the signals that wait for a main command.
const mostWaiting = 64

func (m *mainCommand) running() bool { return m.pid != 0 }

// mainProgram joins the arguments of init with the configuration: no arguments
// mean the configured command, a first argument that can be executed is the
// command, and any other is an argument of the configured one.
func (r *reaper) mainProgram(args, environ []string) *wire.Program {
	p := wire.Program{Name: "main", Identity: r.policy.User, NoNewPrivs: true, Umask: 0o022}
	if r.policy.Main != nil {
		p = *r.policy.Main
	} else {
		p.Env = ownEnvironment(environ, &p.Identity)
	}
	switch configured := p.Argv; {
	case len(args) == 0:
	case len(configured) == 0 || executable(args[0], pure.Lookup(p.Env, "PATH")):
		p.Argv = args
	default:
		p.Argv = append(append([]string(nil), configured...), args...)
	}
	if len(p.Argv) == 0 {
		return nil
	}
	if p.StopSignal == 0 {
		p.StopSignal = sys.SIGTERM
	}
	return &p
}

// executable tells whether a name is, in PATH, a file that somebody may execute.
func executable(name, path string) bool {
	for _, candidate := range pure.Candidates(name, path) {
		var st unix.Stat_t
		if unix.Stat(candidate, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 != 0 {
			return true
		}
	}
	return false
}

// ownEnvironment is what main gets where the configuration says nothing of it:
// the container's, less what is meant for rlminit.
func ownEnvironment(environ []string, who *wire.Identity) []string {
	var env []string
	for _, entry := range environ {
		name, _ := variable(entry)
		switch {
		case name == "NOTIFY_SOCKET", name == "HOME", name == "USER", name == "LOGNAME",
			hasPrefix(name, "LISTEN_"), hasPrefix(name, "WATCHDOG_"), hasPrefix(name, "RLMINIT_"):
		default:
			env = append(env, entry)
		}
	}
	return append(env, "HOME="+who.Home, "USER="+who.Name, "LOGNAME="+who.Name)
}

func hasPrefix(s, prefix string) bool { return len(s) >= len(prefix) && s[:len(prefix)] == prefix }

// startMain spawns the main command, if there is one.
func (r *reaper) startMain(args, environ []string) {
	p := r.mainProgram(args, environ)
	if p == nil {
		return
	}
	m := &r.main
	m.wanted, m.spawning, m.pidfd, m.argv = true, true, -1, p.Argv
	r.stop.mainSignal = p.StopSignal
	m.terminal.Find()
	c := &sys.Command{Session: sys.ForegroundGroup, OOMScore: r.oomScore(oomChild)}
	if no := r.program(c, p, p.Argv, p.Env, 0); no != nil {
		say("cannot run \"", p.Argv[0], "\": ", no.reason)
		r.mainFailed(exitFailed)
		return
	}
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
	if !r.watch(&m.pidfd, keyMain) {
		r.sweep = true
	}
	for _, signal := range m.waiting {
		r.kill(m.pid, signal, m.user)
	}
	m.waiting = nil
}

// mainFailed answers that there will be no main command: that ends the container.
func (r *reaper) mainFailed(code int) {
	r.main.spawning, r.main.ended, r.main.code = false, true, code
	r.beginStop()
}

// mainEnded collects the main command if it has ended, and ends the container
// with it. It also wakes it where the terminal has stopped it.
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
	r.beginStop()
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
	}
}
