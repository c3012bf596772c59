package main

import (
	"crypto/rand"
	"strconv"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/internal/document"
	"rlminit/plan"
)

func rollbackVerb(t *terminal) *cobra.Command {
	var g gating
	ask := control.RollbackRequest{}
	cmd := &cobra.Command{
		Use:   "rollback [REV]",
		Short: "put back what an applied revision has changed",
		Long: `Without REV, undoes the last applied revision: definitions, environment, secrets
and desired states are again as before it. With REV, undoes all revisions after
REV; 0 is the state before the first. If the last revision was rolled back by
itself, REV is needed: the exit code is 17, and a line names the revisions. A
deleted profile is taken out of the trash; if that is not possible, nothing is
changed, and the error names what is missing. A profile that was created is moved
to the trash, which needs --allow-delete. The answer names each secret that comes
back. If one was forgotten (rlminit profile secret forget), the rollback is
refused, with 17, and names it; --keep-secrets leaves all secrets as they are. A
rollback is a revision itself: it is gated and rolled back like an apply, and
needs no approval. --dry-run shows its plan and begins nothing; with --json the
plan is as rlminit plan writes it.`,
		Example: `  rlminit rollback --dry-run
  rlminit rollback --allow-delete
  rlminit rollback 12 --steady 5s`,
		Args: between(0, 1, "REV"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				number, err := strconv.Atoi(args[0])
				if err != nil || number < 0 {
					return misused(cmd, "%q is no revision; write its number", args[0])
				}
				ask.Revision = &number
			}
			client := t.open()
			ask.Request, ask.Gating = rand.Text(), g.gating()
			r, err := client.Rollback(cmd.Context(), ask)
			if err != nil {
				return err
			}
			if ask.DryRun {
				return tellRollback(t, r)
			}
			return g.follow(cmd.Context(), t, client, r)
		},
	}
	g.flags(t, cmd, &ask.By)
	cmd.Flags().BoolVar(&ask.AllowDelete, "allow-delete", false, "it may delete profiles")
	cmd.Flags().BoolVar(&ask.KeepSecrets, "keep-secrets", false, "leave secrets as they are")
	cmd.Flags().BoolVar(&ask.DryRun, "dry-run", false, "only show what it would change")
	return cmd
}

// tellRollback prints the plan of a rollback that was not begun.
func tellRollback(t *terminal, r control.Revision) error {
	if t.json {
		t.printf("%s\n", document.Harmless([]byte(r.Plan)))
		return nil
	}
	p, err := plan.Read([]byte(r.Plan))
	if err != nil {
		return control.Failed("cannot read the plan of the rollback: %v", err)
	}
	if p.Empty() {
		t.printf("nothing to change: all is as it was after revision %d\n", r.Revision)
	}
	tellChanges(t, p)
	for _, left := range r.Left {
		t.printf("  %s\n", printable(left))
	}
	if n := len(p.Deletes()); n > 0 {
		t.printf("it deletes %s: rlminit rollback needs --allow-delete\n", counted(n, "profile", "profiles"))
	}
	return nil
}
