package verbs

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/fleet/agent"
	"rlminit/fleet/store"
)

// drained is `fleet drain --json`.
type drained struct {
	Member string `json:"member"`
	Left   int    `json:"left"` // profiles that it has yet
}

func drainVerb(o *options) *cobra.Command {
	var limit int
	var undo bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "drain [MEMBER]",
		Short: "move all profiles away from a member, and keep them away",
		Long: `Moves all profiles away from a member, --limit at a time, and waits until none is left.
The member takes none until it is told --undo. Without MEMBER it is the one of this
container.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			st, s, err := o.open(ctx)
			if err != nil {
				return err
			}
			defer st.Close()
			d := drained{Member: hostname(s)}
			if len(args) > 0 {
				d.Member = args[0]
			}
			if undo {
				return st.Undrain(ctx, d.Member)
			}
			v, err := read(ctx, st)
			if err != nil {
				return err
			}
			if _, live := v.Members[d.Member]; !live && v.Load[d.Member] == 0 {
				return control.NoneOf("no member", d.Member, slices.Sorted(maps.Keys(v.Members)), "see rlminit fleet members")
			}
			if err := st.Drain(ctx, d.Member, limit); err != nil {
				return err
			}
			before := -1
			err = until(ctx, st, timeout, func(v *agent.View) (bool, error) {
				if d.Left = v.Load[d.Member]; d.Left != before {
					before = d.Left
					fmt.Fprintf(cmd.ErrOrStderr(), "%s has %d profiles\n", d.Member, d.Left)
				}
				return d.Left == 0, nil
			})
			if o.json {
				_ = o.write(cmd.OutOrStdout(), d, nil)
			}
			return err
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 5, "how many go at a time, `N`")
	cmd.Flags().BoolVar(&undo, "undo", false, "let the member take profiles again")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait; it goes on after that")
	return cmd
}

// moved is one element of `fleet move --json` and `fleet rebalance --json`.
type moved struct {
	Profile string `json:"profile"`
	From    string `json:"from"`
	To      string `json:"to"`
}

func moveVerb(o *options) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "move NAME MEMBER",
		Short: "move a profile to a member, and wait until it runs there",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, v, err := o.view(cmd.Context())
			if err != nil {
				return err
			}
			defer st.Close()
			m := moved{Profile: args[0], From: v.Owners[args[0]].Member, To: args[1]}
			if _, ok := v.Profiles[m.Profile]; !ok {
				return control.NoSuchProfile(m.Profile, slices.Sorted(maps.Keys(v.Profiles)))
			}
			if why := v.Why(m.To, m.Profile); why != "" {
				return control.Conflict("%s cannot move to %s: %s; see rlminit fleet members", m.Profile, m.To, why)
			}
			if m.From != m.To || !v.Runs(m.Profile) {
				if err := carry(cmd.Context(), st, []moved{m}, 1, timeout, cmd.ErrOrStderr()); err != nil {
					return err
				}
			}
			if o.json {
				return o.write(cmd.OutOrStdout(), m, nil)
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "how long to wait; it goes on after that")
	return cmd
}

func rebalanceVerb(o *options) *cobra.Command {
	var limit int
	var dry bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "rebalance",
		Short: "move profiles to where they would be if all were placed anew",
		Long: `Moves profiles to where they would be if all were placed anew, --limit at a time. A
member that came back or is new gets its share in this way; by itself nothing moves.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, v, err := o.view(cmd.Context())
			if err != nil {
				return err
			}
			defer st.Close()
			all := misplaced(v)
			if err := o.write(cmd.OutOrStdout(), all, func(t *tabwriter.Writer) {
				fmt.Fprintln(t, "PROFILE\tFROM\tTO")
				for _, m := range all {
					fmt.Fprintf(t, "%s\t%s\t%s\n", m.Profile, m.From, m.To)
				}
			}); err != nil || dry {
				return err
			}
			return carry(cmd.Context(), st, all, limit, timeout, cmd.ErrOrStderr())
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 5, "how many move at a time, `N`")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would move")
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "how long each may take")
	return cmd
}

// misplaced is all profiles that would be elsewhere if all were placed anew.
func misplaced(v *agent.View) []moved {
	all := []moved{}
	for _, name := range slices.Sorted(maps.Keys(v.Owners)) {
		owner := v.Owners[name].Member
		_, moves := v.Moves[name]
		if order := v.Place(name); !moves && len(order) > 0 && order[0] != owner {
			all = append(all, moved{Profile: name, From: owner, To: order[0]})
		}
	}
	return all
}

// carry moves profiles, limit at a time, and waits for each.
func carry(ctx context.Context, st *store.Store, all []moved, limit int, timeout time.Duration, say io.Writer) error {
	for some := range slices.Chunk(all, max(limit, 1)) {
		for _, m := range some {
			if err := st.Move(ctx, m.Profile, m.To); err != nil {
				return err
			}
		}
		err := until(ctx, st, timeout, func(v *agent.View) (bool, error) {
			for _, m := range some {
				_, asked := v.Moves[m.Profile]
				switch there := v.Owners[m.Profile].Member == m.To; {
				case there && v.Runs(m.Profile):
				case !asked && !there:
					return false, exit(control.ExitUnhealthy, "%s cannot be started at %s: %s", m.Profile, m.To, v.Backoffs[m.Profile].Text)
				default:
					return false, nil
				}
			}
			return true, nil
		})
		if err != nil {
			return err
		}
		for _, m := range some {
			fmt.Fprintf(say, "%s runs at %s\n", m.Profile, m.To)
		}
	}
	return nil
}
