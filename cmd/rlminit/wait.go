package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func waitVerb(t *terminal) *cobra.Command {
	var want string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait NAME --for running|stopped",
		Short: "wait until a service runs, or is stopped",
		Long: `Waits until a service is running (and ready, where it has a probe) or stopped,
and changes nothing. Waiting for one to run ends at once with exit code 1 if it
has failed or exited, and with 4 if it is removed; one that is stopped is waited
for, for somebody may start it. Exit code 7 when the time is over.`,
		Example:           `  rlminit wait alice --for running --timeout 30s`,
		Args:              exactly("NAME"),
		ValidArgsFunction: completeServices,
		RunE: func(cmd *cobra.Command, args []string) error {
			if want != "running" && want != "stopped" {
				return misused(cmd, "--for takes running or stopped, not %q", want)
			}
			client, err := t.open()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout+grace)
				defer cancel()
			}
			s, err := client.Wait(ctx, args[0], control.WaitFor{For: want, TimeoutMS: milliseconds(timeout)})
			if err != nil {
				return err
			}
			t.printf("%s\n", outcomeLine(t, args[0], control.Outcome{Service: s, Changed: true}, 0))
			return nil
		},
	}
	cmd.Flags().StringVar(&want, "for", "running", "what to wait for: `STATE` is running or stopped")
	cmd.Flags().Var((*seconds)(&timeout), "timeout", "wait no longer than `TIME`, such as 30s (default: no limit)")
	return cmd
}
