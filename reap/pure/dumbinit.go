package pure

import "rlminit/reap/sys"

// dumbVersion is the version whose behaviour this is.
const dumbVersion = "dumb-init v1.2.5"

var dumb = personality{
	flags: []flag{
		{letter: 'h', name: "help", to: 2, text: dumbUsage},
		{letter: 'c', name: "single-child", on: func(o *options) { o.dumb.single = true }},
		{letter: 'r', name: "rewrite", set: (*options).addRewrite},
		{letter: 'v', name: "verbose", on: func(o *options) { o.verbosity = levelDebug }},
		{letter: 'V', name: "version", to: 2, text: dumbVersion + "\n"},
	},
	long:       true,
	none:       "Usage: % [option] program [args]\nTry % --help for full usage.\n",
	prefix:     func(int, string) string { return "[dumb-init] " },
	errorsOnly: true,
	place:      (*mainCommand).letGoOfTerminal,
	prepare: func(m *mainCommand, c *sys.Command) {
		c.Ignored, c.Mask = 0, 0
		c.Session = sys.SameGroup
		if m.group {
			c.Session = sys.TerminalSession
		}
	},
	started: (*mainCommand).startedDumb,
	notRun: func(m *mainCommand, c *sys.Command) int {
		m.log(levelFatal, m.command[0], ": ", strerror(c.Errno))
		return exitNotRun
	},
	forward: (*mainCommand).forwardDumb,
	reaped:  (*mainCommand).reapedDumb,
}

// dumbSignals are those that dumb-init rewrites: 1 to 31.
const dumbSignals = 31

// exitNotRun is dumb-init's exit code for a command that cannot be executed.
const exitNotRun = 2

// dumbInit is what dumb-init has beside the options of every init.
type dumbInit struct {
	single  bool // no session for the command, and signals to it alone
	rewrite [65]int32
	handOff [65]bool // signals that the kernel sends for a terminal we let go
}

// jobSignals are those of job control. jobControl tells whether a signal is one.
var jobSignals = [...]int32{sys.SIGTSTP, sys.SIGTTIN, sys.SIGTTOU}

func jobControl(signal int32) bool {
	return signal == sys.SIGTSTP || signal == sys.SIGTTIN || signal == sys.SIGTTOU
}

// asItIs is a signal that is not rewritten.
const asItIs = -1

// runDumbInit is dumb-init: its command line, its variables, its messages, its
// exit codes.
func runDumbInit(args, env []string) int {
	o := options{as: &dumb, environment: env, verbosity: levelWarn}
	d := &o.dumb
	for i := range d.rewrite {
		d.rewrite[i] = asItIs
	}
	if code, done := o.read(args, args[0]); done {
		return code
	}
	if Lookup(env, "DUMB_INIT_DEBUG") == "1" {
		o.verbosity = levelDebug
		o.log(levelDebug, "Running in debug mode.")
	}
	if Lookup(env, "DUMB_INIT_SETSID") == "0" {
		d.single = true
		o.log(levelDebug, "Not running in setsid mode.")
	}
	o.group = !d.single
	if o.group {
		// The kernel does not stop an orphaned process group for these, and in
		// a session of its own the command's is one: STOP it is then.
		for _, s := range jobSignals {
			if d.rewrite[s] == asItIs {
				d.rewrite[s] = sys.SIGSTOP
			}
		}
	}
	return o.run()
}

// addRewrite reads FROM:TO as scanf(3) with "%d:%d" does: blanks before a number
// and anything behind the second are passed over.
func (o *options) addRewrite(value string) bool {
	from, rest, ok := number(value)
	if ok = ok && rest != "" && rest[0] == ':' && from >= 1 && from <= dumbSignals; ok {
		var to int
		to, _, ok = number(rest[1:])
		ok = ok && to >= 0 && to <= dumbSignals
		o.dumb.rewrite[from] = int32(to)
	}
	if !ok {
		sys.Write(2, []byte(dumbRewrite))
	}
	return ok
}

// letGoOfTerminal makes the terminal free for the command's session.
func (m *mainCommand) letGoOfTerminal(signals *sys.Signals) {
	signals.CatchStops()
	if !m.group {
		return
	}
	leader := sys.Getsid(0) == sys.Getpid()
	switch errno := sys.LeaveTerminal(0); {
	case errno != 0:
		m.log(levelDebug, "Unable to detach from controlling tty ", errorNumber(errno), ".")
	case leader:
		// The kernel sends these to the foreground group of a terminal whose
		// session's leader goes, tty_ioctl(4). They are not for the command.
		m.dumb.handOff[sys.SIGHUP], m.dumb.handOff[sys.SIGCONT] = true, true
		m.log(levelDebug, "Detached from controlling tty, ignoring the first SIGHUP and SIGCONT we receive.")
	default:
		m.log(levelDebug, "Detached from controlling tty, but was not session leader.")
	}
}

