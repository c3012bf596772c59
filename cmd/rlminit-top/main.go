// Command rlminit-top is the verb top of rlminit: it shows services in a terminal, and
// operates on them when it is told to.
//
// It decodes the command line, decides on the exit code, and writes what went wrong. All
// else is in packages below beside/top.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"rlminit/beside/top"
	"rlminit/beside/top/text"
	"rlminit/control"
)

const help = `rlminit top: watch and operate services in the terminal

Usage: rlminit top [--every TIME] [--plain]

Shows each service with its state, why it is so and since when, how often it was
restarted, and the memory and CPU that it uses. The keys are shown at the foot,
and ? explains them: / filters, s sorts, Enter opens a service with its log as
it comes. u, d and r start, stop and restart what is marked, or what is under
the cursor, after a question that says what will happen; an operation shows how
far it is, and c cancels it. When the supervisor is replaced, top goes on by
itself.

It needs a terminal. --plain needs none, and moves no cursor: it prints a line
for each service, and then a line for each change, until ^C. NO_COLOR in the
environment leaves the colours out; no colour says what a word does not.

Flags:
      --every TIME  look once in TIME, and at each event (default 1s)
      --plain       print lines, for screen readers and pipes

Examples:
  rlminit top
  rlminit top --every 5s      # over a slow link
  rlminit top --plain
`

func main() { os.Exit(run(os.Args[1:])) }

// options are the flags.
type options struct {
	every time.Duration
	plain bool
}

// The bounds of --every.
const (
	everyLeast = 200 * time.Millisecond
	everyMost  = time.Hour
)

// run does what the arguments say and returns the exit code.
func run(args []string) int {
	o, err := parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		if _, err := io.WriteString(os.Stdout, help); err != nil {
			return complain(fmt.Errorf("cannot write to standard output: %w", err))
		}
		return control.ExitDone
	}
	if err != nil {
		return complain(control.BadRequest("%v; see rlminit help top", err))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	client := control.Open()
	client.Notice = func(line string) { complain(errors.New(line)) }
	if o.plain {
		err = top.Plain(ctx, client, o.every, os.Stdout)
	} else if err = onTerminal(); err == nil {
		var id uint64
		if id, err = top.Screen(ctx, client, o.every, os.Stdin, os.Stdout); id > 0 {
			fmt.Fprintf(os.Stderr, "rlminit: operation %d goes on; rlminit operations %d -f shows it, rlminit cancel %d ends it\n", id, id, id)
		}
	}
	if ctx.Err() != nil {
		return control.ExitDone // a person has ended it
	}
	return complain(err)
}

// parse reads the command line.
func parse(args []string) (o options, err error) {
	flags := pflag.NewFlagSet("top", pflag.ContinueOnError)
	flags.SetOutput(new(bytes.Buffer))
	flags.DurationVar(&o.every, "every", time.Second, "")
	flags.BoolVar(&o.plain, "plain", false, "")
	if err := flags.Parse(args); err != nil {
		return o, flagFault(err)
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.every < everyLeast || o.every > everyMost:
		return o, fmt.Errorf("--every takes a time from %s to %s, such as 5s, not %s", everyLeast, "1h", o.every)
	}
	return o, nil
}

// flagFault words what pflag complains of as the other verbs do.
func flagFault(err error) error {
	var unknown *pflag.NotExistError
	var lacking *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return fmt.Errorf("no flag -%s", unknown.GetSpecifiedName())
	case errors.As(err, &unknown):
		return fmt.Errorf("no flag --%s", unknown.GetSpecifiedName())
	case errors.As(err, &lacking):
		return fmt.Errorf("--%s needs a value", lacking.GetFlag().Name)
	case errors.As(err, &invalid) && invalid.GetFlag().Name == "every":
		return fmt.Errorf("--every: %q: write a time such as 5s", invalid.GetValue())
	case errors.As(err, &invalid):
		return fmt.Errorf("--%s: %q: write true or false", invalid.GetFlag().Name, invalid.GetValue())
	}
	return err
}

// onTerminal says what to use where there is no terminal for a screen.
func onTerminal() error {
	switch {
	case !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stdout.Fd())):
		return control.BadRequest("cannot draw a screen: this is no terminal; use docker exec -it, or rlminit status, or rlminit top --plain")
	case os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == "":
		return control.BadRequest("cannot draw a screen: TERM is %q; set it to what the terminal is, such as xterm, or use rlminit status, or rlminit top --plain", os.Getenv("TERM"))
	}
	return nil
}

// complain writes an error's line and returns its exit code.
func complain(err error) int {
	if err == nil {
		return control.ExitDone
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(os.Stderr, "rlminit: %s\n", text.Line(line))
	}
	var problem *control.Problem
	if errors.As(err, &problem) {
		return problem.ExitCode
	}
	return control.ExitFailed
}
