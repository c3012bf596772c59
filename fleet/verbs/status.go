package verbs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/fleet/agent"
	"rlminit/fleet/status"
	"rlminit/fleet/store"
)

func statusVerb(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "status [NAME…]",
		Short: "show where each profile runs",
		Args:  cobra.ArbitraryArgs,
		RunE: o.asking(&patience, func(cmd *cobra.Command, names []string, _ *store.Store, v *agent.View) error {
			all := status.Profiles(v)
			for _, name := range names {
				if _, ok := v.Profiles[name]; !ok {
					return control.NoSuchProfile(name, slices.Sorted(maps.Keys(v.Profiles)))
				}
			}
			all = slices.DeleteFunc(all, func(s status.Profile) bool { return len(names) > 0 && !slices.Contains(names, s.Name) })
			return o.write(cmd.OutOrStdout(), all, func(t *screen) {
				t.printf("PROFILE\tSTATE\tMEMBER\tFENCE\tWHY\n")
				for _, s := range all {
					t.printf("%s\t%s\t%s\t%s\t%.160s\n", s.Name, s.State, cmp.Or(s.Owner, "-"), number(s.Fence), s.Why)
				}
			})
		}),
	}
}

func number(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func membersVerb(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "members",
		Short: "list the members, and how many profiles each has",
		Args:  cobra.NoArgs,
		RunE: o.asking(&patience, func(cmd *cobra.Command, _ []string, _ *store.Store, v *agent.View) error {
			all := status.Members(v)
			return o.write(cmd.OutOrStdout(), all, func(t *screen) {
				t.printf("MEMBER\tSTATE\tPROFILES\tWEIGHT\tCAPACITY\tLABELS\n")
				for _, m := range all {
					var labels []string
					for _, k := range slices.Sorted(maps.Keys(m.Labels)) {
						labels = append(labels, k+"="+m.Labels[k])
					}
					t.printf("%s\t%s\t%d\t%g\t%s\t%s\n", m.Name, m.State, m.Profiles, m.Weight, number(int64(m.Capacity)), cmp.Or(strings.Join(labels, ","), "-"))
				}
			})
		}),
	}
}

// explanation is `fleet why --json`.
type explanation struct {
	status.Profile
	Declared bool     `json:"declared"`
	Order    []string `json:"order"`   // the members that take it, the next one first
	Refuse   []string `json:"refuses"` // the others, and why
}

func whyVerb(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "why NAME",
		Short: "say why a profile is where it is, and who would take it",
		Args:  cobra.ExactArgs(1),
		RunE: o.asking(&patience, func(cmd *cobra.Command, args []string, _ *store.Store, v *agent.View) error {
			name := args[0]
			_, declared := v.Profiles[name]
			if _, owned := v.Owners[name]; !declared && !owned {
				return control.NoSuchProfile(name, slices.Sorted(maps.Keys(v.Profiles)))
			}
			e := explanation{Profile: status.Of(v, name), Declared: declared, Order: []string{}, Refuse: []string{}}
			if declared && !v.Profiles[name].Stopped { // nobody takes it otherwise
				e.Order, e.Refuse = append(e.Order, v.Place(name)...), append(e.Refuse, status.Refusals(v, name)...)
			}
			return o.write(cmd.OutOrStdout(), e, e.table)
		}),
	}
}

func (e explanation) table(t *screen) {
	switch {
	case !e.Declared:
		t.printf("%s is not declared; whoever has it is to stop it\n", e.Name)
	case e.Owner != "":
		t.printf("%s is owned by %s under fence %d; it stays there until a drain or a move\n", e.Name, e.Owner, e.Fence)
	default:
		t.printf("%s is %s\n", e.Name, e.State)
	}
	if e.Why != "" {
		t.println(e.Why)
	}
	if len(e.Order) > 0 {
		t.println("members that take it, the next one first: " + strings.Join(e.Order, ", "))
	}
	for _, r := range e.Refuse {
		t.println("does not take it: " + r)
	}
}
