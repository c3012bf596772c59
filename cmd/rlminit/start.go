package main

import (
	"github.com/spf13/cobra"

	"rlminit/control"
)

func startVerb(t *terminal) *cobra.Command {
	o := &operation{verb: "start", call: (*control.Client).Start}
	cmd := &cobra.Command{
		Use:   "start NAME… | --all | --failed",
		Short: "start services, and wait until they run",
		Long: `Starts services, records that they are meant to run, and waits until they do. A
service that runs already is left as it is, without an error. For a oneshot it
waits until the work is done. A service with a schedule, named in full, runs
once, now; a set (a pattern, --all, --kind) runs no service that has a schedule
or is disabled, and the last line names these. --failed means the services that
are ill. The command ends with 1 at the first attempt that fails, and says why,
and when it is tried again by itself. With several names the exit code is the
highest of theirs. On a terminal it shows progress; ^C ends only the waiting,
and prints the operation's id.`,
		Example: `  rlminit start alice
  rlminit start alice bob --timeout 30s
  rlminit start --failed`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if o.options.Failed && len(names) == 0 {
				o.all = true
			} else if o.options.Failed {
				return misused(cmd, "--failed cannot be combined with names such as %q", names[0])
			}
			return o.run(cmd, t, names)
		},
	}
	o.flags(t, cmd)
	cmd.Flags().BoolVar(&o.options.Failed, "failed", false, "every service that is ill")
	return cmd
}
