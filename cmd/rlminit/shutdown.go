package main

import (
	"github.com/spf13/cobra"

	"rlminit/control"
)

func shutdownVerb(_ *terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "shutdown",
		Short: "stop the container",
		Long: `Stops everything in order within the container's stop budget, and then the
container. No intent is changed: what runs now runs again at the next start.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client := control.Open()
			return client.Shutdown(cmd.Context())
		},
	}
}
