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
	command, config, ok := Command(args[2:])
	if !ok || config != "" || Lookup(env, "RLMINIT_CONFIG") != "" || sys.Exists(DefaultConfig) {
		return
	}
	if len(command) == 0 {
		say("no command and no configuration; write the command after \"init --\", or the configuration to " + DefaultConfig)
		sys.Exit(exitUsage)
	}
	o := options{command: command, environment: env}
	sys.Exit(o.run())
}

// Command splits the arguments of `rlminit init` into the command and the
// configuration that --config names. ok is false for a flag that init has not.
func Command(args []string) (command []string, config string, ok bool) {
	for len(args) > 0 {
		flag := args[0]
		switch {
		case flag == "--":
			return args[1:], config, true
		case flag == "--config" && len(args) > 1:
			config, args = args[1], args[1:]
		case len(flag) > len("--config=") && flag[:len("--config=")] == "--config=":
			config = flag[len("--config="):]
		case len(flag) > 0 && flag[0] == '-':
			return nil, "", false
		default:
			return args, config, true
		}
		args = args[1:]
	}
	return nil, config, true
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
