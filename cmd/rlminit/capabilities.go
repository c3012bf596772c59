package main

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func capabilitiesVerb(t *terminal) *cobra.Command {
	return formatted(t, forPrograms(t, &cobra.Command{
		Use:   "capabilities",
		Short: "say which isolation, limits and guards can be enforced here",
		Args:  exactly(),
		RunE: t.asking(func(cmd *cobra.Command, _ []string, client *control.Client) error {
			c, err := client.Capabilities(cmd.Context())
			if err != nil {
				return err
			}
			b := new(table)
			b.header("WHAT", "ENFORCED", "WHY NOT, OR HOW FAR")
			b.row("tags", enforced(control.Enforced{Enforced: c.Tags}), "")
			b.row("profile users", enforced(c.ProfileUsers), c.ProfileUsers.Why)
			for _, list := range []struct {
				name string
				what map[string]control.Enforced
			}{{"isolation ", c.Isolations}, {"service limit ", c.ServiceLimits}, {"job limit ", c.Limits}, {"job guard ", c.Guards}} {
				for _, name := range slices.Sorted(maps.Keys(list.what)) {
					b.row(list.name+name, enforced(list.what[name]), list.what[name].Why)
				}
			}
			return answer(t, c, func() { b.write(t) })
		}),
	}, "write a JSON object"))
}

func enforced(e control.Enforced) cell {
	if e.Enforced {
		return cell{"yes", green}
	}
	return cell{"no", faint}
}
