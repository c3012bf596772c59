package verbs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/fleet/agent"
	"rlminit/fleet/store"
)

// drained is `fleet drain --json`.
type drained struct {
	Member  string   `json:"member"`
	Left    int      `json:"left"`              // profiles that it has yet
	Nowhere []string `json:"nowhere,omitempty"` // what it had and no member takes, and why
}

func drainVerb(o *options) *cobra.Command {
	var limit int
	var undo bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "drain [MEMBER]",
		Short: "move all profiles away from a member, and keep them away",
		Long: `Moves all profiles away from a member, --limit at a time, and waits until they run
elsewhere; exit code 8: no other member takes some of them. The member takes none until it
is told --undo. Without MEMBER it is the one of this container. Without data in the section
fleet a profile's files stay where it ran, so --without-data has to be given.`,
		Args: cobra.MaximumNArgs(1),
		RunE: o.asking(&timeout, func(cmd *cobra.Command, args []string, st *store.Store, v *agent.View) error {
			d := drained{Member: append(args, o.is.Member)[0]}
			_, live := v.Members[d.Member]
			_, is := v.Drains[d.Member]
			switch d.Left = v.Load[d.Member]; {
			case !live && !is && d.Left == 0:
				return exit(control.ExitNoSuchName, "there is no member %s; those that are there: %s. What a lost member had runs elsewhere once its lease is over: there is nothing to drain",
					d.Member, cmp.Or(strings.Join(slices.Sorted(maps.Keys(v.Members)), ", "), "none"))
			case undo && !is:
				return o.said(cmd, d, d.Member+" is not drained")
			case undo:
				return errors.Join(st.Undrain(cmd.Context(), d.Member), o.said(cmd, d, d.Member+" takes profiles again"))
			}
			if err := o.forbid(true, d.Member); err != nil {
				return err
			}
			err := d.drain(cmd.Context(), st, v, limit, timeout, screen{cmd.ErrOrStderr()})
			if err == nil || o.json {
				err = errors.Join(err, o.said(cmd, d, d.Member+" is drained: what it had runs elsewhere"))
			}
			return err
		}),
	}
	cmd.Flags().IntVar(&limit, "limit", 5, "how many go at a time, `N`")
	cmd.Flags().BoolVar(&undo, "undo", false, "let the member take profiles again")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "how long to wait; it goes on after that")
	o.leaving(cmd)
	return cmd
}

// drain waits until the member has none, and what it had runs elsewhere, or is taken by nobody.
func (d *drained) drain(ctx context.Context, st *store.Store, v *agent.View, limit int, timeout time.Duration, say screen) error {
	had, before := map[string]bool{}, -1
	d.pending(v, had) // some may be gone before the fleet is read again
	if err := st.Drain(ctx, d.Member, limit); err != nil {
		return fmt.Errorf("cannot drain %s: %w", d.Member, err)
	}
	err := until(ctx, st, timeout, "; it goes on", func(v *agent.View) (pending []string, _ error) {
		pending, d.Nowhere = d.pending(v, had)
		if d.Left = v.Load[d.Member]; d.Left != before {
			before = d.Left
			say.printf("profiles at %s: %d\n", d.Member, d.Left)
		}
		return pending, nil
	})
	if err == nil && len(d.Nowhere) > 0 {
		return exit(control.ExitUnhealthy, "%s is drained, and what it had does not all run: %s", d.Member, some(d.Nowhere))
	}
	return err
}

