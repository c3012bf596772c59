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
they run. One that was stopped is started if it is named; --all leaves it
stopped. What requires them and runs is stopped first and started again after
them, and named in the answer. With several names the exit code is the highest
of theirs. --rolling takes one after the other, the next when the last has been
ready for --steady, and stops at the first that is not, with exit code 8; where
N are stopped or failed from the start, before anything is done or recorded. It
restarts unhealthy services first. On a terminal the waiting shows how far it
is; ^C ends the waiting alone, and says the operation's id.`,
		Example: `  rlminit restart alice
  rlminit restart 'gateway-*' --rolling=4
  rlminit restart --all --timeout 2m`,
		RunE: func(cmd *cobra.Command, names []string) error { return o.run(cmd, t, names) },
	}
	o.flags(cmd)
	return cmd
}
