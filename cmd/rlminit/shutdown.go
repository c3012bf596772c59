package main

import (
	"github.com/spf13/cobra"

	"rlminit/control"
)

func shutdownVerb(_ *terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "shutdown",
		Short: "stop the container",
		Long: `Stops all services in order within the container's stop budget, and then the
container. Desired states stay: what runs now runs again at the next start.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client := control.Open()
			return client.Shutdown(cmd.Context())
		},
	}
}
