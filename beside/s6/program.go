package s6

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"rlminit/control"
)

// The exit codes of s6's programs.
const (
	exitDone    = 0
	exitNo      = 1   // not supervised; an unknown user
	exitExpired = 99  // the time is over
	exitUsage   = 100 // the command line is wrong; nobody supervises
	exitDied    = 102 // whoever supervised is gone
	exitSystem  = 111 // what it takes failed
	exitNotRun  = 126 // the command cannot be executed
	exitNoFile  = 127 // the command is not found
)

// program is one command.
type program struct {
	usage string // what follows the name
	run   func(*call) int
}

// programs are the commands, by name.
var programs = map[string]program{
	"s6-svc":           {"[ -wu | -wU | -wd | -wD | -wr | -wR ] [ -T timeout ] [ -abqhkti12pcyroduDUxOQ ] servicedir", svc},
	"s6-svstat":        {"[ -uwNrpest | -o " + strings.Join(fieldNames(), ",") + " ] [ -n ] servicedir", svstat},
	"s6-svok":          {"servicedir", svok},
	"s6-svwait":        {"[ -U | -u | -d | -D | -r | -R ] [ -a | -o ] [ -t timeout ] servicedir...", svwait},
	"s6-svscanctl":     {"[ -zabhitqnN ] svscandir", svscanctl},
	"s6-setuidgid":     {"username prog...", setuidgid},
	"s6-notifyoncheck": {"[ -d ] [ -3 fd ] [ -s initialsleep ] [ -T globaltimeout ] [ -t localtimeout ] [ -w waitingtime ] [ -n tries ] [ -c checkprog ] prog...", notifyOnCheck},
	"with-contenv":     {"prog...", withContenv},
}

// Names are those of the commands, sorted.
func Names() []string {
	names := make([]string, 0, len(programs))
	for name := range programs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Streams is where a command writes to.
type Streams struct {
	Out, Err io.Writer
}

// Run runs the command of a name, or of a path that ends in it, and returns its exit code.
// Known is false for another name. Those that execute a command return only if they cannot.
func Run(ctx context.Context, to Streams, name string, args []string) (code int, known bool) {
	name = filepath.Base(name)
	p, known := programs[name]
	if !known {
		return exitUsage, false
	}
	c := &call{ctx: ctx, name: name, usage: p.usage, args: args, to: to}
	return p.run(c), true
}

// call is one call of a command.
type call struct {
	ctx   context.Context
	name  string
	usage string
	args  []string
	to    Streams
}

// fatal says why there is no more to do, in one line, and returns code.
func (c *call) fatal(code int, format string, args ...any) int {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	fmt.Fprintf(c.to.Err, "%s: fatal: %s\n", c.name, text)
	return code
}

// misused says how the command is called.
func (c *call) misused() int {
	fmt.Fprintf(c.to.Err, "%s: usage: %s %s\n", c.name, c.name, c.usage)
	return exitUsage
}

// print writes what was asked for.
func (c *call) print(text string) int {
	if _, err := io.WriteString(c.to.Out, text); err != nil {
		return c.fatal(exitSystem, "unable to write to stdout: %v", err)
	}
	return exitDone
}

// open is a client for the supervisor of this container.
func (c *call) open() *control.Client { return control.Open() }

// option is one of a command line: its letter, and its value if it takes one.
type option struct {
	letter byte
	value  string
}

// options reads the options before the first word that is none. Letters are those that can
// be given, and those of valued take a value, behind the letter or as the next word. What is
// not right is no option: ok is false.
func (c *call) options(letters, valued string) (given []option, words []string, ok bool) {
	words = c.args
	for len(words) > 0 && len(words[0]) > 1 && words[0][0] == '-' {
		word := words[0][1:]
		words = words[1:]
		if word == "-" {
			break
		}
		for word != "" {
			letter := word[0]
			word = word[1:]
			switch {
			case strings.IndexByte(valued, letter) >= 0:
				if word == "" {
					if len(words) == 0 {
						return nil, nil, false
					}
					word, words = words[0], words[1:]
				}
				given = append(given, option{letter, word})
				word = ""
			case strings.IndexByte(letters, letter) >= 0:
				given = append(given, option{letter: letter})
			default:
				return nil, nil, false
			}
		}
	}
	return given, words, true
}

// because is the last part of an error of the supervisor's, which names what was asked for
// already: a reason in a line, without the word for what failed.
func because(err error) string {
	var p *control.Problem
	if errors.As(err, &p) {
		return p.Error()
	}
	return err.Error()
}

// exitOf is the exit code that a problem of the client's has in general, where a command has
// none of its own for it.
func exitOf(err error) int {
	var p *control.Problem
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return exitExpired
	case errors.As(err, &p) && p.ExitCode == control.ExitNoAnswer:
		return exitUsage
	}
	return exitSystem
}

// unknown tells whether there is no service of that name.
func unknown(err error) bool { return exits(err, control.ExitNoSuchName) }

// exits tells whether an error is a problem with that exit code.
func exits(err error, code int) bool {
	var p *control.Problem
	return errors.As(err, &p) && p.ExitCode == code
}
