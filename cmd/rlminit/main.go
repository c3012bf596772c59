//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command rlminit is a container's init and supervisor, and the command line
// that talks to it.
//
// It is one binary in several parts. The first argument picks one: init (tier
// 1), supervise (tier 2), compile (the short-lived reader of the
// configuration), prepare (what happens before anything runs), environments
// (what is read once that is done) and files (what is done with a profile's files,
// as its user) are called as they are, before anything of
// the command line library is made; every other verb is one file here that asks
// the supervisor over the control socket. This package decides on exit codes and
// colour, and nothing else does.
package main

import (
	"os"
	"runtime"

	"rlminit/job/files"
	"rlminit/supervise"
)

// processors bounds GOMAXPROCS: the runtime has threads and memory for each, and
// on a large host that would be more than all that a supervisor does. The
// directives above keep the runtime from looking for the cgroup's limits, now
// and once a second: that takes a tenth of the time in which a pure init begins.
const processors = 4

func main() {
	runtime.GOMAXPROCS(min(runtime.NumCPU(), processors))
	os.Exit(run(os.Args))
}

// run picks the part that is wanted and returns the exit code.
func run(args []string) int {
	if part := partNamed(args); part != nil {
		return part(args)
	}
	return runVerb(args, newTerminal())
}

// partNamed returns the part of rlminit that the first argument names, or nil
// for a verb. PID 1 does not come here: with a configuration it runs from an init
// function of this package, without one from that of reap/pure, before anything
// of this package is initialised.
func partNamed(args []string) func(args []string) int {
	if len(args) < 2 {
		return nil
	}
	switch args[1] {
	case "supervise":
		return func([]string) int { return supervise.Run(version) }
	case "compile":
		return runCompile
	case "prepare":
		return runPrepare
	case "environments":
		return runEnvironments
	case "rights":
		return runRights
	case "place":
		return runPlace
	case "directories":
		return runDirectories
	case "owner":
		return runOwner
	case "files":
		return func(args []string) int { return files.Run(args[2:], os.Stdin, os.Stdout, os.Stderr) }
	case "try-inside":
		return tryInside
	case "try-shell":
		return tryShell
	}
	return nil
}
