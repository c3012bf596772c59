package main

import (
	"github.com/spf13/cobra"

	"rlminit/control"
)

// deletedProfile is what became of a profile, for programs.
type deletedProfile struct {
	Profile string `json:"profile"`
	control.Deleted
}

func profileDeleteVerb(t *terminal) *cobra.Command {
	var purge bool
	cmd := &cobra.Command{
		Use:   "delete NAME…",
		Short: "stop gateways and remove their profiles",
		Long: `Ends the profile's jobs and sessions, stops the gateway and moves the profile's
directory to the trash on the volume, under its name and the date. rlminit
profile restore brings it back, rlminit profile purge removes it. The log stays
in logs/gateways. Its secrets (profile create --secret) are removed for good.
With --purge the directory and the log are removed too and cannot be restored; a
log behind a symbolic link is named and left to you.`,
		Example:           `  rlminit profile delete alice`,
		Args:              atLeast("NAME"),
		ValidArgsFunction: completeMoreProfiles,
		RunE: t.asking(func(cmd *cobra.Command, args []string, client *control.Client) error {
			return forEach(t, once(args), func(name string) answered {
				deleted, err := client.DeleteProfile(cmd.Context(), name, purge)
				return answered{err: err, tell: func() error {
					if t.json {
						return t.printJSON(deletedProfile{name, deleted})
					}
					if deleted.Trash != "" {
						t.printf("%s: deleted; its directory is now %s\n", name, printable(deleted.Trash))
					} else {
						t.printf("%s: deleted\n", name)
					}
					if left := deleted.LogLeft; left != "" {
						t.complain("cannot remove the log of " + name + ": it lies behind a symbolic link, which is not followed; remove it yourself: rm -r " + left)
					}
					t.tellLeft(name, deleted.Left)
					return nil
				}}
			})
		}),
	}
	cmd.Flags().BoolVar(&purge, "purge", false, "remove its directory and its log for good")
	return limited(forPrograms(t, cmd, "write a JSON object for each that was deleted"))
}

// tellLeft says what could not be removed of something that is gone.
func (t *terminal) tellLeft(name string, left []string) {
	for _, path := range left {
		t.complain("cannot remove what is left of " + name + ": see docker logs; then remove it yourself: rm -r " + path)
	}
}
