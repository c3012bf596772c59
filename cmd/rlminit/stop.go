package main

import (
	"github.com/spf13/cobra"

	"rlminit/control"
)

func stopVerb(t *terminal) *cobra.Command {
	o := &operation{verb: "stop", call: (*control.Client).Stop}
	cmd := &cobra.Command{
		Use:   "stop NAME… | --all",
		Short: "stop services, and wait until nothing of them is left",
		Long: `Stops services and records that they are meant to be stopped, also after a
restart of the container. What requires them and runs is stopped first, comes
back with them, and is named in the answer. A service that is stopped already is
no error. Of one with a schedule the jobs that this has begun are ended too, but
the schedule goes on, which the answer says, until the service has enabled: false
and rlminit reload has taken that up. With several
names the exit code is the highest of theirs. On a terminal the waiting shows how
far it is; ^C ends the waiting alone, and says the operation's id.`,
		Example: `  rlminit stop alice
  rlminit stop --runtime alice     # until the container's next start`,
		RunE: func(cmd *cobra.Command, names []string) error { return o.run(cmd, t, names) },
	}
	o.flags(cmd)
	cmd.Flags().BoolVar(&o.options.Runtime, "runtime", false, "leave the recorded intent as it is")
	return cmd
}
