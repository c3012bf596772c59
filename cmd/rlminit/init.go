package main

import (
	"github.com/spf13/cobra"
)

// exitConfiguration is the exit code of a broken configuration, EX_CONFIG of
// sysexits(3).
const exitConfiguration = 78

// initVerb is there for help and completion: what it does is begun in main,
// before there is a command line library.
func initVerb() *cobra.Command {
	return &cobra.Command{
		Use:   "init [--] [CMD ARG…]",
		Short: "be PID 1: reap, supervise, and run the main command",
		Long: `Runs as a container's PID 1. Without a configuration it is a pure init: it runs
the command, forwards signals, reaps orphans, and exits with the command's code.
With /etc/rlminit/rlminit.yaml (or RLMINIT_CONFIG, or --config) it supervises
what is configured there, and the profiles on the volume.`,
		Example: `  ENTRYPOINT ["/usr/local/bin/rlminit", "init", "--"]
  docker run IMAGE rlminit init -- agent serve`,
		DisableFlagParsing: true,
		RunE:               func(*cobra.Command, []string) error { return nil },
	}
}
