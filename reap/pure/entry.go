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

// Exit codes of an init.
const (
	exitFailed        = 1
	exitUsage         = 2
	exitNotExecutable = 126
	exitNotFound      = 127
)

func init() {
	args := arguments()
	if len(args) == 0 {
		return
	}
	if other := otherInit(base(args[0])); other != nil {
		sys.Exit(other(args, environment()))
	}
	if len(args) < 2 || args[1] != "init" {
		return
	}
	o := options{as: &own, environment: environment(), verbosity: levelWarn, subreaper: sys.Getpid() != 1}
	if Lookup(o.environment, "RLMINIT_CONFIG") != "" || sys.Exists(DefaultConfig) {
		return
	}
	if o.parse(args[2:]) {
		sys.Exit(o.run())
	}
}

// Names are those under which the binary takes the place of another init.
var Names = [...]string{"tini", "tini-static", "docker-init", "podman-init", "dumb-init", "catatonit"}

// otherInit returns the one of that name, or nil.
func otherInit(name string) func(args, env []string) int {
	switch name {
	case "tini", "tini-static", "docker-init", "podman-init":
		return runTini
	case "dumb-init":
		return runDumbInit
	case "catatonit":
		return runCatatonit
	}
	return nil
}

// Lookup returns the value of a variable, "" if it is not set.
func Lookup(env []string, name string) string {
	value, _ := find(env, name)
	return value
}

// find is Lookup that tells a variable without a value from none.
func find(env []string, name string) (string, bool) {
	for _, entry := range env {
		if len(entry) > len(name) && entry[len(name)] == '=' && entry[:len(name)] == name {
			return entry[len(name)+1:], true
		}
	}
	return "", false
}

// base is the last element of a path.
func base(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[i+1:]
		}
	}
	return path
}
