package main

import (
	"context"
	"errors"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
)

// The default part of a log that is shown: all of one, the end of
// each of several, and a few lines before what is to come.
const (
	linesOfSeveral = 100
	linesBefore    = 10
)

type logFlags struct {
	follow, all, bare, raw bool
	lines, since           string
	until, grep, level     string
}

// logAsk is the request of the flags.
type logAsk struct {
	control.LogOptions
	filter  logFilter
	newest  int         // of the lines that the filter lets through, the last so many; negative: all
	bare    bool        // no service's name before its lines
	raw     bool        // control characters as they are, on a terminal too
	sources []logSource // of JSON: what each log is of
}

func logsVerb(t *terminal) *cobra.Command {
	var flags logFlags
	cmd := &cobra.Command{
		Use:   "logs NAME… | --all",
		Short: "show the logs of services",
		Long: `Shows what services wrote, across rotations of their log. Several logs are merged
by time, each line with the service's name in front. -f follows the name until
interrupted: over restarts, and over a rename or deletion of its profile (a line
of the log says so) to the next profile of that name.

--grep searches the service's own text, not the time and stream. --level looks at
the level that a line gives: <3> in front, level=error, {"level":"error"},
[error], ERROR and the like. A line without a level counts as info, and one that
begins with a blank has the level of the line before. -n counts the lines that
these let through; with -f, lines before they are filtered.

On a terminal control characters are shown as ^[ and the like; --raw writes them
as they are, as in a pipe.

With --json a line is an object with service, at (null without times), stream
(out, err, or rlminit for what rlminit adds), level (null: none), cut (the text
goes on in the next line) and text, or text_base64 where it is not UTF-8.`,
		Example: `  rlminit logs alice
  rlminit logs -f -n 50 alice bob
  rlminit logs --all --since 10m --level warn
  rlminit logs alice --grep 'timeout|refused' --until 2026-05-24T18:05:33Z
  rlminit logs --all --json | jq -r .text`,
		ValidArgsFunction: completeServices,
		RunE: func(cmd *cobra.Command, names []string) error {
			switch {
			case flags.all && len(names) > 0:
				return misused(cmd, "--all cannot be combined with names such as %q", names[0])
			case !flags.all && len(names) == 0:
				return misused(cmd, "NAME or --all is missing")
			}
			client := t.open()
			ctx, cancel := untilInterrupted(cmd.Context())
			defer cancel()
			names, err := logNames(ctx, client, names)
			if err != nil {
				return err
			}
			options, err := flags.options(cmd, t.now(), len(names))
			if err != nil {
				return err
			}
			if t.json {
				options.sources = sourcesOf(ctx, client, names)
			}
			if err := showLogs(ctx, t, client, names, options); err != nil && ctx.Err() == nil {
				return err
			}
			return nil
		},
	}
	flags.add(t, cmd)
	return cmd
}

func (flags *logFlags) add(t *terminal, cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&flags.follow, "follow", "f", false, "go on with new lines, until interrupted")
	f.StringVarP(&flags.lines, "lines", "n", "", "the last `N` lines of each, or all (default: all of one log, 100 of each of several, 10 with -f)")
	f.StringVar(&flags.lines, "tail", "", "the same, as other programs call it")
	_ = f.MarkHidden("tail")
	f.StringVar(&flags.since, "since", "", "lines since `TIME`: 10m ago, 2026-05-24T18:05:33Z, or 2026-05-24 18:05")
	f.StringVar(&flags.until, "until", "", "lines until `TIME`")
	f.StringVar(&flags.grep, "grep", "", "lines that match the regular `EXPRESSION` (RE2); (?i) in front ignores case")
	f.StringVar(&flags.level, "level", "", "lines of `LEVEL` and above: trace, debug, info, warn, error or fatal")
	forPrograms(t, cmd, "write a JSON object for each line")
	f.BoolVar(&flags.bare, "no-prefix", false, "no service's name in front of its lines")
	f.BoolVar(&flags.raw, "raw", false, "control characters as they are, on a terminal too: colours, and whatever else a service wrote")
	f.BoolVar(&flags.all, "all", false, "every service")
}

