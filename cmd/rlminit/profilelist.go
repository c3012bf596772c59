package main

import (
	"github.com/spf13/cobra"
)

func profileListVerb(t *terminal) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list the profiles",
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := t.open()
			if err != nil {
				return err
			}
			profiles, err := client.Profiles(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return t.printJSON(profiles)
			}
			if len(profiles) == 0 {
				t.printf("no profile yet; rlminit profile create NAME makes one\n")
				return nil
			}
			b := new(table)
			b.header("NAME", "STATE", "DESIRED", "PORT", "DIR")
			for _, p := range profiles {
				b.row(cell{text: printable(p.Name)}, cell{p.State, stateColour(p.State)},
					cell{text: p.Desired}, cell{text: number(p.Port)}, cell{text: printable(p.Dir)})
			}
			b.write(t)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write a JSON array")
	return cmd
}
