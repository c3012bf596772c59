package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func jobVerb(t *terminal) *cobra.Command {
	return group("job", "list, show, wait for, cancel and undo jobs", `A job is a command that was run by rlminit run, a schedule or a hook, or a write
by rlminit file write. The last 1,000 finished jobs are remembered.`, jobListVerb(t), jobShowVerb(t), jobWaitVerb(t), jobCancelVerb(t), jobLogsVerb(t), jobUndoVerb(t))
}

// group is a verb that has verbs of its own.
func group(name, short, long string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short, Long: long, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownVerb(cmd, args[0])
		},
	}
	cmd.AddCommand(verbs...)
	return cmd
}

func jobListVerb(t *terminal) *cobra.Command {
	return lists(t, &cobra.Command{
		Use:   "list",
		Short: "list the jobs",
		Args:  exactly(),
	}, (*control.Client).Jobs, func(jobs []control.Job) {
		b := new(table)
		b.header("JOB", "STATE", "KIND", "PROFILE", "SUBMITTED", "COMMAND")
		for _, j := range jobs {
			b.row(j.Job, cell{j.State, jobColour(j.State)}, j.Kind, ownerText(j.Profile, j.Service),
				localTime(j.Submitted), strings.Join(j.Command, " "))
		}
		b.write(t)
	})
}

// ownerText is whose a job or a session is.
func ownerText(profile, service *string) string {
	if service != nil {
		return "service " + printable(*service)
	}
	return textOr(profile, "-")
}

func textOr(s *string, absent string) string {
	if s == nil {
		return absent
	}
	return printable(*s)
}

// jobColour gives each state of a job its colour.
func jobColour(state string) string {
	switch state {
	case "succeeded":
		return green
	case "failed", "timed_out", "refused", "interrupted":
		return red
	case "cancelled", "rolled_back":
		return faint
	}
	return yellow
}

func jobShowVerb(t *terminal) *cobra.Command {
	return shows(t, &cobra.Command{
		Use:   "show ID",
		Short: "show a job and its result",
		Args:  exactly("ID"),
	}, (*control.Client).Job, showJob)
}

func showJob(t *terminal, j control.Job) {
	facts(t, 10, "job", j.Job+", "+j.Kind, "state", j.State, "command", strings.Join(j.Command, " "),
		"profile", j.Profile, "service", j.Service, "session", j.Session,
		"submitted", stamp(&j.Submitted), "started", stamp(j.Started), "ended", stamp(j.Ended))
	r := j.Result
	if r == nil {
		return
	}
	switch {
	case r.Signal != nil:
		facts(t, 10, "exit", fmt.Sprintf("signal %s after %d ms", *r.Signal, r.ExecutionTimeMS))
	case r.ExitCode != nil:
		facts(t, 10, "exit", fmt.Sprintf("code %d after %d ms", *r.ExitCode, r.ExecutionTimeMS))
	}
	for _, p := range r.LeftBehind {
		facts(t, 10, "left", fmt.Sprintf("pid %d %s", p.PID, p.Command))
	}
	facts(t, 10, "refused", r.Refused, "error", r.Error, "output", r.OutputFilePath)
	for _, s := range []struct{ name, text string }{{"stdout", r.Stdout}, {"stderr", r.Stderr}} {
		if s.text == "" {
			continue
		}
		t.printf("--- %s\n", s.name)
		for text := range strings.Lines(s.text) {
			t.printf("%s\n", printable(text))
		}
	}
}

// stamp is a moment in full; "": it has not come.
func stamp(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.Format(time.RFC3339)
}

func jobWaitVerb(t *terminal) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait ID",
		Short: "wait until a job is over, and exit as it did",
		Long: `Waits until a job is over, and changes nothing. The exit code is that of rlminit
run, or 7 when the time is over first.`,
		Args: exactly("ID"),
		RunE: t.asking(func(cmd *cobra.Command, args []string, client *control.Client) error {
			ctx, cancel := within(cmd.Context(), timeout, grace)
			defer cancel()
			r, err := client.WaitJob(ctx, args[0], timeout)
			if err != nil {
				return err
			}
			if !t.json {
				t.printf("job %s %s\n", r.Job, r.State)
			}
			return finishRun(t, r)
		}),
	}
	cmd.Flags().Var((*seconds)(&timeout), "timeout", "wait no longer than `TIME`, such as 30s (default: no limit)")
	return forPrograms(t, cmd, "write the result as JSON")
}

func jobCancelVerb(t *terminal) *cobra.Command {
	return forPrograms(t, &cobra.Command{
		Use:   "cancel ID…",
		Short: "end jobs, with all that they have started",
		Long: `Ends jobs with all that they have started: TERM, a second, KILL. Returns when
they are over. If a job is over already, the exit code is 17.`,
		Args: atLeast("ID"),
		RunE: t.asking(func(cmd *cobra.Command, args []string, client *control.Client) error {
			worst := 0
			for _, id := range once(args) {
				r, err := client.CancelJob(cmd.Context(), id)
				if err == nil {
					err = answer(t, r, func() { t.printf("job %s %s\n", r.Job, r.State) })
				}
				worst = max(worst, t.report(err))
			}
			return status(worst)
		}),
	}, "write the result of each that was cancelled, a JSON object")
}

func jobLogsVerb(t *terminal) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs [-f] ID",
		Short: "print the output of a job",
		Long: `Prints the output of a job so far, its stdout to stdout and its stderr to
stderr. With -f it goes on with new output of the job. Interrupting
that does not end the job, unless nobody else follows it and it is not detached.`,
		Args: exactly("ID"),
		RunE: t.asking(func(cmd *cobra.Command, args []string, client *control.Client) error {
			out := &passer{out: t.out, err: t.err}
			if !follow {
				return client.JobOutputNow(cmd.Context(), args[0], out.pass)
			}
			_, err := client.Attach(cmd.Context(), args[0], out.pass)
			return err
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for more, until the job is over")
	return cmd
}

func jobUndoVerb(t *terminal) *cobra.Command {
	return limited(shows(t, &cobra.Command{
		Use:   "undo ID",
		Short: "put back a file's content from before rlminit file write",
		Long: `Puts back the content that a file had before a job of rlminit file write, with
its mode and owner; a file that was not there before is removed. This also works
if the profile was renamed or restored since. It is refused, with exit code 10,
if the file has changed since.`,
		Args: exactly("ID"),
	}, (*control.Client).UndoJob, func(t *terminal, r *control.JobResult) { t.printf("%s\n", r.Job) }))
}
