package main

import (
	"github.com/spf13/cobra"

	"rlminit/control"
)

func restartVerb(t *terminal) *cobra.Command {
	o := &operation{verb: "restart", call: (*control.Client).Restart}
	cmd := &cobra.Command{
		Use:   "restart NAME… | --all",
		Short: "stop services and start them again",
		Long: `Stops services in reverse order, starts them again in order, and waits until
they run. A stopped service is started if its full name is given; a set (a
pattern, --all, --kind) leaves it stopped, and the last line names it.
Running services that require them are stopped first and started again after
them, and are named in the answer. With several names the exit code is the
highest of theirs. --rolling restarts one after the other, unhealthy services
first: the next when the last has been ready for --steady. It stops at the first
that does not get ready, with exit code 8; if N are stopped or failed already,
before anything is done or recorded. On a terminal it shows progress; ^C ends
only the waiting, and prints the operation's id.`,
		Example: `  rlminit restart alice
  rlminit restart 'gateway-*' --rolling=4
  rlminit restart --all --timeout 2m`,
		RunE: func(cmd *cobra.Command, names []string) error { return o.run(cmd, t, names) },
	}
	o.flags(t, cmd)
	return cmd
}
