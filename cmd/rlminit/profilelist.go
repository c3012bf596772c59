package main

import (
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/service"
)

func profileListVerb(t *terminal) *cobra.Command {
	var trash bool
	var kind string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list the profiles",
		Args:  exactly(),
		RunE: t.asking(func(cmd *cobra.Command, _ []string, client *control.Client) error {
			if trash {
				return listTrash(cmd.Context(), t, client)
			}
			profiles, err := client.Profiles(cmd.Context())
			if err != nil {
				return err
			}
			if kind != "" {
				profiles = slices.DeleteFunc(profiles, func(p control.Profile) bool { return p.Kind != kind })
			}
			return answer(t, profiles, func() {
				b, header := new(table), []string{"NAME", "STATE", "DESIRED", "PORT", "DIR"}
				kinds := slices.ContainsFunc(profiles, func(p control.Profile) bool { return p.Kind != service.DefaultKind })
				if kinds {
					header = append(header, "KIND")
				}
				b.header(header...)
				for _, p := range profiles {
					b.row([]any{p.Name, cell{p.State, stateColour(p.State)}, p.Desired, number(p.Port), p.Dir, p.Kind}[:len(header)]...)
				}
				b.writeOr(t, "no profile yet; rlminit profile create NAME makes one\n")
			})
		}),
	}
	cmd.Flags().StringVar(&kind, "kind", "", "only those of this `KIND`")
	cmd.Flags().BoolVar(&trash, "trash", false, "those that were deleted and can be restored")
	return formatted(t, forPrograms(t, cmd, "write a JSON array"))
}

// listTrash prints what rlminit profile restore can take back.
func listTrash(ctx context.Context, t *terminal, client *control.Client) error {
	list, err := client.Trash().List(ctx)
	if err != nil {
		return err
	}
	return answer(t, list, func() {
		b, columns := new(table), []string{"NAME", "DELETED", "ENTRY"}
		if slices.ContainsFunc(list, func(e control.Trashed) bool { return e.Revision != 0 }) {
			columns = append(columns, "KEPT FOR")
		}
		b.header(columns...)
		for _, e := range list {
			kept := ""
			if e.Needed {
				kept = "a rollback of revision " + strconv.Itoa(e.Revision)
			}
			b.row([]any{e.Profile, trashTime(e.At), e.Entry, kept}[:len(columns)]...)
		}
		b.writeOr(t, "nothing is in the trash\n")
	})
}
