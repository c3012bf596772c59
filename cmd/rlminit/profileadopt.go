package main

import (
	"context"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func profileAdoptVerb(t *terminal) *cobra.Command {
	o := &operation{verb: "start"}
	cmd := &cobra.Command{
		Use:   "adopt NAME",
		Short: "make the desired state in a profile's state file the recorded one",
		Long: `The journal holds the desired state of a profile; gateway_state.json in its
directory is a copy, which the next change of state overwrites. Use this verb if
you have changed that file by hand on purpose: its desired_state is recorded,
and the gateway is started or stopped. Edit the file while the gateway does not
change its state.`,
		Example:           `  rlminit profile adopt alice`,
		Args:              exactly("NAME"),
		ValidArgsFunction: completeProfiles,
		RunE: t.asking(func(cmd *cobra.Command, args []string, client *control.Client) error {
			return o.attempt(cmd.Context(), t, args[0], false, func(ctx context.Context, wait *control.Wait) (control.Outcome, error) {
				return client.AdoptProfile(ctx, args[0], control.AdoptProfile{Wait: wait})
			}).end()
		}),
	}
	o.waitFlags(t, cmd)
	return cmd
}
