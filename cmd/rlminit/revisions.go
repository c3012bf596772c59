package main

import (
	"cmp"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func revisionsVerb(t *terminal) *cobra.Command {
	return lists(t, &cobra.Command{
		Use:   "revisions",
		Short: "list the plans that were applied, and what became of them",
		Long: `Lists every revision, the oldest first: applied, rolled-back, or partly, where a
person must act; running or rolling-back while it is under way. BY is the
approver as given with --by, and the uid of the caller. After the number of a
revision of one profile's values stands "single": rlminit rollback without a
number passes over it.`,
		Args: exactly(),
	}, (*control.Client).Revisions, func(list []control.Revision) {
		var b table
		b.header("REVISION", "STATE", "BEGUN", "BY", "CHANGES", "SOURCE", "REASON")
		for _, r := range list {
			by := "uid " + strconv.FormatUint(uint64(r.UID), 10)
			if r.By != "" {
				by = r.By + " (" + by + ")"
			}
			number := strconv.Itoa(r.Revision)
			if r.Single {
				number += " single"
			}
			b.row(number, cell{r.State, revisionColour(r.State)}, r.At.UTC().Format(time.RFC3339),
				by, len(r.Steps), r.Source, firstLine(cmp.Or(r.Held, r.Reason)))
		}
		b.writeOr(t, "nothing was applied yet; rlminit plan -f FILE is the beginning\n")
	})
}

func revisionColour(state string) string {
	switch state {
	case control.RevisionApplied:
		return green
	case control.RevisionPartly:
		return red
	}
	return yellow
}
