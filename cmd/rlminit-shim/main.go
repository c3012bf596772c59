// Command rlminit-shim is the interpreter of shims: files of one line, made by rlminit
// install-compat --shim, by which a program that root calls runs as the service user.
//
// It decodes the command line and decides on the exit code. All else is in package
// beside/shim.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"rlminit/beside/shim"
	"rlminit/control"
)

const help = `rlminit shim: have a program that root calls run as the service user

Usage: rlminit shim [--force] NAME=/PATH… DIR

Makes DIR/NAME for each program PATH: a file of one line, by which docker exec
BOX NAME of root runs PATH as the service user, with the environment and in the
directory that rlminit exec gives a command. Any other user runs PATH as it is,
and so does root where no rlminit supervises, which one line says. DIR comes
before the directory of PATH in PATH; PATH typed in full is the program itself.
rlminit install-compat --shim does the same.

Exit codes: 0 made; 1 cannot be made; 2 the command line is wrong. A shim has
those of its program; 126 if that cannot be executed and 127 if it is not found.

Examples:
  rlminit shim agent=/opt/agent/bin/agent /usr/local/bin
`

func main() { os.Exit(run(os.Args)) }

// run does what the arguments say and returns the exit code.
func run(args []string) int {
	self, err := os.Executable()
	if err != nil {
		return complain("rlminit", control.ExitFailed, err)
	}
	// The kernel calls us with the rest of the line as one word, and the shim's own path.
	if len(args) > 2 {
		if target, is := strings.CutPrefix(args[1], shim.Flag); is {
			name := filepath.Base(args[2])
			err := shim.Exec(self, target, args[3:], func(line string) { fmt.Fprintln(os.Stderr, name+": "+line) })
			code := control.ExitFailed
			var not *shim.NotRun
			if errors.As(err, &not) {
				code = not.Code
			}
			return complain(name, code, err)
		}
	}
	return install(self, args[min(1, len(args)):])
}

// install makes shims.
func install(self string, args []string) int {
	set := pflag.NewFlagSet("rlminit shim", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	force := set.Bool("force", false, "replace what is there")
	err := set.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		if _, err := io.WriteString(os.Stdout, help); err != nil {
			return complain("rlminit", control.ExitFailed, err)
		}
		return control.ExitDone
	case err != nil:
		return complain("rlminit", control.ExitUsage, fmt.Errorf("%w; see rlminit help shim", err))
	case set.NArg() < 2:
		return complain("rlminit", control.ExitUsage, errors.New("NAME=/PATH and DIR are missing; see rlminit help shim"))
	}
	dir := set.Arg(set.NArg() - 1)
	for _, pair := range set.Args()[:set.NArg()-1] {
		name, target, ok := strings.Cut(pair, "=")
		if !ok || name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
			return complain("rlminit", control.ExitUsage, fmt.Errorf("%q: write NAME=/PATH; see rlminit help shim", pair))
		}
		link := filepath.Join(dir, name)
		if err := shim.Install(self, link, target, *force); err != nil {
			return complain("rlminit", control.ExitFailed, err)
		}
		fmt.Printf("%s -> %s\n", link, target)
	}
	return control.ExitDone
}

// complain says in one line what went wrong.
func complain(name string, code int, err error) int {
	fmt.Fprintf(os.Stderr, "%s: %s\n", name, strings.ReplaceAll(err.Error(), "\n", " "))
	return code
}
