package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
)

// reloading are the flags of a reload.
type reloading struct {
	dryRun, wait bool
	rolling      int
	steady       time.Duration
}

// request is the request of the flags.
func (r *reloading) request(cmd *cobra.Command, names []string) (how control.Reload, err error) {
	how = control.Reload{Names: once(names), DryRun: r.dryRun, Operation: r.wait, Rolling: r.rolling}
	switch {
	case cmd.Flags().Changed("rolling") && r.rolling < 1:
		err = misused(cmd, "--rolling takes a number above 0")
	case cmd.Flags().Changed("steady") && r.rolling == 0:
		err = misused(cmd, "--steady needs --rolling")
	case r.dryRun && (r.wait || r.rolling > 0):
		err = misused(cmd, "with --dry-run there is nothing to wait for")
	case r.rolling > 0:
		how.SteadyMS = milliseconds(r.steady)
	}
	return how, err
}

func reloadVerb(t *terminal) *cobra.Command {
	r := reloading{steady: 2 * time.Second}
	cmd := &cobra.Command{
		Use:   "reload [NAME…]",
		Short: "read definitions again, and apply what changed",
		Long: `Reads the gateway template, services and profiles again, and brings a
profile.yaml or a configuration that was changed by hand into force. Only what
changed is touched, and restarted only if the change needs it. Other changed
settings are named with the time when they take effect: access, apply, jobs,
hooks and gateway at once; the environment of all services at the next start of
each; the rest (user, home, main, the privilege policy, what is done before
anything starts) in a new container only. A definition with a fault is refused,
and the exit code is 1. A configuration with a fault, or with a service that has
a profile's name, changes nothing. With NAME only these are reloaded; the others
keep what they have until they are reloaded.

If the definition of a service changes that should run and has failed, or waits
for its next start, it is started at once, and earlier restarts no longer count.

With --wait it returns when all services that it touched and that should run are
up, and with 1 if the first attempt of one fails; that one is still tried again.
With --rolling it restarts the next only while fewer than N of them are out of
service (those that are out of service already are started at once), and stops
with 8 at the first that does not get ready. The remaining ones keep running
with the old definition: each reload names them until they are restarted, and
--wait or --rolling restarts them along with what has changed since. On a
terminal it shows progress; ^C ends only the waiting, and prints the operation's
id.`,
		Example: `  rlminit reload --dry-run
  rlminit reload alice --wait
  rlminit reload --rolling=4 --steady 10s`,
		ValidArgsFunction: completeServices,
		RunE: func(cmd *cobra.Command, names []string) error {
			how, err := r.request(cmd, names)
			if err != nil {
				return err
			}
			client := t.open()
			done, err := client.Reload(cmd.Context(), how)
			if err != nil {
				return misplaced(cmd, names, err)
			}
			err = answer(t, done, func() { tellReload(cmd.Context(), t, client, names, done) })
			if err == nil && done.Operation > 0 {
				err = followReload(cmd.Context(), t, client, done.Operation)
			}
			if err == nil && slices.ContainsFunc(done.Changes, control.Change.Refused) {
				err = exitStatus(control.ExitFailed)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&r.wait, "wait", false, "wait until the restarted and started are up")
	cmd.Flags().IntVar(&r.rolling, "rolling", 0, "restart the next only while fewer than `N` of them are out of service, and wait")
	cmd.Flags().Lookup("rolling").NoOptDefVal = "1"
	cmd.Flags().Var((*seconds)(&r.steady), "steady", "with --rolling: a service is up when it has been ready for `TIME` (default 2s)")
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "say what would be done, and do nothing")
	return limited(forPrograms(t, cmd, "write JSON"))
}

// followReload waits for the operation of a reload; JSON has its id alone.
func followReload(ctx context.Context, t *terminal, client *control.Client, id uint64) error {
	o, err := client.Operation(ctx, id, false)
	switch {
	case err == nil && !t.json:
		return followOperation(ctx, t, client, o)
	case err == nil:
		o, err = untilOver(ctx, t, client, o, nil)
	}
	if problem := o.Problem(); err == nil && problem != nil {
		return problem
	}
	return err
}

// stillFailed names services that failed before a reload that has changed nothing: it starts none of
// them, though what they lacked, such as the file of a secret, may be there by now.
func stillFailed(ctx context.Context, t *terminal, client *control.Client, names []string) {
	services, err := client.Services(ctx)
	if err != nil {
		return // the reload itself was answered
	}
	var failed []string
	for _, s := range services {
		named := len(names) == 0 || slices.Contains(names, s.Name) || slices.Contains(names, shortName(s))
		if named && s.State == "failed" && s.Desired == "running" && s.Refused == "" {
			failed = append(failed, shortName(s))
		}
	}
	switch len(failed) {
	case 0:
	case 1:
		t.printf("%s failed before, and is still so; rlminit start %s\n", failed[0], failed[0])
	default:
		t.printf("%d failed before, and are still so: %s; rlminit start --failed\n", len(failed), strings.Join(failed, ", "))
	}
}

func tellReload(ctx context.Context, t *terminal, client *control.Client, names []string, done control.Reloaded) {
	for _, change := range done.Changes {
		t.printf("%s: %s", printable(shortService(change.Service)), printable(change.Action))
		if change.Why != "" {
			t.printf(": %s", printable(change.Why))
		}
		t.printf("\n")
	}
	for _, note := range done.Notes {
		t.printf("note: %s\n", printable(note))
	}
	if len(done.Changes)+len(done.Notes) == 0 {
		t.printf("nothing has changed\n")
	}
	if len(done.Changes) == 0 {
		stillFailed(ctx, t, client, names)
	}
}
