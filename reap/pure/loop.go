package pure

import "rlminit/reap/sys"

// options is one run of the init.
type options struct {
	command     []string
	environment []string
}

// Keys of the descriptors that the loop waits for.
const (
	keyChildren = iota
	keySignals
)

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
	var terminal Terminal
	terminal.Find()
	c := sys.Command{
		Session:     sys.ForegroundGroup,
		KeepSignals: true,
		Ignored:     sys.Ignored,
		Mask:        sys.Mask,
		Rlimits:     []sys.Rlimit{sys.NoFile},
	}
	c.Program(Candidates(o.command[0], Lookup(o.environment, "PATH")), o.command, o.environment)
	c.Start()
	if c.Errno != 0 {
		return o.notStarted(&c)
	}
	if c.PIDFD >= 0 {
		sys.Close(c.PIDFD)
	}
	main := mainCommand{pid: c.PID, terminal: &terminal}
	timeout := -1
	for !main.ended {
		for _, event := range events.Wait(timeout) {
			if event.Key() == keySignals {
				for _, record := range signals.Next() {
					main.forward(record)
				}
			}
		}
		timeout = -1
		if !main.reap() {
			timeout = 0
		}
	}
	terminal.Restore()
	return main.code
}

// mainCommand is the command and what became of it.
type mainCommand struct {
	pid      int32
	terminal *Terminal
	ended    bool
	code     int
}

// batch is how many children are reaped before signals are looked at again: a
// flood of orphans must not keep TERM waiting.
const batch = 256

// reap collects what has ended, and tells whether that was all.
func (m *mainCommand) reap() bool {
	for range batch {
		w, errno := sys.Reap()
		if errno != 0 || w.PID == 0 {
			return true
		}
		if w.PID != m.pid {
			continue
		}
		if s := w.Stopped(); s != 0 {
			m.terminal.Stopped(m.pid, s)
			continue
		}
		m.code, m.ended = w.Code(), true
	}
	return false
}

// forward hands a signal on.
func (m *mainCommand) forward(record sys.Record) {
	switch {
	case record.Signal == sys.SIGPIPE && record.Sender == sys.Getpid():
		return // our own line on stderr found no reader
	case record.Signal == sys.SIGCONT && m.terminal.Continued(m.pid):
		return
	}
	sys.Kill(m.pid, record.Signal)
}

// notStarted tells why the command does not run, and returns the code for that.
func (o *options) notStarted(c *sys.Command) int {
	if c.Step != sys.StepExec {
		return o.failed("cannot start "+o.command[0], c.Errno)
	}
	code := o.failed("cannot run \""+o.command[0]+"\"", c.Errno)
	switch c.Errno {
	case sys.ENOENT, sys.ENOTDIR:
		return exitNotFound
	case sys.EACCES, sys.ENOEXEC:
		return exitNotExecutable
	}
	return code
}

// failed says what is wrong and returns the exit code for it.
func (o *options) failed(what string, errno sys.Errno) int {
	say(what + ": " + errno.String())
	return exitFailed
}
