package pure

import "rlminit/reap/sys"

// dumbVersion is the version whose behaviour this is.
const dumbVersion = "dumb-init v1.2.5 (rlminit)"

// dumbSignals are those that dumb-init rewrites: 1 to 31.
const dumbSignals = 31

// exitNotRun is dumb-init's exit code for a command that cannot be executed.
const exitNotRun = 2

// dumbInit is what dumb-init has beside the options of every init.
type dumbInit struct {
	single  bool // no session for the command, and signals to it alone
	rewrite [dumbSignals + 1]int32
	handOff [dumbSignals + 1]bool // signals that the kernel sends for a terminal we let go
}

// asItIs is a signal that is not rewritten.
const asItIs = -1

// runDumbInit is dumb-init: its command line, its variables, its messages, its
// exit codes.
func runDumbInit(args, env []string) int {
	d := &dumbInit{}
	for i := range d.rewrite {
		d.rewrite[i] = asItIs
	}
	o := options{environment: env, dumb: d, verbosity: levelWarn}
	if code, done := o.parseDumb(args); done {
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
		for _, s := range [...]int32{sys.SIGTSTP, sys.SIGTTIN, sys.SIGTTOU} {
			if d.rewrite[s] == asItIs {
				d.rewrite[s] = sys.SIGSTOP
			}
		}
	}
	return o.run()
}

// parseDumb reads the command line. done tells that it was no command to run,
// or a wrong one, and code is what to exit with.
func (o *options) parseDumb(args []string) (code int, done bool) {
	set := optionSet{letters: "hvVcr:", long: []longOption{
		{"help", 'h'}, {"single-child", 'c'}, {"rewrite", 'r'}, {"verbose", 'v'}, {"version", 'V'},
	}}
	words, fault := set.parse(args[1:], func(letter byte, value string) bool {
		switch letter {
		case 'c':
			o.dumb.single = true
		case 'v':
			o.verbosity = levelDebug
		case 'r':
			if !o.dumb.addRewrite(value) {
				sys.Write(2, []byte(dumbRewrite))
				code, done = exitFailed, true
			}
		case 'h':
			sys.Write(2, []byte(dumbUsage(args[0])))
			done = true
		case 'V':
			sys.Write(2, []byte(dumbVersion+"\n"))
			done = true
		}
		return !done
	})
	switch {
	case done:
		return code, true
	case fault != "":
		sys.Write(2, []byte(args[0]+": "+fault+"\n"))
		return exitFailed, true
	case len(words) == 0:
		sys.Write(2, []byte("Usage: "+args[0]+" [option] program [args]\nTry "+args[0]+" --help for full usage.\n"))
		return exitFailed, true
	}
	o.command = words
	return 0, false
}

// addRewrite reads FROM:TO as scanf(3) with "%d:%d" does: blanks before a number
// and anything behind the second are passed over.
func (d *dumbInit) addRewrite(value string) bool {
	from, rest, ok := number(value)
	if !ok || rest == "" || rest[0] != ':' {
		return false
	}
	to, _, ok := number(rest[1:])
	if !ok || from < 1 || from > dumbSignals || to < 0 || to > dumbSignals {
		return false
	}
	d.rewrite[from] = int32(to)
	return true
}

// number reads an integer at the beginning of s.
func number(s string) (n int, rest string, ok bool) {
	for len(s) > 0 && (s[0] == ' ' || s[0] >= '\t' && s[0] <= '\r') {
		s = s[1:]
	}
	i := 0
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		i++
	}
	first := i
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return leadingNumber(s[:i]), s[i:], i > first
}

