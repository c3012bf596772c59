package main

import (
	"strings"

	"github.com/spf13/cobra"

	"rlminit/control"
)

// deletedProfile is what became of a profile, for programs.
type deletedProfile struct {
	Profile string `json:"profile"`
	control.Deleted
}

func profileDeleteVerb(t *terminal) *cobra.Command {
	var how control.Deletion
	cmd := &cobra.Command{
		Use:   "delete NAME…",
		Short: "stop gateways and remove their profiles",
		Long: `Ends the profile's jobs and sessions, stops the gateway and moves the profile's
directory to the trash on the volume, under its name and the date. rlminit
profile restore brings it back, rlminit profile purge removes it. The log stays
in logs/gateways. Its secrets (profile create --secret) are kept apart from it
for a restore, until it is purged; the answer names them. --forget-secrets
removes them now, from the revisions too: no restore and no rollback brings them
back. With --purge the directory, the log and the secrets are removed and cannot
be restored; a log behind a symbolic link is named and left to you.`,
		Example:           `  rlminit profile delete alice`,
		Args:              atLeast("NAME"),
		ValidArgsFunction: completeMoreProfiles,
		RunE: t.asking(func(cmd *cobra.Command, args []string, client *control.Client) error {
			return forEach(t, once(args), func(name string) answered {
				deleted, err := client.DeleteProfile(cmd.Context(), name, how)
				return answered{err: err, tell: func() error {
					if t.json {
						return t.printJSON(deletedProfile{name, deleted})
					}
					if deleted.Trash != "" {
						t.printf("%s: deleted; its directory is now %s%s\n", name, printable(deleted.Trash), secretsKept(deleted))
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
	f := cmd.Flags()
	f.BoolVar(&how.Purge, "purge", false, "remove its directory, its log and its secrets for good")
	f.BoolVar(&how.ForgetSecrets, "forget-secrets", false, "remove its secrets for good, and from the revisions")
	return limited(forPrograms(t, cmd, "write a JSON object for each that was deleted"))
}

// secretsKept says what became of the secrets of a profile that is in the trash.
func secretsKept(deleted control.Deleted) string {
	switch {
	case len(deleted.Forgotten) > 0:
		return "; secrets forgotten: " + strings.Join(deleted.Forgotten, ", ")
	case len(deleted.Secrets) > 0:
		return "; secrets kept until a purge: " + strings.Join(deleted.Secrets, ", ")
	}
	return ""
}

// tellLeft says what could not be removed of something that is gone.
func (t *terminal) tellLeft(name string, left []string) {
	for _, path := range left {
		t.complain("cannot remove what is left of " + name + ": see docker logs; then remove it yourself: rm -r " + path)
	}
}
