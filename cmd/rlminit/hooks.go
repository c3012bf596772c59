package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"rlminit/control"
)

func hooksVerb(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hooks [test NAME]",
		Short: "list the hooks, and try one",
		Long: `Lists the hooks of the configuration: the name of each, its events, the
services that it is about, and its command. Of a threshold it shows what was
measured last, and whether it is crossed.`,
		Example: `  rlminit hooks
  rlminit hooks --json | jq '.[].thresholds[] | select(.crossed)'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownVerb(cmd, args[0])
			}
			list, err := control.Hooks{Client: t.open()}.List(cmd.Context())
			if err != nil {
				return err
			}
			return answer(t, list, func() { showHooks(t, list) })
		},
	}
	cmd.AddCommand(hooksTestVerb(t))
	return formatted(t, forPrograms(t, cmd, "write a JSON array"))
}

func showHooks(t *terminal, list []control.Hook) {
	b := new(table)
	b.header("NAME", "ON", "SERVICES", "COMMAND")
	for _, h := range list {
		b.row(h.Name, strings.Join(h.On, ", "), cmp.Or(strings.Join(h.Services, ", "), "-"), strings.Join(h.Command, " "))
	}
	b.write(t)
	b = new(table)
	b.header("HOOK", "OF", "WHAT", "NOW", "LIMIT", "FOR", "STATE")
	rows := 0
	for _, h := range list {
		for _, of := range h.Thresholds {
			state := cell{"below", ""}
			if of.Crossed {
				state = cell{"crossed", red}
			}
			now := "-"
			if of.Percent != nil {
				now = fmt.Sprintf("%.1f%%", *of.Percent)
			} else if of.Lacks != "" && !of.Crossed {
				state.text = of.Lacks
			}
			b.row(h.Name, cmp.Or(shortService(of.Service), "the container"), of.What, now, fmt.Sprintf("%d%%", of.Limit), of.For, state)
			rows++
		}
	}
	if rows > 0 {
		t.printf("\n")
		b.write(t)
	}
}

func hooksTestVerb(t *terminal) *cobra.Command {
	return forPrograms(t, &cobra.Command{
		Use:   "test NAME",
		Short: "run a hook once, with a sample of its event",
		Long: `Runs the command of a hook once, as a job, and waits for it. Its standard input
is one line of JSON as it is told for the first thing that the hook is on, with
"sample":true. Its output and the exit code are as with rlminit run.`,
		Example:           `  rlminit hooks test disk-full`,
		Args:              exactly("NAME"),
		ValidArgsFunction: completeHooks,
		RunE: func(cmd *cobra.Command, args []string) error {
			hooks := control.Hooks{Client: t.open()}
			result, err := attended(cmd.Context(), t, hooks.Client, func(ctx context.Context, each func(*control.JobOutput) error) (*control.JobResult, error) {
				return hooks.Test(ctx, args[0], each)
			})
			if err != nil {
				return err
			}
			return finishRun(t, result)
		},
	}, "write the result of the job as JSON, and nothing else")
}