// pending is which profiles a member has yet, or ran there and do not run elsewhere; nowhere
// those of these that no member takes. had grows by those that run there.
func (d *drained) pending(v *agent.View, had map[string]bool) (pending, nowhere []string) {
	for name, o := range v.Owners {
		had[name] = had[name] || o.Member == d.Member && v.Runs(name)
	}
	for _, name := range slices.Sorted(maps.Keys(had)) {
		owner, owned := v.Owners[name]
		p, declared := v.Profiles[name]
		switch {
		case owner.Member == d.Member:
			pending = append(pending, name+" is there yet")
		case !had[name]: // it did not run there
		case !declared || p.Stopped || v.Runs(name):
		case !owned && !v.Taken(name):
			nowhere = append(nowhere, waits(v, name))
		default:
			pending = append(pending, waits(v, name))
		}
	}
	return pending, nowhere
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
		Long: `Moves a profile to a member, and waits until it runs there. A move to the member that
has the profile takes one to another member back that is not done. Without data in the
section fleet the profile's files stay where it ran, so --without-data has to be given.`,
		Args: cobra.ExactArgs(2),
		RunE: o.asking(&timeout, func(cmd *cobra.Command, args []string, st *store.Store, v *agent.View) error {
			m := moved{Profile: args[0], From: v.Owners[args[0]].Member, To: args[1]}
			p, declared := v.Profiles[m.Profile]
			_, pending := v.Moves[m.Profile]
			switch why := v.Why(m.To, m.Profile); {
			case !declared:
				return control.NoSuchProfile(m.Profile, slices.Sorted(maps.Keys(v.Profiles)))
			case p.Stopped:
				return control.Conflict("%s runs nowhere: it is declared with state: stopped; declare it with state: running first", m.Profile)
			case why != "":
				return control.Conflict("%s cannot move to %s: %s; see rlminit fleet members", m.Profile, m.To, why)
			case m.From == m.To && !pending && v.Runs(m.Profile):
				return o.said(cmd, m, m.Profile+" runs at "+m.To+" already")
			}
			if err := o.forbid(m.From != m.To, cmp.Or(m.From, "the member where it ran last")); err != nil {
				return err
			}
			if err := carry(cmd.Context(), st, []moved{m}, timeout, "; it goes on"); err != nil {
				return err
			}
			return o.said(cmd, m, m.Profile+" runs at "+m.To)
		}),
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "how long to wait; it goes on after that")
	o.leaving(cmd)
	return cmd
}

func rebalanceVerb(o *options) *cobra.Command {
	var limit int
	var dry bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "rebalance",
		Short: "move profiles to members that come first for them, as far as there is room",
		Long: `Moves profiles to members that come first for them and have room, --limit at a time, until
none would move again. A member that came back or is new gets its share in this way; by
itself nothing moves. What does not move within --timeout is taken back. Without data in
the section fleet a profile's files stay where it ran, so --without-data has to be given.`,
		Args: cobra.NoArgs,
		RunE: o.asking(&timeout, func(cmd *cobra.Command, _ []string, st *store.Store, v *agent.View) error {
			all := rebalanced(v, limit)
			if err := o.forbid(len(all) > 0 && !dry, "their members"); err != nil {
				return err
			}
			if err := o.write(cmd.OutOrStdout(), slices.Concat(append(all, []moved{})...), func(t *screen) {
				t.printf("PROFILE\tFROM\tTO\n")
				for _, m := range slices.Concat(all...) {
					t.printf("%s\t%s\t%s\n", m.Profile, m.From, m.To)
				}
			}); err != nil || dry {
				return err
			}
			for _, wave := range all {
				err := carry(cmd.Context(), st, wave, timeout, "; what has not moved is taken back")
				for _, m := range wave {
					if err == nil {
						o.errors.printf("%s runs at %s\n", m.Profile, m.To)
					} else {
						_ = st.Moved(context.WithoutCancel(cmd.Context()), m.Profile, 0) // what has failed counts
					}
				}
				if err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().IntVar(&limit, "limit", 5, "how many move at a time, `N`")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would move")
	cmd.Flags().DurationVar(&timeout, "timeout", 2*time.Minute, "how long each may take")
	o.leaving(cmd)
	return cmd
}

// leaving is the flag of a verb that moves profiles.
func (o *options) leaving(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.without, "without-data", false, "leave the profiles' files behind, where the section fleet has no data")
}

// forbid refuses a move that leaves files behind, since no data follows, unless --without-data
// was given. at is where they stay.
func (o *options) forbid(leaves bool, at string) error {
	if !leaves || o.without || o.is.Bucket != "" {
		return nil
	}
	return control.Conflict("what moves would leave its files at %s, since the section fleet has no data: set it (docs/fleet.md), or give --without-data if they may stay", at)
}

// carry moves profiles at once, and waits for all of them.
func carry(ctx context.Context, st *store.Store, all []moved, timeout time.Duration, last string) error {
	for _, m := range all {
		if err := st.Move(ctx, m.Profile, m.To); err != nil {
			return fmt.Errorf("cannot move %s: %w", m.Profile, err)
		}
	}
	return until(ctx, st, timeout, last, func(v *agent.View) (pending []string, _ error) {
		for _, m := range all {
			_, asked := v.Moves[m.Profile]
			switch there := v.Owners[m.Profile].Member == m.To; {
			case there && v.Runs(m.Profile) && (m.From != m.To || !asked):
			case !asked && !there:
				return nil, exit(control.ExitUnhealthy, "%s cannot be started at %s: %s", m.Profile, m.To, cmp.Or(v.Backoffs[m.Profile].Text, "its move was taken back"))
			default:
				pending = append(pending, waits(v, m.Profile))
			}
		}
		return pending, nil
	})
}
