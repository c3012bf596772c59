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
	signals, errno := sys.CatchAll()
	if errno != 0 {
		return o.failed("cannot catch signals", errno)
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
	m.place(signals)
	if code := m.start(); code != 0 {
		return code
	}
	if o.catatonit != nil {
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
				m.forward(record)
			}
		}
		more = !m.reap()
	}
	m.log(levelTrace, "Exiting: child has exited")
	m.terminal.Restore()
	return m.code
}

// place finds the terminal and sets the signals as the command line's owner does.
func (m *mainCommand) place(signals *sys.Signals) {
	switch {
	case m.dumb != nil:
		signals.CatchStops()
		if m.group {
			m.letGoOfTerminal()
		}
	case m.catatonit != nil:
		signals.CatchStops()
		signals.LeaveFaults()
	default:
		m.terminal.Find()
	}
}

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
		case o.tini:
			return o.failed("Failed to register as child subreaper", errno)
		case o.catatonit != nil:
			return o.failed("failed to set child-reaper as non-pid1", errno)
		}
	}
	if o.dumb == nil && sys.Getpid() != 1 && !sys.IsSubreaper() {
		line := "not PID 1, and the kernel makes it no child subreaper: orphans go to another process"
		if o.tini {
			line = "Not PID 1, and no child subreaper: orphans go to another process, so zombie reaping won't work.\n" +
				"Use -s, or set TINI_SUBREAPER, or make this PID 1."
		}
		o.log(levelWarn, line)
	}
	return 0
}

// start runs the command: in the foreground of the terminal, and otherwise just
// as we were started.
func (m *mainCommand) start() int {
	if m.catatonit != nil && m.catatonit.pause {
		sys.Chdir("/")
		return 0
	}
	c := sys.Command{
		Session:     sys.ForegroundGroup,
		KeepSignals: true,
		Ignored:     sys.Ignored,
		Mask:        sys.Mask,
		Rlimits:     []sys.Rlimit{sys.NoFile},
	}
	switch {
	case m.dumb != nil:
		c.Ignored, c.Mask = 0, 0
		c.Session = sys.SameGroup
		if m.group {
			c.Session = sys.TerminalSession
		}
	case m.catatonit != nil:
		m.handOver(&c)
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
	switch {
	case m.dumb != nil:
		m.startedDumb(&c)
	case m.catatonit != nil:
		m.handedOver(&c)
	case m.wants(levelInfo):
		m.log(levelInfo, "Spawned child process '", m.command[0], "' with pid '", sys.Decimal(uint64(m.pid)), "'")
	}
	return 0
}

// batch is how many children are reaped before signals are looked at again: a
// flood of orphans must not keep TERM waiting.
const batch = 256

// reap collects what has ended, and tells whether that was all.
func (m *mainCommand) reap() bool {
	for n := range batch {
		w, errno := sys.Reap()
		if errno != 0 && m.catatonit != nil {
			m.log(levelDebug, "got ECHILD: no children left to monitor")
		}
		if errno != 0 || w.PID == 0 {
			return true
		}
		if n == 0 && m.dumb != nil {
			m.log(levelDebug, "Received signal ", sys.Decimal(sys.SIGCHLD), ".")
		}
		if s := w.Stopped(); s != 0 {
			if w.PID == m.pid {
				m.terminal.Stopped(m.pid, s)
			}
			continue
		}
		switch {
		case m.dumb != nil:
			if m.reapedDumb(w); m.ended {
				return true
			}
			continue
		case m.catatonit != nil:
			m.reapedCatatonit(w)
			continue
		}
		if m.wants(levelDebug) {
			m.log(levelDebug, "Received SIGCHLD")
			m.log(levelDebug, "Reaped child with pid: '", sys.Decimal(uint64(w.PID)), "'")
		}
		switch {
		case w.PID == m.pid:
			m.end(w)
		case m.warn:
			m.log(levelWarn, "Reaped zombie process with pid=", sys.Decimal(uint64(w.PID)))
		}
	}
	return false
}

// end notes how the command ended.
func (m *mainCommand) end(w sys.Wait) {
	m.ended, m.code = true, w.Code()
	if s := w.Signal(); s != 0 {
		m.log(levelInfo, "Main child exited with signal (with signal '", Describe(s), "')")
	} else {
		m.log(levelInfo, "Main child exited normally (with status '", sys.Decimal(uint64(m.code)), "')")
	}
	if m.code < len(m.success) && m.success[m.code] {
		m.code = 0
	}
}

// forward hands a signal on.
func (m *mainCommand) forward(record sys.Record) {
	switch {
	case record.Signal == sys.SIGPIPE && record.Sender == sys.Getpid():
		return // our own line found no reader
	case m.dumb != nil:
		m.forwardDumb(record.Signal)
		return
	case m.catatonit != nil:
		m.forwardCatatonit(record.Signal)
		return
	case record.Signal == sys.SIGCONT && m.terminal.Continued(m.pid):
		return
	}
	if m.wants(levelDebug) {
		m.log(levelDebug, "Passing signal: '", Describe(record.Signal), "'")
	}
	target := m.pid
	if m.group {
		target = -m.pid
	}
	switch errno := sys.Kill(target, record.Signal); errno {
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
	switch {
	case m.dumb != nil && c.Step == sys.StepExec:
		m.log(levelFatal, m.command[0], ": ", capital(c.Errno.String()))
		return exitNotRun
	case m.catatonit != nil && c.Step == sys.StepExec:
		m.logAs(c.PID, levelFatal, "failed to exec pid1: ", capital(c.Errno.String()))
		return exitFailed
	case c.Step == sys.StepExec && m.tini:
		m.log(levelFatal, "exec ", m.command[0], " failed: ", capital(c.Errno.String()))
	case c.Step == sys.StepExec:
		m.log(levelFatal, "cannot run \"", m.command[0], "\": ", c.Errno.String())
	default:
		return m.failed("cannot start \""+m.command[0]+"\"", c.Errno)
	}
	switch c.Errno {
	case sys.ENOENT:
		return exitNotFound
	case sys.ENOTDIR:
		if !m.tini {
			return exitNotFound
		}
	case sys.EACCES:
		return exitNotExecutable
	case sys.ENOEXEC:
		if !m.tini {
			return exitNotExecutable
		}
	}
	return exitFailed
}

// failed says what is wrong and returns the exit code for it.
func (o *options) failed(what string, errno sys.Errno) int {
	o.log(levelFatal, what, ": ", errno.String())
	return exitFailed
}

// capital makes the first letter a capital, as strerror(3) has it.
func capital(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}

const (
	prSetPdeathsig      = 1
	prSetChildSubreaper = 36
)
