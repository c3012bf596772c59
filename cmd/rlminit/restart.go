package main

import (
	"context"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func restartVerb(t *terminal) *cobra.Command {
	o := &operation{verb: "restart", call: func(c *control.Client) func(context.Context, string, control.Operate) ([]control.Outcome, error) {
		return c.Restart
	}}
	cmd := &cobra.Command{
		Use:   "restart NAME… | --all",
		Short: "stop services and start them again",
		Long: `Stops services, starts them again and waits until they run. One that was
stopped is started. What requires them is stopped first, and started again after
them. With several names the exit code is the highest of theirs.`,
		Example: `  rlminit restart alice
  rlminit restart --all --timeout 2m`,
		RunE: func(cmd *cobra.Command, names []string) error { return o.run(cmd, t, names) },
	}
	o.flags(cmd)
	return cmd
}
