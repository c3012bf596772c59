package main

import (
	"crypto/rand"
	"strconv"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func rollbackVerb(t *terminal) *cobra.Command {
	var g gating
	ask := control.RollbackRequest{}
	cmd := &cobra.Command{
		Use:   "rollback [REV]",
		Short: "put back what an applied revision has changed",
		Long: `Without REV, puts back what the last applied revision has changed: definitions,
environment, secrets and intents, as they were before it; with REV all that was
changed by those after it, so that 0 is before the first. A profile that was
deleted comes out of the trash; where that is not possible, nothing is touched,
and what is missing is said. It is a revision of its own, gated and rolled back
like an apply, and needs no approval.`,
		Example: `  rlminit rollback
  rlminit rollback 12 --steady 5s`,
		Args: atMost("REV"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				number, err := strconv.Atoi(args[0])
				if err != nil || number < 0 {
					return misused(cmd, "%q is no revision; write its number", args[0])
				}
				ask.Revision = &number
			}
			client, err := t.open()
			if err != nil {
				return err
			}
			ask.Request, ask.Gating = rand.Text(), g.gating()
			r, err := client.Rollback(cmd.Context(), ask)
			if err != nil {
				return err
			}
			return g.follow(cmd.Context(), t, client, r)
		},
	}
	g.flags(cmd, &ask.By)
	return cmd
}

// atMost allows as many arguments as have a name here.
func atMost(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > len(names) {
			return misused(cmd, "unexpected argument %q", args[len(names)])
		}
		return nil
	}
}
