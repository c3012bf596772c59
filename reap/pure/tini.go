package pure

import "rlminit/reap/sys"

// tiniVersion is the version whose behaviour this is. Docker reads it.
const tiniVersion = "tini version 0.19.0 - rlminit"

// runTini is tini(1): its command line, its variables, its exit codes.
//
// One thing differs from some builds of it. Options end at the first argument
// that is none, as POSIX and musl have it; glibc's getopt looks for more of them
// behind the command.
func runTini(args, env []string) int {
	o := options{environment: env, tini: true, verbosity: levelWarn}
	if len(args) == 2 && args[1] == "--version" {
		sys.Write(1, []byte(tiniVersion+"\n"))
		return 0
	}
	code, done := o.parseTini(args)
	if done {
		return code
	}
	if _, set := find(env, "TINI_SUBREAPER"); set {
		o.subreaper = true
	}
	if _, set := find(env, "TINI_KILL_PROCESS_GROUP"); set {
		o.group = true
	}
	if value, set := find(env, "TINI_VERBOSITY"); set {
		o.verbosity = leadingNumber(value)
	}
	return o.run()
}

// parseTini reads the command line, getopt(3) with "+p:hvwgle:s". done tells
// that it was no command to run, or a wrong one, and code is what to exit with.
func (o *options) parseTini(args []string) (code int, done bool) {
	name := base(args[0])
	set := optionSet{letters: "p:hvwgle:s"}
	words, fault := set.parse(args[1:], func(letter byte, value string) bool {
		switch letter {
		case 'p', 'e':
			if !o.setTini(letter, value) {
				o.log(levelFatal, "Not a valid option for -", string(letter), ": ", value)
				code, done = exitFailed, true
			}
		case 'h':
			sys.Write(1, []byte(tiniUsage(name)))
			done = true
		case 'l':
			sys.Write(1, []byte("rlminit, in place of tini"+license))
			done = true
		case 's':
			o.subreaper = true
		case 'g':
			o.group = true
		case 'w':
			o.warn = true
		case 'v':
			o.verbosity++
		}
		return !done
	})
	switch {
	case done:
		return code, true
	case fault != "":
		sys.Write(2, []byte(name+": "+fault+"\n"+tiniUsage(name)))
		return exitFailed, true
	case len(words) == 0:
		sys.Write(2, []byte(tiniUsage(name)))
		return exitFailed, true
	}
	o.command = words
	return 0, false
}

// setTini sets an option that has a value.
func (o *options) setTini(letter byte, value string) bool {
	if letter == 'e' {
		// strtol(3) passes over blanks and a plus, and makes 0 of nothing.
		if value == "" {
			value = "0"
		}
		for len(value) > 1 && (value[0] == ' ' || value[0] == '\t' || value[0] == '\n') {
			value = value[1:]
		}
		if value[0] == '+' {
			value = value[1:]
		}
		return o.addSuccess(value)
	}
	o.parentDeath = signalNamed(value)
	return o.parentDeath != 0
}

// leadingNumber is atoi(3).
func leadingNumber(s string) int {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t' || s[0] == '\n') {
		s = s[1:]
	}
	sign := 1
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		if s[0] == '-' {
			sign = -1
		}
		s = s[1:]
	}
	n := 0
	for i := 0; i < len(s) && s[i] >= '0' && s[i] <= '9' && n < 1<<20; i++ {
		n = n*10 + int(s[i]-'0')
	}
	return sign * n
}

func tiniUsage(name string) string {
	return name + " (" + tiniVersion + `)
Usage: ` + name + ` [OPTIONS] PROGRAM -- [ARGS] | --version

Runs PROGRAM as the child of an init that forwards signals and reaps zombies.

  --version     Show the version and exit, if it is the only argument.
  -h            Show this help and exit.
  -s            Register as a child subreaper.
  -p SIGNAL     Get SIGNAL when the parent process ends, for example "-p SIGKILL".
  -v            Say more. Repeat up to 3 times.
  -w            Warn when zombies are reaped.
  -g            Send signals to the child's process group.
  -e EXIT_CODE  Exit with 0 in place of EXIT_CODE, 0 to 255. Can be repeated.
  -l            Show the license and exit.

Environment variables:

  TINI_SUBREAPER           Register as a child subreaper.
  TINI_VERBOSITY           How much is said (default: 1).
  TINI_KILL_PROCESS_GROUP  Send signals to the child's process group.

`
}

const license = `.

Licensed under the Apache License, Version 2.0; you may obtain a copy at
http://www.apache.org/licenses/LICENSE-2.0. Distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
`
