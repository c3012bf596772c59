package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func profileRepairVerb(t *terminal) *cobra.Command {
	all := false
	cmd := limited(forPrograms(t, &cobra.Command{
		Use:   "repair NAME…",
		Short: "give the files of profiles to the right owner",
		Long: `Changes the owner of files in a profile's directory that are root's, such as
files that somebody wrote with docker exec, to the owner of that directory: the
profile's own user (user: auto), or the service user. PID 1 does it by
descriptor, follows no link, and crosses no mount. Files with several hard links
are left alone and named, for another name may lie elsewhere. So are files that
are neither root's nor the service user's. A gateway that should run and failed
because of this is started.

A directory that is root's itself is given to the service user if root asks,
and so is the one that holds the profiles: as after a volume was restored without
its owners. A directory that is mounted there is left alone. --all does all of
this for every profile.

Each start of the container does the same, for up to 10,000 files of a profile
and one second in all, and logs which profiles it has not finished. With own:
{path: ., deep: true} it does all of them.`,
		Example: `  rlminit profile repair alice`,
		Args: func(cmd *cobra.Command, args []string) error {
			if all {
				return exactly()(cmd, args)
			}
			return atLeast("NAME")(cmd, args)
		},
		ValidArgsFunction: completeMoreProfiles,
		RunE: t.asking(func(cmd *cobra.Command, args []string, client *control.Client) error {
			if all {
				args = []string{control.AllProfiles}
			}
			return forEach(t, once(args), func(name string) answered {
				did, err := control.Repair(cmd.Context(), client, name)
				return answered{err: err, tell: func() error {
					return answer(t, did, func() {
						if all {
							did.Profile = "all profiles"
						}
						t.printf("%s: %s\n", printable(did.Profile), repairedText(did))
					})
				}}
			})
		}),
	}, "write a JSON object for each"))
	cmd.Flags().BoolVar(&all, "all", false, "repair every profile; only root may")
	return cmd
}

func repairedText(did control.Repaired) string {
	text := "nothing to put right"
	if did.Changed > 0 {
		text = fmt.Sprintf("the owners of %d files were put right", did.Changed)
	}
	if len(did.Left) > 0 {
		text += "; these have several names, and are left alone: " + printable(strings.Join(did.Left, ", "))
	}
	return text
}

// limited is a verb that waits for answers no longer than its caller says.
func limited(cmd *cobra.Command) *cobra.Command {
	var timeout time.Duration
	cmd.Flags().Var((*seconds)(&timeout), "timeout", "wait no longer than `TIME`, such as 30s, in all; the work itself goes on (default: no limit)")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := within(cmd.Context(), timeout, 0)
		defer cancel()
		cmd.SetContext(ctx)
		return run(cmd, args)
	}
	return cmd
}
