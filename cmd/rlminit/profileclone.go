package main

import (
	"context"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func profileCloneVerb(t *terminal) *cobra.Command {
	o := &operation{verb: "start"}
	var env []string
	body := control.CreateProfile{}
	cmd := &cobra.Command{
		Use:   "clone NAME NEW",
		Short: "create a profile with the files of another",
		Long: `Makes the profile NEW with a copy of NAME's directory and starts its gateway.
NEW has a port and an intent of its own. The copy leaves out NAME's state, what
is removed at boot, sockets and pipes, its secrets, the directories of its
sessions, and what rlminit file write keeps for job undo. Files are copied as
they are at that moment: stop NAME first if its gateway may write meanwhile.`,
		Example:           `  rlminit profile clone alice alice-next --env CHANNEL=next --stopped`,
		Args:              exactly("NAME", "NEW"),
		ValidArgsFunction: completeProfiles,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			body.Clone, body.Name = args[0], args[1]
			if body.Environment, err = assignments(cmd, env); err != nil {
				return err
			}
			return createOne(cmd, t, o, body)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&body.Stopped, "stopped", false, "only record it, and start nothing")
	f.StringArrayVar(&env, "env", nil, "set a variable, `KEY=VALUE`, in the new profile; may be repeated")
	f.IntVar(&body.Port, "port", 0, "its port, `N` (default: one that follows from the name)")
	o.waitFlags(t, cmd)
	return cmd
}

func profileRestoreVerb(t *terminal) *cobra.Command {
	o := &operation{verb: "start"}
	as := ""
	body := control.CreateProfile{}
	cmd := &cobra.Command{
		Use:   "restore NAME",
		Short: "take a deleted profile out of the trash",
		Long: `Restores the profile NAME as it was last deleted, or an entry of the trash that
rlminit profile list --trash shows. Its intent is that of the time of its
deletion, and it gets its port back if no other profile has it now. Its secrets
come back too, and the answer names them, and those that were forgotten. What a
session has left in its directory is removed. If a later rollback needs the
profile, it changes the restored one.`,
		Example: `  rlminit profile restore alice
  rlminit profile restore alice-20260524T180533Z --as alice-old --stopped`,
		Args:              exactly("NAME"),
		ValidArgsFunction: completeTrash,
		RunE: func(cmd *cobra.Command, args []string) error {
			body.Restore, body.Name = args[0], as
			if as == "" {
				body.Name = profileOfEntry(cmd.Context(), t.open(), args[0])
			}
			return createOne(cmd, t, o, body)
		},
	}
	f := cmd.Flags()
	f.StringVar(&as, "as", "", "under another name, `NEW`")
	f.BoolVar(&body.Stopped, "stopped", false, "only record it, and start nothing")
	o.waitFlags(t, cmd)
	return cmd
}

// profileOfEntry is the profile that an entry of the trash was; any other word is
// taken for the profile's name itself.
func profileOfEntry(ctx context.Context, client *control.Client, word string) string {
	list, err := client.Trash().List(ctx)
	if err != nil {
		return word
	}
	for _, e := range list {
		if e.Entry == word {
			return e.Profile
		}
	}
	return word
}

func profileRenameVerb(t *terminal) *cobra.Command {
	o := &operation{verb: "start"}
	cmd := &cobra.Command{
		Use:   "rename NAME NEW",
		Short: "give a profile another name",
		Long: `Stops the profile's gateway if it runs, renames the profile, its secrets and its
log, and starts it again under the new name. Port and intent stay as they are.
The last line of the old log says so, and the new name begins a new log file, so
that logs -f of the old name shows nothing of the new one. A log that an earlier
profile NEW has left is kept beside it, with the date in its name. A profile
with jobs or open sessions is not renamed; the answer names them.`,
		Example:           `  rlminit profile rename alice alice-old`,
		Args:              exactly("NAME", "NEW"),
		ValidArgsFunction: completeProfiles,
		RunE: t.asking(func(cmd *cobra.Command, args []string, client *control.Client) error {
			return o.attempt(cmd.Context(), t, args[1], false, func(ctx context.Context, wait *control.Wait) (control.Outcome, error) {
				return client.RenameProfile(ctx, args[0], control.RenameProfile{To: args[1], Wait: wait})
			}).end()
		}),
	}
	o.waitFlags(t, cmd)
	return cmd
}

// createOne creates one profile and tells how it went.
func createOne(cmd *cobra.Command, t *terminal, o *operation, body control.CreateProfile) error {
	if cmd.Flags().Changed("port") && (body.Port < 1 || body.Port > 65535) {
		return misused(cmd, "--port takes 1 to 65535, not %d", body.Port)
	}
	return o.create(cmd.Context(), t, t.open(), body).end()
}

func (o *operation) create(ctx context.Context, t *terminal, client *control.Client, body control.CreateProfile) answered {
	return o.attempt(ctx, t, body.Name, body.Stopped, func(ctx context.Context, wait *control.Wait) (control.Outcome, error) {
		body.Wait = wait
		return client.CreateProfile(ctx, body)
	})
}

// waitFlags are those of a verb that waits for a gateway.
func (o *operation) waitFlags(t *terminal, cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.noWait, "no-wait", false, "return once it is recorded")
	forPrograms(t, cmd, "write a JSON object for each that was done")
	f.Var((*seconds)(&o.timeout), "timeout", "wait no longer than `TIME`, such as 30s, for its gateway (default: no limit)")
}
