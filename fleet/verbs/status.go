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
	"rlminit/fleet/agent"
)

// profileStatus is one element of `fleet status --json`.
type profileStatus struct {
	Name   string `json:"name"`
	State  string `json:"state"`           // running, starting, waiting, stopped
	Owner  string `json:"owner,omitempty"` // the member
	Fence  int64  `json:"fence,omitempty"`
	MoveTo string `json:"move_to,omitempty"`
	Failed int    `json:"failed,omitempty"` // how often in a row it could not be started
	Why    string `json:"why,omitempty"`
}

// memberStatus is one element of `fleet members --json`.
type memberStatus struct {
	Name     string            `json:"name"`
	State    string            `json:"state"` // live, drained, gone
	Profiles int               `json:"profiles"`
	Weight   float64           `json:"weight"`
	Capacity int               `json:"capacity,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Version  string            `json:"version,omitempty"`
}

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
			all := statuses(v)
			if len(names) > 0 {
				for _, name := range names {
					if _, ok := v.Profiles[name]; !ok {
						return control.NoSuchProfile(name, slices.Sorted(maps.Keys(v.Profiles)))
					}
				}
				all = slices.DeleteFunc(all, func(s profileStatus) bool { return !slices.Contains(names, s.Name) })
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

func statuses(v *agent.View) []profileStatus {
	all := []profileStatus{}
	for _, name := range slices.Sorted(maps.Keys(v.Profiles)) {
		s := profileStatus{Name: name, State: "waiting", MoveTo: v.Moves[name].To, Failed: v.Backoffs[name].Count}
		owner, owned := v.Owners[name]
		switch {
		case owned:
			s.State, s.Owner, s.Fence = "starting", owner.Member, owner.Fence
			if v.Runs(name) {
				s.State = "running"
			}
		case v.Profiles[name].Stopped:
			s.State = "stopped"
		}
		s.Why = strings.Join(reasons(v, name), "; ")
		all = append(all, s)
	}
	return all
}

// reasons is what is to be said of a profile that is not as it should be.
func reasons(v *agent.View, name string) (out []string) {
	p := v.Profiles[name]
	owner, owned := v.Owners[name]
	if to, ok := v.Moves[name]; ok && to.To != owner.Member {
		if why := v.Why(to.To, name); why != "" {
			out = append(out, fmt.Sprintf("it cannot move to %s: %s", to.To, why))
		} else {
			out = append(out, "it moves to "+to.To)
		}
	}
	if b, ok := v.Backoffs[name]; ok {
		out = append(out, fmt.Sprintf("it could not be started at %s (%d in a row): %s", b.Member, b.Count, b.Text))
	}
	switch {
	case owned && p.Stopped:
		out = append(out, "it is being stopped")
	case !owned && !p.Stopped:
		if order := v.Place(name); len(order) == 0 {
			out = append(out, "no member takes it")
		} else {
			out = append(out, "the next to claim it is "+order[0])
		}
	}
	return out
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
			all := membersOf(v)
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

// membersOf is all members that are there, drained, or have claims yet.
func membersOf(v *agent.View) []memberStatus {
	names := map[string]bool{}
	for name := range v.Members {
		names[name] = true
	}
	for name := range v.Drains {
		names[name] = true
	}
	for name := range v.Load {
		names[name] = true
	}
	all := []memberStatus{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		m, live := v.Members[name]
		s := memberStatus{Name: name, State: "live", Profiles: v.Load[name], Weight: m.Weight, Capacity: m.Capacity, Labels: m.Labels, Version: m.Version}
		_, drained := v.Drains[name]
		switch {
		case !live:
			s.State = "gone"
		case drained:
			s.State = "drained"
		}
		all = append(all, s)
	}
	return all
}

// explanation is `fleet why --json`.
type explanation struct {
	profileStatus
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
			e := explanation{profileStatus: profileStatus{Name: name}, Declared: declared, Order: v.Place(name), Refuse: []string{}}
			for _, s := range statuses(v) {
				if s.Name == name {
					e.profileStatus = s
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
