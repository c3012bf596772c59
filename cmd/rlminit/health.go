package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
)

// healthTimeout bounds the answer: what takes longer is not well, and a
// HEALTHCHECK must not pile up.
const healthTimeout = 5 * time.Second

func healthVerb(t *terminal) *cobra.Command {
	var level string
	cmd := &cobra.Command{
		Use:   "health [NAME…] [--level alive|well|ready]",
		Short: "check whether rlminit, or its services, are healthy",
		Long: `Level alive, the default, is meant for HEALTHCHECK and liveness probes: it
checks rlminit itself. Level ready checks that the verdict of every service is
ok or off; with names, that these are up. Level well checks that no service is
ill: one that is on its way counts as well. The exit code is 0 or 1 whatever
the cause, for Docker knows no other. With --json: an object with ok, reasons,
missing (why there may be profiles that cannot be seen, or which profiles have
the name of a service; absent if there are none), walls (isolation that the
configuration asks for and that is not possible here, with the reason; absent
if there is none) and supervisor.`,
		Example: `  HEALTHCHECK CMD ["rlminit", "health"]
  rlminit health --level ready alice`,
		ValidArgsFunction: completeServices,
		RunE: func(cmd *cobra.Command, names []string) error {
			if level != "alive" && level != "ready" && level != "well" {
				return misused(cmd, "--level takes alive, well or ready, not %q", level)
			}
			health, err := askHealth(cmd.Context(), level, once(names))
			if err != nil {
				t.complain(err.Error())
				return exitStatus(control.ExitFailed)
			}
			if t.json {
				if err := t.printJSON(health); err != nil || health.OK {
					return err
				}
				return exitStatus(control.ExitFailed)
			}
			if !health.OK {
				for _, reason := range health.Reasons {
					t.complain(reason)
				}
				if len(health.Reasons) == 0 {
					t.complain("unhealthy")
				}
				return exitStatus(control.ExitFailed)
			}
			t.printf("%s\n", healthyLine(level, health))
			return nil
		},
	}
	cmd.Flags().StringVar(&level, "level", "alive", "what to ask for: `LEVEL` is alive, well or ready")
	return formatted(t, forPrograms(t, cmd, "write a JSON object"))
}

// askHealth asks the supervisor, but for the one rlminit that has none and is
// well as long as there is a PID 1: the pure init.
func askHealth(ctx context.Context, level string, names []string) (control.Health, error) {
	client := control.Open()
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	health, err := client.Health(ctx, level, names)
	if exitCodeOf(err) == control.ExitNoAnswer && level == "alive" && len(names) == 0 && client.PureInit() {
		return control.Health{OK: true, Reasons: []string{"alive: a pure init, nothing is supervised"}}, nil
	}
	return health, err
}

func healthyLine(level string, health control.Health) string {
	if len(health.Reasons) > 0 {
		return printable(health.Reasons[0])
	}
	return level
}
