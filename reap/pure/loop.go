package pure

import "rlminit/reap/sys"

// Keys of the descriptors that the loop waits for.
const (
	keyChildren = iota
	keySignals
)

// soon is for how many milliseconds the next event is waited for in the way that
// is cheap if it comes.
const soon = 4

// mainCommand is the command and what became of it.
type mainCommand struct {
	*options
	pid      int32
	terminal Terminal
	ended    bool
	code     int
}

// run starts the command, and returns the exit code when it has ended.
func (o *options) run() int {
	if call, errno := sys.Refused(sys.Needed[:]); call != "" {
		return o.failed("this place refuses the system call "+call, errno)
	}
	signals, errno := sys.CatchAll()
	if errno != 0 {
		return o.failed("cannot catch signals by eventfd2 and pipe2", errno)
	}
	events, errno := sys.NewEvents()
	if errno == 0 {
		errno = events.Add(signals.Children, sys.Readable|sys.Edge, keyChildren)
	}
	if errno == 0 {
		errno = events.Add(signals.Others, sys.Readable, keySignals)
	}
	if errno != 0 {
		return o.failed("cannot wait for signals", errno)
	}
	if code := o.adopt(); code != 0 {
		return code
	}
	m := mainCommand{options: o}
	m.as.place(&m, signals)
	if code := m.start(); code != 0 {
		return code
	}
	if o.as.closeInherited {
		events.CloseInherited(signals)
	}
	more := false // children may be waiting to be reaped
	for !m.ended {
		wait := soon
		if more {
			wait = 0
		}
		ready := events.Soon(wait)
		if len(ready) == 0 && !more {
			ready = events.Wait(-1)
		}
		for i := range ready {
			if ready[i].Key() != keySignals {
				continue // children are looked at whatever it was that woke us
			}
			for _, record := range signals.Next() {
				// SIGPIPE of our own: our line found no reader.
				if record.Signal != sys.SIGPIPE || record.Sender != sys.Getpid() {
					m.as.forward(&m, record.Signal)
				}
			}
		}
		more = !m.reap()
	}
	m.log(levelTrace, "Exiting: child has exited")
	m.terminal.Restore()
	return m.code
}

// findTerminal looks for the terminal that the command is to have.
func (m *mainCommand) findTerminal(*sys.Signals) { m.terminal.Find() }

// adopt sets what makes the kernel give us orphans, and tell of our parent's end.
func (o *options) adopt() int {
	if o.parentDeath != 0 {
		if errno := sys.Prctl(prSetPdeathsig, uintptr(o.parentDeath)); errno != 0 {
			return o.failed("Failed to set up parent death signal", errno)
		}
	}
	if o.subreaper {
		switch errno := sys.Prctl(prSetChildSubreaper, 1); {
		case errno == 0:
			o.log(levelTrace, "Registered as child subreaper")
		case o.as.noSubreaper != "":
			return o.failed(o.as.noSubreaper, errno)
		}
	}
	if sys.Getpid() != 1 && !sys.IsSubreaper() {
		o.log(levelWarn, o.as.noOrphans)
	}
	return 0
}

// start runs the command: in the foreground of the terminal, and otherwise just
// as we were started.
func (m *mainCommand) start() int {
	if m.catatonit.pause {
		sys.Chdir("/")
		return 0
	}
	c := sys.Command{
		Session: sys.ForegroundGroup,
		Ignored: sys.Ignored,
		Mask:    sys.Mask,
		Rlimits: given(),
	}
	if m.as.prepare != nil {
		m.as.prepare(m, &c)
	}
	c.Program(Candidates(m.command[0], Lookup(m.environment, "PATH")), m.command, m.environment)
	c.ShellFallback()
	c.Start()
	if c.Errno != 0 {
		return m.notStarted(&c)
	}
	if c.PIDFD >= 0 {
		sys.Close(c.PIDFD)
	}
	m.pid = c.PID
	m.as.started(m, &c)
	return 0
}

// spawned tells of the command's start.
func (m *mainCommand) spawned(*sys.Command) {
	if m.wants(levelInfo) {
		m.log(levelInfo, "Spawned child process '", m.command[0], "' with pid '", sys.Decimal(m.pid), "'")
	}
}

// batch is how many children are reaped before signals are looked at again: a
// flood of orphans must not keep TERM waiting.
const batch = 256

// reap collects what has ended, and tells whether that was all.
func (m *mainCommand) reap() bool {
	for n := range batch {
		w, errno := sys.Reap()
		if errno != 0 {
			m.log(levelDebug, m.as.noChildren)
		}
		if errno != 0 || w.PID == 0 {
			return true
		}
		if s := w.Stopped(); s != 0 {
			if w.PID == m.pid {
				m.terminal.Stopped(m.pid, s)
			}
			continue
		}
		if m.as.reaped(m, w, n == 0) {
			return true
		}
	}
	return false
}

// collected tells of a child's end.
func (m *mainCommand) collected(w sys.Wait, _ bool) bool {
	if m.wants(levelDebug) {
		m.log(levelDebug, "Received SIGCHLD")
		m.log(levelDebug, "Reaped child with pid: '", sys.Decimal(w.PID), "'")
	}
	switch {
	case w.PID == m.pid:
		m.end(w)
	case m.warn:
		m.log(levelWarn, "Reaped zombie process with pid=", sys.Decimal(w.PID))
	}
	return false
}

// end notes how the command ended.
func (m *mainCommand) end(w sys.Wait) {
	m.ended, m.code = true, w.Code()
	if s := w.Signal(); s != 0 {
		m.log(levelInfo, "Main child exited with signal (with signal '", Describe(s), "')")
	} else {
		m.log(levelInfo, "Main child exited normally (with status '", sys.Decimal(m.code), "')")
	}
	if m.code < len(m.success) && m.success[m.code] {
		m.code = 0
	}
}

// pass hands a signal on.
func (m *mainCommand) pass(signal int32) {
	if signal == sys.SIGCONT && m.terminal.Continued(m.pid) {
		return
	}
	if m.wants(levelDebug) {
		m.log(levelDebug, "Passing signal: '", Describe(signal), "'")
	}
	target := m.pid
	if m.group {
		target = -m.pid
	}
	switch errno := sys.Kill(target, signal); errno {
	case 0:
	case sys.ESRCH:
		m.log(levelWarn, "Child was dead when forwarding signal")
	default:
		// A command that has changed its user, as sudo does, cannot be
		// signalled without CAP_KILL: no reason to leave it without an init.
		m.log(levelWarn, "Cannot forward signal: ", errno.String())
	}
}

// notStarted tells why the command does not run, and returns the code for that.
func (m *mainCommand) notStarted(c *sys.Command) int {
	if c.PID != 0 {
		sys.Collect(c.PID)
	}
	if c.Step == sys.StepExec {
		return m.as.notRun(m, c)
	}
	return m.failed("cannot start \""+m.command[0]+"\"", c.Errno)
}

// failed says what is wrong and returns the exit code for it.
func (o *options) failed(what string, errno sys.Errno) int {
	o.log(levelFatal, what, ": ", errno.String())
	return exitFailed
}

// strerror is strerror(3): our text with a capital.
func strerror(errno sys.Errno) string {
	s := errno.String()
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}

const (
	prSetPdeathsig      = 1
	prSetChildSubreaper = 36
)

// given are the limits that a child gets back. Where the place refuses to tell them it has
// refused to change them too.
func given() []sys.Rlimit {
	if sys.NoFile.Hard == 0 {
		return nil
	}
	return []sys.Rlimit{sys.NoFile}
}
