package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
)

// What is shown of a log where nobody says how much: all of one, the end of
// each of several, and a few lines before what is to come.
const (
	linesOfSeveral = 100
	linesBefore    = 10
)

type logFlags struct {
	follow, all bool
	lines       string
	since       string
}

func logsVerb(t *terminal) *cobra.Command {
	var flags logFlags
	cmd := &cobra.Command{
		Use:   "logs NAME… | --all",
		Short: "show the logs of services",
		Long: `Shows what services wrote, across rotations of their log. Several are merged by
time, each line with the service's name in front. With -f the log is followed,
also over restarts of the service, until interrupted.`,
		Example: `  rlminit logs alice
  rlminit logs -f -n 50 alice bob
  rlminit logs --all --since 10m`,
		ValidArgsFunction: completeServices,
		RunE: func(cmd *cobra.Command, names []string) error {
			switch {
			case flags.all && len(names) > 0:
				return misused(cmd, "--all leaves no place for names such as %q", names[0])
			case !flags.all && len(names) == 0:
				return misused(cmd, "NAME or --all is missing")
			}
			client, err := t.open()
			if err != nil {
				return err
			}
			ctx, cancel := untilInterrupted(cmd.Context())
			defer cancel()
			if names, err = logNames(ctx, client, names); err != nil {
				return err
			}
			options, err := flags.options(cmd, t.now(), len(names))
			if err != nil {
				return err
			}
			if err := showLogs(ctx, t, client, names, options); err != nil && ctx.Err() == nil {
				return err
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&flags.follow, "follow", "f", false, "go on with what is written, until interrupted")
	f.StringVarP(&flags.lines, "lines", "n", "", "the last `N` lines of each, or all (default: all of one log, 100 of each of several, 10 with -f)")
	f.StringVar(&flags.since, "since", "", "what was written since `TIME`: 10m ago, or 2026-05-24T18:05:33Z")
	f.BoolVar(&flags.all, "all", false, "every service")
	return cmd
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
func (f *logFlags) options(cmd *cobra.Command, now time.Time, names int) (control.LogOptions, error) {
	o := control.LogOptions{Follow: f.follow, Lines: -1}
	switch {
	case cmd.Flags().Changed("since"):
		var ago time.Duration
		if at, err := time.Parse(time.RFC3339Nano, f.since); err == nil {
			o.Since = at
		} else if (*seconds)(&ago).Set(f.since) == nil {
			o.Since = now.Add(-ago)
		} else {
			return o, misused(cmd, "--since takes a time such as 10m or 2026-05-24T18:05:33Z, not %q", f.since)
		}
	case f.follow:
		o.Lines = linesBefore
	case names > 1:
		o.Lines = linesOfSeveral
	}
	switch {
	case !cmd.Flags().Changed("lines"):
	case f.lines == "all":
		o.Lines = -1
	default:
		n, err := strconv.Atoi(f.lines)
		if err != nil || n < 0 {
			return o, misused(cmd, "-n takes a number of lines, or all, not %q", f.lines)
		}
		o.Lines = n
	}
	return o, nil
}

func showLogs(ctx context.Context, t *terminal, client *control.Client, names []string, o control.LogOptions) error {
	if len(names) == 1 {
		return readLog(ctx, t, client, names[0], o, func(line []byte) error {
			_, err := t.out.Write(whole(line))
			return err
		})
	}
	if o.Follow {
		return followLogs(ctx, t, client, names, o)
	}
	return mergeLogs(ctx, t, client, names, o)
}

// readLog reads one log. A log that is followed is followed over the
// replacement of the supervisor, from the last line that was seen.
func readLog(ctx context.Context, t *terminal, client *control.Client, name string, o control.LogOptions, each func([]byte) error) error {
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
