package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/plan"
)

// propose has a plan wait for approval, with the values of its secrets.
func propose(ctx context.Context, t *terminal, p *plan.Plan, text, by string) error {
	secrets, err := secretsOf(p)
	if err != nil {
		return err
	}
	_, err = control.Plans{Client: t.open()}.Propose(ctx, control.ProposeRequest{Plan: text, By: by, Secrets: secrets})
	return err
}

func planProposedVerb(t *terminal) *cobra.Command {
	return lists(t, &cobra.Command{
		Use:   "proposed",
		Short: "list the plans that wait for approval",
		Long: `Lists the plans that rlminit plan --propose has left to be approved, the oldest
first. One is old if its starting point has changed since, and can then not be
applied any more. BY is the proposer, as given with --by, and the uid.`,
		Example: `  rlminit plan proposed
  rlminit apply --approve sha256:4f0c… --by "alice, in review 512"`,
		Args: exactly(),
	}, func(client *control.Client, ctx context.Context) ([]control.ProposedPlan, error) {
		return control.Plans{Client: client}.List(ctx)
	}, func(list []control.ProposedPlan) {
		var b table
		b.header("HASH", "PROPOSED", "GOOD UNTIL", "BY", "CHANGES", "SOURCE", "STATE")
		for _, p := range list {
			by, state := "uid "+strconv.FormatUint(uint64(p.UID), 10), cell{"current", green}
			if p.By != "" {
				by = p.By + " (" + by + ")"
			}
			if !p.Current {
				state = cell{"old: " + firstLine(p.Why), yellow}
			}
			b.row(p.Hash, p.At.UTC().Format(time.RFC3339), p.Expires.UTC().Format(time.RFC3339), by, summaryText(p.Summary), p.Source, state)
		}
		b.writeOr(t, "no plan waits for approval; rlminit plan -f FILE --propose makes one wait\n")
	})
}

// summaryText is a plan's effect, in a word or two.
func summaryText(s control.PlanSummary) string {
	var parts []string
	for _, of := range []struct {
		n    int
		what string
	}{{s.Create, "create"}, {s.Update, "change"}, {s.Start, "start"}, {s.Stop, "stop"}, {s.Delete, "delete"}} {
		if of.n > 0 {
			parts = append(parts, strconv.Itoa(of.n)+" "+of.what)
		}
	}
	return strings.Join(parts, ", ")
}

func planWithdrawVerb(t *terminal) *cobra.Command {
	by := ""
	cmd := &cobra.Command{
		Use:     "withdraw HASH",
		Short:   "take back a plan that waits for approval",
		Long:    `Takes a plan off the list of those that wait for approval. It is recorded.`,
		Example: `  rlminit plan withdraw sha256:4f0c… --by alice`,
		Args:    exactly("HASH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return control.Plans{Client: t.open()}.Withdraw(cmd.Context(), args[0], by)
		},
	}
	cmd.Flags().StringVar(&by, "by", "", "the person taking it back, a `NAME`; recorded beside the uid of the caller")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}
