package main

import (
	"slices"
	"time"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func profileSetVerb(t *terminal) *cobra.Command {
	var env, unset []string
	var noWait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "set NAME [KEY=VALUE…]",
		Short: "change a profile's environment",
		Long: `Sets and removes variables in the profile's environment. If that changes
anything, a running gateway is restarted, and the command waits until it runs
again. A stopped gateway stays stopped. To change what else a profile overrides,
edit its profile.yaml and run rlminit reload.`,
		Example: `  rlminit profile set alice TOKEN=abc LANG=C.UTF-8
  rlminit profile set alice --unset TOKEN`,
		Args:              atLeast("NAME"),
		ValidArgsFunction: completeProfiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			vars, err := assignments(cmd, append(slices.Clone(args[1:]), env...))
			if err != nil {
				return err
			}
			change := control.SetProfile{Environment: map[string]*string{}}
			for key, value := range vars {
				change.Environment[key] = &value
			}
			for _, key := range unset {
				if _, both := vars[key]; both {
					return misused(cmd, "%s is both set and unset", key)
				}
				change.Environment[key] = nil
			}
			if len(change.Environment) == 0 {
				return misused(cmd, "KEY=VALUE or --unset KEY is missing")
			}
			client := t.open()
			ctx := cmd.Context()
			if !noWait {
				change.Wait = &control.Wait{TimeoutMS: milliseconds(timeout)}
			}
			ctx, cancel := within(ctx, timeout, grace)
			defer cancel()
			profile, err := client.SetProfile(ctx, args[0], change)
			if err != nil {
				return err
			}
			return answer(t, profile, func() { t.printf("%s: %s\n", printable(profile.Name), printable(profile.State)) })
		},
	}
	cmd.Flags().StringArrayVar(&env, "env", nil, "set a variable, `KEY=VALUE`, as an argument does")
	cmd.Flags().StringArrayVar(&unset, "unset", nil, "remove the variable `KEY`")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return once the change is recorded")
	forPrograms(t, cmd, "write the profile, a JSON object")
	cmd.Flags().Var((*seconds)(&timeout), "timeout", "wait no longer than `TIME`, such as 30s, for its gateway (default: no limit)")
	return cmd
}
