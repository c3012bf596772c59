package pure

import (
	_ "unsafe" // for linkname

	"rlminit/reap/sys"
)

//go:linkname arguments os.runtime_args
func arguments() []string

//go:linkname environment syscall.runtime_envs
func environment() []string

// DefaultConfig is where a configuration is looked for when nobody names one.
const DefaultConfig = "/etc/rlminit/rlminit.yaml"

func init() {
	args := arguments()
	if len(args) < 2 || args[1] != "init" {
		return
	}
	env := environment()
	command, flags := split(args[2:])
	if len(flags) > 0 || Lookup(env, "RLMINIT_CONFIG") != "" || sys.Exists(DefaultConfig) {
		return
	}
	if len(command) == 0 {
		say("no command and no configuration; write the command after \"init --\", or the configuration to " + DefaultConfig)
		sys.Exit(exitUsage)
	}
	o := options{command: command, environment: env}
	sys.Exit(o.run())
}

// split splits the arguments of `rlminit init` into flags and the command: that
// begins after "--", or with the first word that is no flag.
func split(args []string) (command, flags []string) {
	for i, arg := range args {
		switch {
		case arg == "--":
			return args[i+1:], args[:i]
		case arg == "" || arg[0] != '-':
			return args[i:], args[:i]
		}
	}
	return nil, args
}

// Lookup returns the value of a variable, "" if it is not set.
func Lookup(env []string, name string) string {
	for _, entry := range env {
		if len(entry) > len(name) && entry[len(name)] == '=' && entry[:len(name)] == name {
			return entry[len(name)+1:]
		}
	}
	return ""
}

// Exit codes of an init.
const (
	exitFailed        = 1
	exitUsage         = 2
	exitNotExecutable = 126
	exitNotFound      = 127
)

// say writes a line on stderr.
func say(what string) { sys.Write(2, []byte("rlminit: "+what+"\n")) }
