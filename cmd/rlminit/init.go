package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"rlminit/config"
	"rlminit/reap"
)

// exitConfiguration is the exit code of a broken configuration, EX_CONFIG of
// sysexits(3).
const exitConfiguration = 78

// Tier 1 runs from here and not from main: it needs the first thread, on which
// the runtime keeps the main goroutine until all init functions are done.
func init() {
	if len(os.Args) > 1 && os.Args[1] == "init" {
		if verb := verbInPlace(os.Args); verb != nil {
			os.Args = verb // main does it, and init is over
			return
		}
		os.Exit(runInit(os.Args))
	}
}

// alone are the verbs that need no supervisor: as the container's command they are
// carried out in its place, and nothing else is started.
var alone = []string{"check", "completion", "help", "install-compat", "journal", "schema", "version", "-h", "--help", "--version"}

// verbInPlace is the command of `rlminit init` where that is such a verb of rlminit's
// own: docker run IMAGE rlminit check. What the flags of init set it finds in the
// variables that stand for them. nil: there is no such command.
func verbInPlace(args []string) []string {
	o, help, err := initArguments(args[2:])
	if err != nil || help || len(o.command) < 2 || filepath.Base(o.command[0]) != "rlminit" || !slices.Contains(alone, o.command[1]) {
		return nil
	}
	if o.config != "" {
		os.Setenv("RLMINIT_CONFIG", o.config)
	}
	for name, value := range o.flags {
		os.Setenv("RLMINIT_"+strings.ToUpper(name), value)
	}
	return o.command
}

// runInit is `rlminit init` with a configuration; without one, reap/pure has
// run before and this is never reached.
func runInit(args []string) int {
	_, help, err := initArguments(args[2:])
	switch {
	case help:
		return runVerb([]string{"rlminit", "help", "init"}, newTerminal())
	case err != nil:
		return newTerminal().report(err)
	}
	return reap.Run(reap.Options{Args: args[2:]})
}

// initOptions are the arguments of init.
type initOptions struct {
	config  string
	flags   map[string]string // as config.Bundle has them
	command []string
}

// settings are the flags of init that an RLMINIT_* variable can set too. Package
// reap/pure has the last five of them without a configuration.
func settings() []string {
	return []string{
		"home", "user", "stop-timeout", "profiles", "strict",
		"signal-group", "success", "parent-death", "warn-on-reap", "verbose",
	}
}

// initArguments splits the arguments of init. What follows -- or the first word
// without a dash is the main command, byte for byte.
func initArguments(args []string) (o initOptions, help bool, err error) {
	o.flags = map[string]string{}
	for len(args) > 0 {
		word := args[0]
		if word == "--" {
			o.command = args[1:]
			return o, false, nil
		}
		if !strings.HasPrefix(word, "-") {
			o.command = args
			return o, false, nil
		}
		args = args[1:]
		if word == "-h" || word == "--help" {
			return o, true, nil
		}
		name, value, given := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		if !strings.HasPrefix(word, "--") || name != "config" && !slices.Contains(settings(), name) {
			return o, false, &usageError{"init", "no flag " + word}
		}
		switch {
		case given:
		case name == "strict" || name == "signal-group" || name == "warn-on-reap":
			value = "on"
		case name == "verbose":
			often, _ := strconv.Atoi(o.flags[name]) // no number: refused where it was given
			value = strconv.Itoa(min(often+1, config.MostVerbose))
		case len(args) == 0:
			return o, false, &usageError{"init", "--" + name + " needs a value"}
		default:
			value, args = args[0], args[1:]
		}
		key := strings.ReplaceAll(name, "-", "_")
		switch before, again := o.flags[key]; {
		case name == "config":
			o.config = value
		case name == "success" && again:
			o.flags[key] = before + "," + value
		default:
			o.flags[key] = value
		}
	}
	return o, false, nil
}

// initVerb is there for help and completion: what it does is begun in main,
// before there is a command line library.
func initVerb() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init [--] [CMD ARG…]",
		Short: "be PID 1: reap, supervise, and run the main command",
		Long: `Without a configuration it is a pure init: it runs the command, forwards signals,
reaps orphans, and exits with the command's code. With /etc/rlminit/rlminit.yaml
(or RLMINIT_CONFIG, or --config) it supervises the services there, and the
profiles on the volume. Flags override variables such as RLMINIT_HOME. The last
five flags are for a pure init too; in a configuration they are
main.signal_group, main.exits.success, parent_death, warn_on_reap and verbose.
If rlminit is not PID 1, it becomes a subreaper. Called as tini, dumb-init or
catatonit it takes the flags of that program: rlminit help install-compat.

Without arguments it runs main.command. If the first argument is a program, it
runs that; otherwise main.command with the arguments, unless main.routes says
otherwise. RLMINIT_UID and RLMINIT_GID, or PUID and PGID, change the uid and gid
of the service user; a volume to which nothing was written yet becomes that
user's. If the container's command is rlminit check (or completion, help,
install-compat, journal, schema, version), only that runs, as the container user.

It exits with the main command's code, 128+n if signal n ended the command, 126
if it cannot be executed, 127 if not found, and 78 for a broken configuration.`,
		Example: `  ENTRYPOINT ["/usr/local/bin/rlminit", "init", "--"]
  docker run IMAGE agent serve`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := cmd.Flags()
	f.String("config", "", "the configuration, `FILE`")
	f.String("home", "", "the volume, `DIR`")
	f.String("user", "", "user of the services: `USER` is a name, a uid or uid:gid")
	f.String("stop-timeout", "", "the container's stop budget, `TIME`")
	f.String("profiles", "", "`SWITCH` is on, or off to run without profiles")
	f.Bool("strict", false, "refuse to start if something is not possible here, instead of doing without it")
	f.Bool("signal-group", false, "forward signals to the main command's whole process group")
	f.StringArray("success", nil, "exit with 0 where the main command exits with `CODE`; can be repeated")
	f.String("parent-death", "", "be sent `SIGNAL` when the parent process ends")
	f.Bool("warn-on-reap", false, "say which orphans were reaped")
	f.Count("verbose", "say what PID 1 does; twice: also each signal and each process that it reaps")
	return cmd
}
