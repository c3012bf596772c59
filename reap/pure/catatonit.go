package pure

import "rlminit/reap/sys"

const catatonitUsage = "usage: catatonit [-ghLPV] [--] <progname> [<arguments>...]\n"

var catatonitInit = personality{
	flags: []flag{
		{letter: 'g', on: func(o *options) { o.group = true }},
		{letter: 'h', to: 2, text: catatonitUsage + catatonitOptions},
		{letter: 'L', to: 1, text: "rlminit, in place of catatonit" + license},
		{letter: 'P', on: func(o *options) { o.catatonit.pause = true }},
		// The version whose behaviour this is; Docker looks for the word tini in it.
		{letter: 'V', name: "version", to: 1, text: "tini version 0.1.7_catatonit\n"},
	},
	long:           true,
	permute:        true,
	fault:          catatonitUsage,
	missing:        "missing program name",
	none:           catatonitUsage,
	prefix:         func(level int, pid string) string { return catatonitLevels[level] + " (catatonit:" + pid + "): " },
	errorsOnly:     true,
	closeInherited: true,
	noSubreaper:    "failed to set child-reaper as non-pid1",
	noChildren:     "got ECHILD: no children left to monitor",
	place: func(_ *mainCommand, signals *sys.Signals) {
		signals.CatchStops()
		signals.LeaveFaults()
	},
	prepare: (*mainCommand).handOver,
	started: (*mainCommand).handedOver,
	notRun: func(m *mainCommand, c *sys.Command) int {
		m.logAs(c.PID, levelFatal, "failed to exec pid1: ", strerror(c.Errno))
		return exitFailed
	},
	forward: (*mainCommand).forwardCatatonit,
	reaped:  (*mainCommand).reapedCatatonit,
}

var catatonitLevels = [...]string{"ERROR", "WARN", "INFO", "DEBUG"}

// catatonit is what that has beside the options of every init.
type catatonit struct {
	pause    bool // run nothing, and wait for INT or TERM
	terminal int32
	noTTY    sys.Errno // why /dev/tty was not opened
}

// runCatatonit is catatonit: its command line, its variables, its messages, its
// exit codes.
func runCatatonit(args, env []string) int {
	o := options{as: &catatonitInit, environment: env, verbosity: levelFatal, subreaper: sys.Getpid() != 1}
	if _, set := find(env, "CATATONIT_DEBUG"); set {
		o.verbosity = levelDebug
	}
	if _, set := find(env, "CATATONIT_LOG"); set {
		o.log(levelFatal, "CATATONIT_LOG is reserved for future use")
		return exitFailed
	}
	if code, done := o.read(args, args[0]); done {
		return code
	}
	return o.run()
}

// handOver makes c start the command as catatonit does: in the foreground of
// the session's terminal, whatever stdin is, and with the signals of job control
// blocked.
func (m *mainCommand) handOver(c *sys.Command) {
	k := &m.catatonit
	k.terminal, k.noTTY = sys.OpenTerminal()
	c.Terminal = max(k.terminal, 0)
	for _, s := range jobSignals {
		c.Mask |= 1 << (s - 1)
	}
	// A socket's activation names the process that it is meant for.
	value, _ := find(m.environment, "LISTEN_PID")
	if pid, _, _ := number(value); pid == int(sys.Getpid()) {
		c.ListenPID = []byte{}
		env := make([]string, 0, len(m.environment))
		for _, entry := range m.environment {
			if len(entry) < 11 || entry[:11] != "LISTEN_PID=" {
				env = append(env, entry)
			}
		}
		m.environment = env
	}
}

// handedOver tells of the command's start, in the words of the child.
func (m *mainCommand) handedOver(c *sys.Command) {
	k := &m.catatonit
	m.log(levelDebug, "pid1 (", sys.Decimal(c.PID), ") spawned: ", m.command[0])
	if k.noTTY != 0 {
		m.logAs(c.PID, levelInfo, "using stdin as tty fd: could not open /dev/tty: ", strerror(k.noTTY))
	}
	switch c.TerminalErrno {
	case 0:
	case sys.ENXIO:
		m.logAs(c.PID, levelDebug, "setting foreground process failed: no such device")
	default:
		m.logAs(c.PID, levelDebug, "setting foreground process failed: no tty present: ", strerror(c.TerminalErrno))
	}
	if k.terminal >= 0 {
		sys.Close(k.terminal)
	}
}

// forwardCatatonit hands a signal on.
func (m *mainCommand) forwardCatatonit(signal int32) {
	switch {
	case jobControl(signal):
		m.log(levelDebug, "ignoring kernel attempting to stop us: tty has TOSTOP set")
		return
	case m.catatonit.pause:
		m.ended = m.ended || signal == sys.SIGTERM || signal == sys.SIGINT
		return
	}
	target, sign := m.pid, ""
	if m.group {
		target, sign = -m.pid, "-"
	}
	if errno := sys.Kill(target, signal); errno != 0 {
		m.log(levelWarn, "forwarding of signal ", sys.Decimal(signal), " to pid1 (", sign,
			sys.Decimal(m.pid), ") failed: ", strerror(errno))
	}
}

// reapedCatatonit tells of a child's end.
func (m *mainCommand) reapedCatatonit(w sys.Wait, _ bool) bool {
	switch s := w.Signal(); {
	case w.PID == m.pid:
		m.ended, m.code = true, w.Code()
	case s != 0:
		m.log(levelDebug, "child process ", sys.Decimal(w.PID), " exited due to signal ", sys.Decimal(s))
	default:
		m.log(levelDebug, "child process ", sys.Decimal(w.PID), " exited with code ", sys.Decimal(w.Code()))
	}
	return false
}

// catatonitOptions are in words of ours: nothing compares catatonit's, and those
// send whoever has found a fault to its own authors.
const catatonitOptions = `
options:
  -g              Send signals to the program's process group.
  -h              Show this help and exit.
  -L              Show the license and exit.
  -P              Run no program, and exit at INT or TERM.
  -V, --version   Show the version and exit.
`
