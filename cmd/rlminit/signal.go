package main

import (
	"errors"
	"net/http"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func signalVerb(t *terminal) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "signal SIG NAME…",
		Short: "send a signal to services",
		Long: `Sends a signal, named (HUP, SIGHUP) or by number, to the main process of each
service. What the service is meant to do stays as it is: one that ends by the
signal is restarted as its policy says.`,
		Example: `  rlminit signal HUP alice`,
		Args:    atLeast("SIG", "NAME"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return []string{"HUP", "INT", "QUIT", "USR1", "USR2", "TERM", "KILL"}, cobra.ShellCompDirectiveNoFileComp
			}
			return completeServices(cmd, args, part)
		},
		RunE: t.asking(func(cmd *cobra.Command, args []string, client *control.Client) error {
			worst := 0
			for _, name := range once(args[1:]) {
				s, err := client.Signal(cmd.Context(), name, args[0])
				var problem *control.Problem
				if errors.As(err, &problem) && (problem.ExitCode == control.ExitNoAnswer || problem.Status == http.StatusBadRequest) {
					return err // as it would be for each of the others
				}
				if err == nil && asJSON {
					err = t.printJSON(s)
				}
				worst = max(worst, t.report(err))
			}
			return status(worst)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write a JSON object for each that was sent it")
	return cmd
}

// status makes an error of an exit code that needs no more words, and nil of 0.
func status(code int) error {
	if code == 0 {
		return nil
	}
	return exitStatus(code)
}
