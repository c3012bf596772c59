package main

import (
	"github.com/spf13/cobra"

	"rlminit/control"
)

func driftVerb(t *terminal) *cobra.Command {
	return formatted(t, forPrograms(t, &cobra.Command{
		Use:   "drift",
		Short: "show differences from the last revision",
		Long: `Compares the result of the applied revisions with what exists now, and shows
what somebody has changed, stopped, created or deleted by hand since, and what
has failed. For each value it shows the present and the applied one. The exit
code is 14 if something differs, 0 if nothing does, or nothing was applied yet.`,
		Args: exactly(),
		RunE: t.asking(func(cmd *cobra.Command, _ []string, client *control.Client) error {
			d, err := client.Drift(cmd.Context())
			if err != nil {
				return err
			}
			switch {
			case t.json:
				err = t.printJSON(d)
			case d.Revision == 0:
				t.printf("nothing was applied yet\n")
			case len(d.Changes) == 0:
				t.printf("all is as it was applied (revision %d)\n", d.Revision)
			default:
				tellDrift(t, d)
			}
			if err == nil && len(d.Changes) > 0 {
				err = exitStatus(control.ExitPending)
			}
			return err
		}),
	}, "write JSON"))
}

func tellDrift(t *terminal, d control.Drift) {
	for _, c := range d.Changes {
		mark, colour := markOf(c.Action)
		t.printf("%s %s: differs from revision %d and would be %s; %s\n", t.paint(colour, mark), t.paint(bold, c.Name), c.Revision, done(c.Action), printable(c.Reason))
		for _, f := range c.Fields {
			mark := "~"
			switch {
			case f.Is == nil:
				mark = "+"
			case f.Was == nil:
				mark = "-"
			}
			tellField(t, mark, f.Field, f.Is, f.Was)
		}
	}
}

// done is an action as something that was done.
func done(action string) string {
	return stepText(control.RevisionStep{Action: action, State: "passed"})
}