// letGoOfTerminal makes the terminal free for the command's session.
func (o *options) letGoOfTerminal() {
	leader := sys.Getsid(0) == sys.Getpid()
	switch errno := sys.LeaveTerminal(0); {
	case errno != 0:
		o.log(levelDebug, "Unable to detach from controlling tty ", errorNumber(errno), ".")
	case leader:
		// The kernel sends these to the foreground group of a terminal whose
		// session's leader goes, tty_ioctl(4). They are not for the command.
		o.dumb.handOff[sys.SIGHUP], o.dumb.handOff[sys.SIGCONT] = true, true
		o.log(levelDebug, "Detached from controlling tty, ignoring the first SIGHUP and SIGCONT we receive.")
	default:
		o.log(levelDebug, "Detached from controlling tty, but was not session leader.")
	}
}

// startedDumb tells of the command's start, and leaves the working directory, so
// that we keep no file system busy.
func (m *mainCommand) startedDumb(c *sys.Command) {
	m.log(levelDebug, "Child spawned with PID ", sys.Decimal(uint64(m.pid)), ".")
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
	m.log(levelDebug, "Received signal ", sys.Decimal(uint64(signal)), ".")
	if int(signal) < len(m.dumb.handOff) && m.dumb.handOff[signal] {
		m.log(levelDebug, "Ignoring tty hand-off signal ", sys.Decimal(uint64(signal)), ".")
		m.dumb.handOff[signal] = false
		return
	}
	m.passDumb(signal)
	switch signal {
	case sys.SIGTSTP, sys.SIGTTIN, sys.SIGTTOU:
		m.log(levelDebug, "Suspending self due to TTY signal.")
		sys.Kill(sys.Getpid(), sys.SIGSTOP)
	}
}

// passDumb sends a signal, or what it is rewritten to.
func (m *mainCommand) passDumb(signal int32) {
	to := signal
	if int(signal) < len(m.dumb.rewrite) && m.dumb.rewrite[signal] != asItIs {
		to = m.dumb.rewrite[signal]
		m.log(levelDebug, "Translating signal ", sys.Decimal(uint64(signal)), " to ", sys.Decimal(uint64(to)), ".")
	}
	switch {
	case to == 0:
		m.log(levelDebug, "Not forwarding signal ", sys.Decimal(uint64(to)), " to children (ignored).")
		return
	case m.group:
		sys.Kill(-m.pid, to)
	case !m.ended:
		sys.Kill(m.pid, to)
	}
	m.log(levelDebug, "Forwarded signal ", sys.Decimal(uint64(to)), " to children.")
}

// reapedDumb tells of a child's end. When it was the command, what is left of
// its group is asked to end too.
func (m *mainCommand) reapedDumb(w sys.Wait) {
	how := " exited with exit status " + sys.Decimal(uint64(w.Code()))
	if s := w.Signal(); s != 0 {
		how = " was terminated by signal " + sys.Decimal(uint64(s))
	}
	m.log(levelDebug, "A child with PID ", sys.Decimal(uint64(w.PID)), how, ".")
	if w.PID == m.pid {
		m.ended, m.code = true, w.Code()
		m.passDumb(sys.SIGTERM)
		m.log(levelDebug, "Child exited with status ", sys.Decimal(uint64(m.code)), ". Goodbye.")
	}
}

// errorNumber is how dumb-init writes an error.
func errorNumber(errno sys.Errno) string {
	return "(errno=" + sys.Decimal(uint64(errno)) + " " + capital(errno.String()) + ")"
}

const dumbRewrite = `Usage: -r option takes <signum>:<signum>, where <signum> is between 1 and 31.
This option can be specified multiple times.
Use --help for full usage.
`

func dumbUsage(name string) string {
	return dumbVersion + `
Usage: ` + name + ` [option] command [[arg] ...]

Runs the command as the child of an init that forwards signals and reaps zombies.

   -c, --single-child   Send signals to the command alone, and not to all of
                        the processes in a session of its own.
   -r, --rewrite s:r    Send signal r where s was received; 0 sends none.
                        Can be repeated.
   -v, --verbose        Say on stderr what is done.
   -h, --help           Show this help and exit.
   -V, --version        Show the version and exit.

DUMB_INIT_DEBUG=1 is --verbose, and DUMB_INIT_SETSID=0 is --single-child.
`
}