// startedDumb tells of the command's start, and leaves the working directory, so
// that we keep no file system busy.
func (m *mainCommand) startedDumb(c *sys.Command) {
	m.log(levelDebug, "Child spawned with PID ", sys.Decimal(m.pid), ".")
	if m.group {
		if c.TerminalErrno != 0 {
			m.log(levelDebug, "Unable to attach to controlling tty ", errorNumber(c.TerminalErrno), ".")
		}
		m.log(levelDebug, "setsid complete.")
	}
	if errno := sys.Chdir("/"); errno != 0 {
		m.log(levelDebug, "Unable to chdir(\"/\") ", errorNumber(errno))
	}
}

// forwardDumb hands a signal on, and stops us for those of job control, so that
// the shell that started us sees what it has stopped.
func (m *mainCommand) forwardDumb(signal int32) {
	m.log(levelDebug, "Received signal ", sys.Decimal(signal), ".")
	if m.dumb.handOff[signal] {
		m.log(levelDebug, "Ignoring tty hand-off signal ", sys.Decimal(signal), ".")
		m.dumb.handOff[signal] = false
		return
	}
	m.passDumb(signal)
	if jobControl(signal) {
		m.log(levelDebug, "Suspending self due to TTY signal.")
		sys.Kill(sys.Getpid(), sys.SIGSTOP)
	}
}

// passDumb sends a signal, or what it is rewritten to.
func (m *mainCommand) passDumb(signal int32) {
	to := signal
	if m.dumb.rewrite[signal] != asItIs {
		to = m.dumb.rewrite[signal]
		m.log(levelDebug, "Translating signal ", sys.Decimal(signal), " to ", sys.Decimal(to), ".")
	}
	switch {
	case to == 0:
		m.log(levelDebug, "Not forwarding signal ", sys.Decimal(to), " to children (ignored).")
		return
	case m.group:
		sys.Kill(-m.pid, to)
	case !m.ended:
		sys.Kill(m.pid, to)
	}
	m.log(levelDebug, "Forwarded signal ", sys.Decimal(to), " to children.")
}

// reapedDumb tells of a child's end. When it was the command, what is left of
// its group is asked to end too.
func (m *mainCommand) reapedDumb(w sys.Wait, first bool) bool {
	if first {
		m.log(levelDebug, "Received signal ", sys.Decimal(sys.SIGCHLD), ".")
	}
	how := " exited with exit status " + sys.Decimal(w.Code())
	if s := w.Signal(); s != 0 {
		how = " was terminated by signal " + sys.Decimal(s)
	}
	m.log(levelDebug, "A child with PID ", sys.Decimal(w.PID), how, ".")
	if w.PID == m.pid {
		m.ended, m.code = true, w.Code()
		m.passDumb(sys.SIGTERM)
		m.log(levelDebug, "Child exited with status ", sys.Decimal(m.code), ". Goodbye.")
	}
	return m.ended
}

// errorNumber is how dumb-init writes an error.
func errorNumber(errno sys.Errno) string {
	return "(errno=" + sys.Decimal(errno) + " " + strerror(errno) + ")"
}

const dumbRewrite = `Usage: -r option takes <signum>:<signum>, where <signum> is between 1 and 31.
This option can be specified multiple times.
Use --help for full usage.
`

// dumbUsage is dumb-init's own to the byte, for its suite compares it.
const dumbUsage = dumbVersion + `
Usage: % [option] command [[arg] ...]

dumb-init is a simple process supervisor that forwards signals to children.
It is designed to run as PID1 in minimal container environments.

Optional arguments:
   -c, --single-child   Run in single-child mode.
                        In this mode, signals are only proxied to the
                        direct child and not any of its descendants.
   -r, --rewrite s:r    Rewrite received signal s to new signal r before proxying.
                        To ignore (not proxy) a signal, rewrite it to 0.
                        This option can be specified multiple times.
   -v, --verbose        Print debugging information to stderr.
   -h, --help           Print this help message and exit.
   -V, --version        Print the current version and exit.

Full help is available online at https://github.com/Yelp/dumb-init
`
