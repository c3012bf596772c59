package pure

import "rlminit/reap/sys"

// tiniVersion is the version whose behaviour this is, as Debian's says it. Docker
// reads it.
const tiniVersion = "tini version 0.19.0"

var tini = personality{
	flags: []flag{
		{letter: 'p', set: (*options).tiniParentDeath},
		{letter: 'h', to: 1, text: tiniUsage},
		{letter: 'v', on: func(o *options) { o.verbosity++ }},
		{letter: 'w', on: func(o *options) { o.warn = true }},
		{letter: 'g', on: func(o *options) { o.group = true }},
		{letter: 'l', to: 1, text: "rlminit, in place of tini" + license},
		{letter: 'e', set: (*options).tiniSuccess},
		{letter: 's', on: func(o *options) { o.subreaper = true }},
	},
	fault:       tiniUsage,
	none:        tiniUsage,
	prefix:      func(level int, pid string) string { return "[" + levelNames[level] + " tini (" + pid + ")] " },
	noSubreaper: "Failed to register as child subreaper",
	noOrphans: "Tini is not running as PID 1 and isn't registered as a child subreaper.\nZombie processes will not be re-parented to Tini, so zombie reaping won't work.\n" +
		"To fix the problem, use the -s option or set the environment variable TINI_SUBREAPER to register Tini as a child subreaper, or run Tini as PID 1.",
	place:   (*mainCommand).findTerminal,
	started: (*mainCommand).spawned,
	notRun:  (*mainCommand).tiniNotRun,
	forward: (*mainCommand).pass,
	reaped:  (*mainCommand).collected,
}

// runTini is tini(1): its command line, its variables, its exit codes.
//
// One thing differs from some builds of it. Options end at the first argument
// that is none, as POSIX and musl have it; glibc's getopt looks for more of them
// behind the command.
func runTini(args, env []string) int {
	o := options{as: &tini, environment: env, verbosity: levelWarn}
	if len(args) == 2 && args[1] == "--version" {
		sys.Write(1, []byte(tiniVersion+"\n"))
		return 0
	}
	if code, done := o.read(args, base(args[0])); done {
		return code
	}
	if _, set := find(env, "TINI_SUBREAPER"); set {
		o.subreaper = true
	}
	if _, set := find(env, "TINI_KILL_PROCESS_GROUP"); set {
		o.group = true
	}
	if value, set := find(env, "TINI_VERBOSITY"); set {
		o.verbosity, _, _ = number(value)
	}
	return o.run()
}

// tiniSuccess reads an exit code as strtol(3) does, which makes 0 of nothing.
func (o *options) tiniSuccess(value string) bool {
	return value == "" && o.addSuccess("0") || o.addSuccess(value) || o.notValid("-e", value)
}

func (o *options) tiniParentDeath(value string) bool {
	o.parentDeath = signalNamed(value)
	return o.parentDeath != 0 || o.notValid("-p", value)
}

func (o *options) notValid(flag, value string) bool {
	o.log(levelFatal, "Not a valid option for ", flag, ": ", value)
	return false
}

// tiniNotRun tells why the program could not be executed.
func (m *mainCommand) tiniNotRun(c *sys.Command) int {
	m.log(levelFatal, "exec ", m.command[0], " failed: ", strerror(c.Errno))
	switch c.Errno {
	case sys.ENOENT:
		return exitNotFound
	case sys.EACCES:
		return exitNotExecutable
	}
	return exitFailed
}

// tiniUsage is tini's own to the byte, for scripts compare it. % is the name that it
// was called by.
const tiniUsage = "% (" + tiniVersion + `)
Usage: % [OPTIONS] PROGRAM -- [ARGS] | --version

Execute a program under the supervision of a valid init process (%)

Command line options:

  --version: Show version and exit.
  -h: Show this help message and exit.
  -s: Register as a process subreaper (requires Linux >= 3.4).
  -p SIGNAL: Trigger SIGNAL when parent dies, e.g. "-p SIGKILL".
  -v: Generate more verbose output. Repeat up to 3 times.
  -w: Print a warning when processes are getting reaped.
  -g: Send signals to the child's process group.
  -e EXIT_CODE: Remap EXIT_CODE (from 0 to 255) to 0.
  -l: Show license and exit.

Environment variables:

  TINI_SUBREAPER: Register as a process subreaper (requires Linux >= 3.4).
  TINI_VERBOSITY: Set the verbosity level (default: 1).
  TINI_KILL_PROCESS_GROUP: Send signals to the child's process group.

`

const license = `.

Licensed under the Apache License, Version 2.0, without warranty of any kind:
http://www.apache.org/licenses/LICENSE-2.0
`