// logNames returns the services to show: those named, or all.
func logNames(ctx context.Context, client *control.Client, names []string) ([]string, error) {
	if len(names) > 0 {
		return once(names), nil
	}
	services, err := client.Services(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range services {
		names = append(names, shortName(s))
	}
	return names, nil
}

// options makes of the flags what to ask for.
func (f *logFlags) options(cmd *cobra.Command, now time.Time, names int) (logAsk, error) {
	o := logAsk{LogOptions: control.LogOptions{Follow: f.follow, Lines: -1}, newest: -1, bare: f.bare, raw: f.raw}
	if err := f.filter(cmd, now, &o); err != nil {
		return o, err
	}
	switch {
	case cmd.Flags().Changed("since"):
		at, ok := parseWhen(f.since, now)
		if !ok {
			return o, misused(cmd, "--since takes a time such as %s, not %q", timesTaken, f.since)
		}
		o.Since = at
	case f.follow:
		o.Lines = linesBefore
	case o.filter.on():
	case names > 1:
		o.Lines = linesOfSeveral
	}
	if cmd.Flags().Changed("lines") || cmd.Flags().Changed("tail") {
		n, err := newestLines(cmd, f.lines)
		if err != nil {
			return o, err
		}
		o.Lines = n
	}
	if o.filter.on() && !f.follow {
		o.newest, o.Lines = o.Lines, -1
	}
	return o, nil
}

// newestLines is what -n says; -1: all.
func newestLines(cmd *cobra.Command, text string) (int, error) {
	if text == "all" {
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, misused(cmd, "-n takes a number of lines, or all, not %q", text)
	}
	return n, nil
}

// filter reads the flags that leave lines out.
func (f *logFlags) filter(cmd *cobra.Command, now time.Time, o *logAsk) error {
	if cmd.Flags().Changed("until") {
		if f.follow {
			return misused(cmd, "--until says where the log ends and -f that it goes on: give one of them")
		}
		at, ok := parseWhen(f.until, now)
		if !ok {
			return misused(cmd, "--until takes a time such as %s, not %q", timesTaken, f.until)
		}
		o.filter.until = at
	}
	if f.grep != "" {
		var err error
		if o.filter.grep, err = regexp.Compile(f.grep); err != nil {
			var fault *syntax.Error
			why := err.Error()
			if errors.As(err, &fault) {
				why = fault.Code.String()
			}
			return misused(cmd, "--grep %q is no regular expression: %s", f.grep, why)
		}
	}
	if cmd.Flags().Changed("level") {
		level, ok := levelNamed(f.level)
		if !ok {
			return misused(cmd, "--level takes one of %s, not %q", strings.Join(levelNames, ", "), f.level)
		}
		o.filter.level = level
	}
	return nil
}

func showLogs(ctx context.Context, t *terminal, client *control.Client, names []string, o logAsk) error {
	if len(names) == 1 {
		p := newPrinter(t, names, o)
		return filteredLog(ctx, t, client, names[0], o, func(line []byte) error {
			return p.print(logLine{text: line})
		})
	}
	if o.Follow {
		return followLogs(ctx, t, client, names, o)
	}
	return mergeLogs(ctx, t, client, names, o)
}

// filteredLog reads one log, and hands on the lines that are asked for.
func filteredLog(ctx context.Context, t *terminal, client *control.Client, name string, o logAsk, each func([]byte) error) error {
	if !o.filter.on() {
		return readLog(ctx, client, name, o.LogOptions, each)
	}
	filter := o.filter // each log has a line before
	last := lastOnes{n: o.newest}
	err := readLog(ctx, client, name, o.LogOptions, func(line []byte) error {
		switch {
		case !filter.keeps(line):
		case o.newest >= 0:
			last.add(line)
		default:
			return each(line)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return last.each(each)
}

// readLog reads one log. A log that is followed is followed over the
// replacement of the supervisor, from the last line that was seen.
func readLog(ctx context.Context, client *control.Client, name string, o control.LogOptions, each func([]byte) error) error {
	if name == control.All {
		return namedAll()
	}
	var last []byte
	resuming := false
	for {
		err := client.Logs(ctx, name, o, func(line []byte) error {
			if resuming {
				if string(line) == string(last) {
					resuming = false
					return nil
				}
				if !stampOf(line).After(o.Since) {
					return nil
				}
				resuming = false
			}
			last = append(last[:0], line...)
			return each(line)
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case o.Follow && errors.Is(err, control.ErrCut):
			o.Lines, o.Since = -1, stampOf(last)
			if resuming = !o.Since.IsZero(); !resuming {
				o.Lines = 0 // a log without times: only what is new can be told from what was seen
			}
		case errors.Is(err, control.ErrCut):
			return control.NoAnswer("cannot read the log of %s to its end: the supervisor was replaced; ask again", name)
		default:
			return err
		}
	}
}

// whole gives a line the newline that the last one of a log may lack.
func whole(line []byte) []byte {
	if len(line) > 0 && line[len(line)-1] != '\n' {
		return append(append([]byte(nil), line...), '\n')
	}
	return line
}

// stampOf returns the time at a line's beginning, or the zero time.
func stampOf(line []byte) time.Time {
	// RFC 3339 in µs is 27 bytes with a Z, and 32 with an offset.
	head := line[:min(len(line), 36)]
	for i, b := range head {
		if b == ' ' || b == '\n' {
			head = head[:i]
			break
		}
	}
	if len(head) < 20 || head[4] != '-' {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, string(head))
	if err != nil {
		return time.Time{}
	}
	return at
}
