package main

import (
	"slices"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func reloadVerb(t *terminal) *cobra.Command {
	var dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "reload [NAME…]",
		Short: "read definitions again, and apply what changed",
		Long: `Reads the gateway template, services and profiles again: a profile.yaml or a
configuration that was changed by hand is taken up here. Only what changed is
touched, and restarted only if the change needs it. What needs a new container
(user, home, main, the privilege policy, what is done before anything starts)
stays as it is, and is named; so is a changed environment of all services, which
each of them has from its next start on. A definition with a fault is refused,
and the exit code is 1. A configuration with a fault, or with a service that has
a profile's name, changes nothing. With NAME it is for these alone, and
the others keep what they have until they are reloaded.`,
		Example: `  rlminit reload --dry-run
  rlminit reload alice`,
		ValidArgsFunction: completeServices,
		RunE: func(cmd *cobra.Command, names []string) error {
			client, err := t.open()
			if err != nil {
				return err
			}
			done, err := client.Reload(cmd.Context(), control.Reload{Names: once(names), DryRun: dryRun})
			if err != nil {
				return err
			}
			if asJSON {
				err = t.printJSON(done)
			} else {
				tellReload(t, done)
			}
			if err == nil && slices.ContainsFunc(done.Changes, control.Change.Refused) {
				err = exitStatus(control.ExitFailed)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done, and do nothing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

func tellReload(t *terminal, done control.Reloaded) {
	for _, change := range done.Changes {
		t.printf("%s: %s", printable(shortService(change.Service)), printable(change.Action))
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
}
