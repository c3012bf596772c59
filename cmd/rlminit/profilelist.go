package main

import (
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func profileListVerb(t *terminal) *cobra.Command {
	var asJSON, trash bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list the profiles",
		Args:  exactly(),
		RunE: t.asking(func(cmd *cobra.Command, _ []string, client *control.Client) error {
			if trash {
				return listTrash(cmd.Context(), t, client, asJSON)
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
				b.row(p.Name, cell{p.State, stateColour(p.State)},
					p.Desired, number(p.Port), p.Dir)
			}
			b.write(t)
			return nil
		}),
	}
	cmd.Flags().BoolVar(&trash, "trash", false, "those that were deleted and can be restored")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write a JSON array")
	return cmd
}

// listTrash prints what rlminit profile restore can take back.
func listTrash(ctx context.Context, t *terminal, client *control.Client, asJSON bool) error {
	list, err := client.Trash().List(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return t.printJSON(list)
	}
	b := new(table)
	byRevision := slices.ContainsFunc(list, func(e control.Trashed) bool { return e.Revision != 0 })
	columns := []string{"NAME", "DELETED", "ENTRY"}
	if byRevision {
		columns = append(columns, "KEPT FOR")
	}
	b.header(columns...)
	for _, e := range list {
		row := []any{e.Profile, trashTime(e.At), e.Entry}
		if e.Needed {
			row = append(row, "a rollback of revision "+strconv.Itoa(e.Revision))
		} else if byRevision {
			row = append(row, "")
		}
		b.row(row...)
	}
	if len(list) == 0 {
		t.printf("nothing is in the trash\n")
		return nil
	}
	b.write(t)
	return nil
}
