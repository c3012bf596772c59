package main

import (
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func waitVerb(t *terminal) *cobra.Command {
	var want, operation string
	var id uint64
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait NAME [--for running|stopped] | --operation ID",
		Short: "wait until a service runs, or is stopped",
		Long: `Waits until a service is running (and ready, where it has a probe) or stopped,
and changes nothing. Waiting for running ends at once with exit code 1 if the
service has failed or exited, and with 4 if it is removed; it goes on if the
service is stopped, for somebody may start it. Exit code 7 when the time is
over. With --operation it waits until that operation is over: 0 if it is done, 1
if it failed, 8 if it stopped at a member that was not ready, 17 if it was
cancelled, superseded or interrupted; on a terminal it shows progress.`,
		Example:           `  rlminit wait alice --for running --timeout 30s`,
		ValidArgsFunction: completeServices,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if want != "running" && want != "stopped" {
				return misused(cmd, "--for takes running or stopped, not %q", want)
			}
			switch {
			case !cmd.Flags().Changed("operation"):
				if err := exactly("NAME")(cmd, args); err != nil {
					return err
				}
			case len(args) > 0:
				return misused(cmd, "--operation cannot be combined with names such as %q", args[0])
			case cmd.Flags().Changed("for"):
				return misused(cmd, "--for goes with NAME, not with --operation")
			default:
				if id, err = operationID(cmd, operation); err != nil {
					return err
				}
			}
			client := t.open()
			if len(args) == 0 {
				ctx, cancel := within(cmd.Context(), timeout, 0)
				defer cancel()
				o, err := client.Operation(ctx, id, false)
				if err != nil {
					return err
				}
				return followOperation(ctx, t, client, o)
			}
			ctx, cancel := within(cmd.Context(), timeout, grace)
			defer cancel()
			s, err := client.Wait(ctx, args[0], control.WaitFor{For: want, TimeoutMS: milliseconds(timeout)})
			if err != nil {
				return err
			}
			return answer(t, s, func() { t.printf("%s\n", outcomeLine(t, args[0], control.Outcome{Service: s, Changed: true}, 0)) })
		},
	}
	cmd.Flags().StringVar(&want, "for", "running", "what to wait for: `STATE` is running (default) or stopped")
	cmd.Flags().StringVar(&operation, "operation", "", "wait for the operation of this `ID`")
	cmd.Flags().Var((*seconds)(&timeout), "timeout", "wait no longer than `TIME`, such as 30s (default: no limit)")
	return forPrograms(t, cmd, "write the service, or the operation, as a JSON object")
}
