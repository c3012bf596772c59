package pure

import "rlminit/reap/sys"

// options is one run of the init.
type options struct {
	command     []string
	environment []string

	as          *personality
	dumb        dumbInit  // of dumb-init alone
	catatonit   catatonit // of catatonit alone
	group       bool      // forward signals to the command's process group
	subreaper   bool      // be given orphans without being PID 1
	warn        bool      // say which orphans were reaped
	verbosity   int       // a level
	parentDeath int32     // signal that we get when our parent ends; 0: none
	success     [256]bool // exit codes of the command that become 0
}

// own is `rlminit init` itself.
var own = personality{
	prefix:    func(int, string) string { return "rlminit: " },
	noOrphans: "not PID 1, and the kernel makes it no child subreaper: orphans go to another process",
	place:     (*mainCommand).findTerminal,
	started:   (*mainCommand).spawned,
	notRun:    (*mainCommand).ownNotRun,
	forward:   (*mainCommand).pass,
	reaped:    (*mainCommand).collected,
}

// ownNotRun tells why the program could not be executed.
func (m *mainCommand) ownNotRun(c *sys.Command) int {
	m.log(levelFatal, "cannot run \"", m.command[0], "\": ", c.Errno.String())
	switch c.Errno {
	case sys.ENOENT, sys.ENOTDIR:
		return exitNotFound
	case sys.EACCES, sys.ENOEXEC:
		return exitNotExecutable
	}
	return exitFailed
}

// Usage of the flags that `rlminit init` has without a configuration. It has
// them with one too, among others.
const usage = `usage: rlminit init [FLAG]… [--] CMD [ARG]…

  --signal-group        forward signals to the command's process group
  --success CODE        exit with 0 where the command exits with CODE; can be repeated
  --parent-death SIGNAL be sent SIGNAL when the parent process ends
  --warn-on-reap        say which orphans were reaped
  --verbose             say what is done; more often: more

RLMINIT_SIGNAL_GROUP, RLMINIT_SUCCESS and so on set the same. With a
configuration there are more flags: rlminit help init.
`

// settings are the flags, and the variables that set the same.
var settings = [...]struct{ flag, variable string }{
	{"--signal-group", "RLMINIT_SIGNAL_GROUP"},
	{"--success", "RLMINIT_SUCCESS"},
	{"--parent-death", "RLMINIT_PARENT_DEATH"},
	{"--warn-on-reap", "RLMINIT_WARN_ON_REAP"},
	{"--verbose", "RLMINIT_VERBOSE"},
}

// parse reads the arguments of `rlminit init`. It returns false where they are
// not for an init without a configuration, and exits where they are for none.
func (o *options) parse(args []string) bool {
	for _, s := range settings {
		if value := Lookup(o.environment, s.variable); value != "" {
			o.set(s.flag, s.variable, value)
		}
	}
	succeeds := false // by a flag, which counts for more than the variable
	for ; len(args) > 0; args = args[1:] {
		flag, value, given := cut(args[0])
		if flag == "--" {
			args = args[1:]
			break
		}
		if flag == "" || flag[0] != '-' {
			break
		}
		switch flag {
		case "--verbose":
			if !given {
				o.verbosity++
				continue
			}
		case "--signal-group", "--warn-on-reap":
			if !given {
				value = "on"
			}
		case "--success", "--parent-death":
			if given {
				break
			}
			if args = args[1:]; len(args) == 0 {
				o.refuse(flag + " needs a value")
			}
			value = args[0]
		default:
			return false // of an init with a configuration, or nobody's
		}
		if flag == "--success" && !succeeds {
			succeeds, o.success = true, [256]bool{}
		}
		o.set(flag, flag, value)
	}
	o.command = args
	return o.complete()
}

