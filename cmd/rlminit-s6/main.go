// Command rlminit-s6 is what rlminit install-compat links the names of s6 to: called by one
// of them it is that command. As rlminit s6 it takes the name as its first word.
//
// It finds the name and exits with the command's code. All else is in package beside/s6.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"rlminit/beside/s6"
	"rlminit/control"
)

const help = `rlminit s6: the commands of s6, for services of rlminit

Usage: rlminit s6 NAME [ARG…]

Takes the command line of the command that NAME is, with its exit codes and
output: %s.
rlminit install-compat DIR makes links by which they are called by their own
names. /run/service/NAME, or any other path that ends in it, is the service
NAME. docs/compat.md has the options, and what differs from s6.

Examples:
  rlminit s6 s6-svstat -o up,pid /run/service/web
  s6-svc -wU -T 5000 -u /run/service/web
`

func main() { os.Exit(run(os.Args)) }

// run does what the arguments say and returns the exit code.
func run(args []string) int {
	to := s6.Streams{Out: os.Stdout, Err: os.Stderr}
	if len(args) == 0 {
		return complain("no name; see rlminit help s6")
	}
	if code, known := s6.Run(context.Background(), to, args[0], args[1:]); known {
		return code
	}
	if len(args) < 2 {
		return complain("no NAME; see rlminit help s6")
	}
	switch name := args[1]; name {
	case "-h", "--help", "help":
		if _, err := fmt.Fprintf(os.Stdout, help, list()); err != nil {
			return complain(fmt.Sprintf("cannot write to standard output: %v", err))
		}
		return control.ExitDone
	default:
		if code, known := s6.Run(context.Background(), to, name, args[2:]); known {
			return code
		}
		return complain(fmt.Sprintf("no command %q; there are %s", name, strings.Join(s6.Names(), ", ")))
	}
}

// list are the names in lines of a help page.
func list() string {
	names := s6.Names()
	half := len(names)/2 + 1
	return strings.Join(names[:half], ", ") + ",\n" + strings.Join(names[half:], ", ")
}

// complain says what is wrong with the command line.
func complain(what string) int {
	_, _ = io.WriteString(os.Stderr, "rlminit: "+strings.ReplaceAll(what, "\n", " ")+"\n")
	return control.ExitUsage
}
