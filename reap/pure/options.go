package pure

import "rlminit/reap/sys"

// options is one run of the init.
type options struct {
	command     []string
	environment []string

	tini        bool      // speak as tini does
	group       bool      // forward signals to the command's process group
	subreaper   bool      // be given orphans without being PID 1
	warn        bool      // say which orphans were reaped
	verbosity   int       // a level
	parentDeath int32     // signal that we get when our parent ends; 0: none
	success     [256]bool // exit codes of the command that become 0
}

// Usage of the flags that `rlminit init` has without a configuration. With one,
// main.stop and main.exits say the same.
const usage = `usage: rlminit init [FLAG]… [--] CMD [ARG]…

  --signal-group        forward signals to the command's process group
  --success CODE        exit with 0 where the command exits with CODE; can be repeated
  --parent-death SIGNAL be sent SIGNAL when the parent process ends
  --warn-on-reap        say which orphans were reaped
  --verbose             say what is done; more often: more

With a configuration other flags apply: rlminit help init.
`

// parse reads the arguments of `rlminit init`. It returns false where they are
// not for an init without a configuration, and exits where they are for none.
func (o *options) parse(args []string) bool {
	for i := 0; i < len(args); i++ {
		flag, value, given := cut(args[i])
		next := func() string {
			if !given && i+1 < len(args) {
				i++
				value, given = args[i], true
			}
			if !given {
				o.refuse(flag + " needs a value")
			}
			return value
		}
		switch {
		case flag == "--signal-group":
			o.group = true
		case flag == "--warn-on-reap":
			o.warn = true
		case flag == "--verbose":
			o.verbosity++
		case flag == "--success":
			if code := next(); !o.addSuccess(code) {
				o.refuse("--success: " + code + " is no exit code; write 0 to 255")
			}
		case flag == "--parent-death":
			name := next()
			if o.parentDeath = signalNamed(name); o.parentDeath == 0 {
				o.refuse("--parent-death: " + name + " is no signal; write TERM or KILL, say")
			}
		case flag == "--":
			o.command = args[i+1:]
			return o.complete()
		case flag == "" || flag[0] != '-':
			o.command = args[i:]
			return o.complete()
		default:
			return false // of an init with a configuration, or nobody's
		}
	}
	return o.complete()
}

func (o *options) complete() bool {
	if len(o.command) == 0 {
		o.refuse("no command and no configuration; write the command after \"init --\", or the configuration to " + DefaultConfig)
	}
	return true
}

// refuse ends an init that makes no sense.
func (o *options) refuse(what string) {
	o.log(levelFatal, what)
	sys.Write(2, []byte(usage))
	sys.Exit(exitUsage)
}

// addSuccess adds an exit code, 0 to 255, to those that count as 0.
func (o *options) addSuccess(code string) bool {
	n := 0
	for i := 0; i < len(code); i++ {
		if code[i] < '0' || code[i] > '9' || n > 255 {
			return false
		}
		n = n*10 + int(code[i]-'0')
	}
	if code == "" || n > 255 {
		return false
	}
	o.success[n] = true
	return true
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

// log says one line: warnings on stderr, what else is asked for on stdout.
func (o *options) log(level int, what ...string) {
	if !o.wants(level) {
		return
	}
	line := "rlminit: "
	if o.tini {
		line = "[" + levelNames[level] + " tini (" + sys.Decimal(uint64(sys.Getpid())) + ")] "
	}
	for _, part := range what {
		line += part
	}
	to := int32(2)
	if level > levelWarn {
		to = 1
	}
	sys.Write(to, []byte(line+"\n"))
}