// set gives what a flag sets a value; called is what to call it if that is wrong.
func (o *options) set(flag, called, value string) {
	switch flag {
	case "--signal-group":
		o.group = o.boolean(called, value)
	case "--warn-on-reap":
		o.warn = o.boolean(called, value)
	case "--verbose":
		if len(value) != 1 || value[0] < '0' || value[0] > '3' {
			o.refuse(called + ": " + value + " is refused; write a whole number from 0 to 3")
		}
		o.verbosity = levelWarn + int(value[0]-'0')
	case "--success":
		for start, i := 0, 0; i <= len(value); i++ {
			if i < len(value) && value[i] != ',' {
				continue
			}
			if code := value[start:i]; code == "" || code[0] < '0' || !o.addSuccess(code) {
				o.refuse(called + ": " + code + " is no exit code; write 0 to 255")
			}
			start = i + 1
		}
	case "--parent-death":
		if o.parentDeath = signalNamed(value); o.parentDeath == 0 {
			o.refuse(called + ": " + value + " is no signal; write TERM or KILL, say")
		}
	}
}

// boolean reads one as Docker users write them.
func (o *options) boolean(called, value string) bool {
	var lower [5]byte
	n := copy(lower[:], value)
	for i := range lower[:n] {
		if lower[i] >= 'A' && lower[i] <= 'Z' {
			lower[i] += 'a' - 'A'
		}
	}
	switch word := string(lower[:n]); {
	case len(value) > len(lower):
	case word == "1" || word == "true" || word == "yes" || word == "on":
		return true
	case word == "0" || word == "false" || word == "no" || word == "off":
		return false
	}
	o.refuse(called + ": " + value + " is refused; write on or off")
	return false
}

func (o *options) complete() bool {
	if len(o.command) == 0 {
		o.log(levelFatal, "no command and no configuration; write the command after \"init --\", or the configuration to "+DefaultConfig)
		sys.Write(2, []byte(usage))
		sys.Exit(exitUsage)
	}
	return true
}

// refuse ends an init that makes no sense.
func (o *options) refuse(what string) {
	o.log(levelFatal, what)
	sys.Exit(exitUsage)
}

// addSuccess adds an exit code, 0 to 255, to those that count as 0.
func (o *options) addSuccess(code string) bool {
	n, rest, ok := number(code)
	if !ok || rest != "" || n < 0 || n > 255 {
		return false
	}
	o.success[n] = true
	return true
}

// number reads an integer at the beginning of s as strtol(3) does, behind blanks.
func number(s string) (n int, rest string, ok bool) {
	for s != "" && (s[0] == ' ' || s[0] >= '\t' && s[0] <= '\r') {
		s = s[1:]
	}
	sign := 1
	if s != "" && (s[0] == '-' || s[0] == '+') {
		if s[0] == '-' {
			sign = -1
		}
		s = s[1:]
	}
	for s != "" && s[0] >= '0' && s[0] <= '9' {
		n, s, ok = min(n*10+int(s[0]-'0'), 1<<30), s[1:], true
	}
	return sign * n, s, ok
}

// cut splits --flag=value. Anything else is returned as it is.
func cut(arg string) (flag, value string, given bool) {
	if len(arg) < 3 || arg[:2] != "--" {
		return arg, "", false
	}
	for i := 2; i < len(arg); i++ {
		if arg[i] == '=' {
			return arg[:i], arg[i+1:], true
		}
	}
	return arg, "", false
}

// Levels of what is said.
const (
	levelFatal = iota
	levelWarn
	levelInfo
	levelDebug
	levelTrace
)

var levelNames = [...]string{"FATAL", "WARN ", "INFO ", "DEBUG", "TRACE"}

// wants tells whether a level is said.
func (o *options) wants(level int) bool { return level <= o.verbosity || level == levelFatal }

// log says one line: on stderr, but what our own init and tini say beyond
// warnings is on stdout.
func (o *options) log(level int, what ...string) { o.logAs(sys.Getpid(), level, what...) }

// logAs is log in the name of another process.
func (o *options) logAs(pid int32, level int, what ...string) {
	if !o.wants(level) || len(what) == 1 && what[0] == "" {
		return
	}
	to := int32(2)
	if level > levelWarn && !o.as.errorsOnly {
		to = 1
	}
	line := o.as.prefix(level, sys.Decimal(pid))
	for _, part := range what {
		line += part
	}
	sys.Write(to, []byte(line+"\n"))
}
