package verbs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/fleet/status"
)

func statusVerb(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "status [NAME…]",
		Short: "show where each profile runs",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, names []string) error {
			st, v, err := o.view(cmd.Context())
			if err != nil {
				return err
			}
			defer st.Close()
			all := status.Profiles(v)
			if len(names) > 0 {
				for _, name := range names {
					if _, ok := v.Profiles[name]; !ok {
						return control.NoSuchProfile(name, slices.Sorted(maps.Keys(v.Profiles)))
					}
				}
				all = slices.DeleteFunc(all, func(s status.Profile) bool { return !slices.Contains(names, s.Name) })
			}
			return o.write(cmd.OutOrStdout(), all, func(t *tabwriter.Writer) {
				fmt.Fprintln(t, "PROFILE\tSTATE\tMEMBER\tFENCE\tWHY")
				for _, s := range all {
					fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", s.Name, s.State, cmp.Or(s.Owner, "-"), number(s.Fence), s.Why)
				}
			})
		},
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, v, err := o.view(cmd.Context())
			if err != nil {
				return err
			}
			defer st.Close()
			all := status.Members(v)
			return o.write(cmd.OutOrStdout(), all, func(t *tabwriter.Writer) {
				fmt.Fprintln(t, "MEMBER\tSTATE\tPROFILES\tWEIGHT\tCAPACITY\tLABELS")
				for _, m := range all {
					var labels []string
					for _, k := range slices.Sorted(maps.Keys(m.Labels)) {
						labels = append(labels, k+"="+m.Labels[k])
					}
					fmt.Fprintf(t, "%s\t%s\t%d\t%g\t%s\t%s\n", m.Name, m.State, m.Profiles, m.Weight, number(int64(m.Capacity)), cmp.Or(strings.Join(labels, ","), "-"))
				}
			})
		},
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
		RunE: func(cmd *cobra.Command, args []string) error {
			st, v, err := o.view(cmd.Context())
			if err != nil {
				return err
			}
			defer st.Close()
			name := args[0]
			_, declared := v.Profiles[name]
			if _, owned := v.Owners[name]; !declared && !owned {
				return control.NoSuchProfile(name, slices.Sorted(maps.Keys(v.Profiles)))
			}
			e := explanation{Profile: status.Profile{Name: name}, Declared: declared, Order: v.Place(name), Refuse: []string{}}
			for _, s := range status.Profiles(v) {
				if s.Name == name {
					e.Profile = s
				}
			}
			for _, m := range slices.Sorted(maps.Keys(v.Members)) {
				if why := v.Why(m, name); why != "" {
					e.Refuse = append(e.Refuse, m+": "+why)
				}
			}
			return o.write(cmd.OutOrStdout(), e, e.table)
		},
	}
}

func (e explanation) table(t *tabwriter.Writer) {
	switch {
	case !e.Declared:
		fmt.Fprintf(t, "%s is not declared; whoever has it is to stop it\n", e.Name)
	case e.Owner != "":
		fmt.Fprintf(t, "%s is owned by %s under fence %d; it stays there until a drain or a move\n", e.Name, e.Owner, e.Fence)
	default:
		fmt.Fprintf(t, "%s is %s\n", e.Name, e.State)
	}
	if e.Why != "" {
		fmt.Fprintln(t, e.Why)
	}
	if len(e.Order) > 0 {
		fmt.Fprintln(t, "members that take it, the next one first: "+strings.Join(e.Order, ", "))
	}
	for _, r := range e.Refuse {
		fmt.Fprintln(t, "does not take it: "+r)
	}
}
