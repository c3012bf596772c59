package main

import (
	"context"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func profileCreateVerb(t *terminal) *cobra.Command {
	o := &operation{verb: "start"}
	var env []string
	body := control.CreateProfile{}
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "create a profile and start its gateway",
		Long: `Makes the profile's directory on the volume from the template, records the
profile, starts its gateway and waits until it runs. A name has 1 to 64 of
a-z, 0-9, _ and -, and begins with a letter or digit, but not with gateway-.`,
		Example: `  rlminit profile create alice
  rlminit profile create bob --stopped --env TOKEN=abc --port 9300`,
		Args: exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			body.Name = args[0]
			if body.Environment, err = assignments(cmd, env); err != nil {
				return err
			}
			if cmd.Flags().Changed("port") && (body.Port < 1 || body.Port > 65535) {
				return misused(cmd, "--port takes 1 to 65535, not %d", body.Port)
			}
			client, err := t.open()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if !o.noWait {
				body.Wait = &control.Wait{TimeoutMS: milliseconds(o.timeout)}
			}
			if o.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, o.timeout+grace)
				defer cancel()
			}
			begun := t.now()
			outcome, err := client.CreateProfile(ctx, body)
			if err != nil {
				return err
			}
			if outcome.Problem != nil {
				return outcome.Problem
			}
			took := t.now().Sub(begun)
			if o.noWait || body.Stopped || !outcome.Changed {
				took = 0
			}
			port := "port " + number(outcome.Service.Port)
			if outcome.Service.Port == nil {
				port = "no port"
			}
			t.printf("%s\n", outcomeLine(t, args[0], outcome, took, port))
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&body.Stopped, "stopped", false, "only record it, and start nothing")
	f.StringArrayVar(&env, "env", nil, "a variable of its environment, `KEY=VALUE`; may be repeated")
	f.IntVar(&body.Port, "port", 0, "its port, `N` (default: one that follows from the name)")
	f.BoolVar(&body.ExistOK, "exist-ok", false, "a profile of that name may exist, and is kept as it is but for --env")
	f.BoolVar(&o.noWait, "no-wait", false, "return once the profile is recorded")
	f.Var((*seconds)(&o.timeout), "timeout", "wait no longer than `TIME`, such as 30s, for its gateway (default: no limit)")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}
