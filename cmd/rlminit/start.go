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
		Long: `Starts services and records that they are meant to run. A service that runs
already is left as it is, and that is no error. A oneshot is waited for until
its work is done. One with a schedule is run once, now, and by no start of the
container. The waiting ends with 1 at the first attempt that fails, with the
reason and when it is tried again by itself. With several names the exit code
is the highest of theirs. On a terminal the waiting shows how far it is; ^C
ends the waiting alone, and says the operation's id.`,
		Example: `  rlminit start alice
  rlminit start alice bob --timeout 30s
  rlminit start --failed`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if o.options.Failed && len(names) == 0 {
				o.all = true
			} else if o.options.Failed {
				return misused(cmd, "--failed leaves no place for names such as %q", names[0])
			}
			return o.run(cmd, t, names)
		},
	}
	o.flags(cmd)
	cmd.Flags().BoolVar(&o.options.Failed, "failed", false, "every service that has failed")
	return cmd
}
