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
restart of the container. Running services that require them are stopped first,
come back with them, and are named in the answer. A service that is stopped
already is no error; of a set, the last line names it. If a service has a
schedule, the jobs of the schedule are ended too, but the schedule goes on, and
the answer says so; to end it, set enabled: false and run rlminit reload. With
several names the exit code is the highest of theirs. On a terminal it shows
progress; ^C ends only the waiting, and prints the operation's id.`,
		Example: `  rlminit stop alice
  rlminit stop --runtime alice     # until the container's next start`,
		RunE: func(cmd *cobra.Command, names []string) error { return o.run(cmd, t, names) },
	}
	o.flags(t, cmd)
	cmd.Flags().BoolVar(&o.options.Runtime, "runtime", false, "leave the recorded intent as it is")
	return cmd
}
