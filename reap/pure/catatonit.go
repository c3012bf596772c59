package pure

import "rlminit/reap/sys"

// catatonitVersion is the version whose behaviour this is; Docker looks for the
// word tini in it.
const catatonitVersion = "tini version 0.1.7_catatonit (rlminit)"

const catatonitUsage = "usage: catatonit [-ghLPV] [--] <progname> [<arguments>...]\n"

// catatonit is what that has beside the options of every init.
type catatonit struct {
	pause    bool // run nothing, and wait for INT or TERM
	terminal int32
	noTTY    sys.Errno // why /dev/tty was not opened
}

// runCatatonit is catatonit: its command line, its variables, its messages, its
// exit codes.
func runCatatonit(args, env []string) int {
	o := options{environment: env, catatonit: &catatonit{}, verbosity: levelFatal, subreaper: sys.Getpid() != 1}
	if _, set := find(env, "CATATONIT_DEBUG"); set {
		o.verbosity = levelDebug
	}
	if _, set := find(env, "CATATONIT_LOG"); set {
		o.log(levelFatal, "CATATONIT_LOG is reserved for future use")
		return exitFailed
	}
	if code, done := o.parseCatatonit(args); done {
		return code
	}
	return o.run()
}

// parseCatatonit reads the command line. done tells that it was no command to
// run, or a wrong one, and code is what to exit with.
func (o *options) parseCatatonit(args []string) (code int, done bool) {
	_, strict := find(o.environment, "POSIXLY_CORRECT")
	set := optionSet{letters: "ghLPV", long: []longOption{{"version", 'V'}}, permute: !strict}
	words, fault := set.parse(args[1:], func(letter byte, _ string) bool {
		switch letter {
		case 'g':
			o.group = true
		case 'P':
			o.catatonit.pause = true
		case 'h':
			sys.Write(2, []byte(catatonitUsage+catatonitOptions))
			done = true
		case 'L':
			sys.Write(1, []byte("rlminit, in place of catatonit"+license))
			done = true
		case 'V':
			sys.Write(1, []byte(catatonitVersion+"\n"))
			done = true
		}
		return !done
	})
	switch {
	case done:
		return 0, true
	case fault != "":
		sys.Write(2, []byte(args[0]+": "+fault+"\n"+catatonitUsage))
		return exitFailed, true
	case len(words) == 0 && !o.catatonit.pause:
		o.log(levelFatal, "missing program name")
		sys.Write(2, []byte(catatonitUsage))
		return exitFailed, true
	}
	o.command = words
	return 0, false
}

// handOver makes c start the command as catatonit does: in the foreground of
// the session's terminal, whatever stdin is, and with the signals of job control
// blocked.
func (m *mainCommand) handOver(c *sys.Command) {
	k := m.catatonit
	k.terminal, k.noTTY = sys.OpenTerminal()
	c.Terminal = max(k.terminal, 0)
	for _, s := range [...]int32{sys.SIGTSTP, sys.SIGTTIN, sys.SIGTTOU} {
		c.Mask |= 1 << (s - 1)
	}
	// A socket's activation names the process that it is meant for.
	if value, set := find(m.environment, "LISTEN_PID"); set && leadingNumber(value) == int(sys.Getpid()) {
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
	k := m.catatonit
	m.log(levelDebug, "pid1 (", sys.Decimal(uint64(c.PID)), ") spawned: ", m.command[0])
	if k.noTTY != 0 {
		m.logAs(c.PID, levelInfo, "using stdin as tty fd: could not open /dev/tty: ", capital(k.noTTY.String()))
	}
	switch c.TerminalErrno {
	case 0:
	case sys.ENXIO:
		m.logAs(c.PID, levelDebug, "setting foreground process failed: no such device")
	default:
		m.logAs(c.PID, levelDebug, "setting foreground process failed: no tty present: ", capital(c.TerminalErrno.String()))
	}
	if k.terminal >= 0 {
		sys.Close(k.terminal)
	}
}

// forwardCatatonit hands a signal on.
func (m *mainCommand) forwardCatatonit(signal int32) {
	switch {
	case signal == sys.SIGTSTP || signal == sys.SIGTTIN || signal == sys.SIGTTOU:
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
		m.log(levelWarn, "forwarding of signal ", sys.Decimal(uint64(signal)), " to pid1 (", sign,
			sys.Decimal(uint64(m.pid)), ") failed: ", capital(errno.String()))
	}
}

// reapedCatatonit tells of a child's end.
func (m *mainCommand) reapedCatatonit(w sys.Wait) {
	switch s := w.Signal(); {
	case w.PID == m.pid:
		m.ended, m.code = true, w.Code()
	case s != 0:
		m.log(levelDebug, "child process ", sys.Decimal(uint64(w.PID)), " exited due to signal ", sys.Decimal(uint64(s)))
	default:
		m.log(levelDebug, "child process ", sys.Decimal(uint64(w.PID)), " exited with code ", sys.Decimal(uint64(w.Code())))
	}
}

const catatonitOptions = `
Runs the program as the child of an init that forwards signals and reaps zombies.

  -g              Send signals to the program's process group.
  -P              Run no program, and exit at INT or TERM.
  -h              Show this help and exit.
  -L              Show the license and exit.
  -V, --version   Show the version and exit.

CATATONIT_DEBUG, with any value, says on stderr what is done.
`
