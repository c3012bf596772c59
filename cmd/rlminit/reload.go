package main

import (
	"github.com/spf13/cobra"

	"rlminit/control"
)

func reloadVerb(t *terminal) *cobra.Command {
	var dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "reload [NAME…]",
		Short: "read definitions again, and apply what changed",
		Long: `Reads the gateway template, services and profiles again. Only what changed is
touched, and restarted only if the change needs it. What needs a new container
(user, home, main, the privilege policy) is named.`,
		Example: `  rlminit reload --dry-run
  rlminit reload alice`,
		ValidArgsFunction: completeServices,
		RunE: func(cmd *cobra.Command, names []string) error {
			client, err := control.Open()
			if err != nil {
				return err
			}
			done, err := client.Reload(cmd.Context(), control.Reload{Names: once(names), DryRun: dryRun})
			if err != nil {
				return err
			}
			if asJSON {
				return t.printJSON(done)
			}
			for _, change := range done.Changes {
				t.printf("%s: %s", printable(change.Service), change.Action)
				if change.Why != "" {
					t.printf(": %s", printable(change.Why))
				}
				t.printf("\n")
			}
			for _, note := range done.Notes {
				t.printf("note: %s\n", printable(note))
			}
			if len(done.Changes)+len(done.Notes) == 0 {
				t.printf("nothing has changed\n")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done, and do nothing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}
