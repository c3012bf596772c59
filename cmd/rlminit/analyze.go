package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/analyze"
	"rlminit/control"
	"rlminit/usage"
	"rlminit/wire"
)

func analyzeVerb(t *terminal) *cobra.Command {
	svg := false
	cmd := &cobra.Command{
		Use:   "analyze",
		Short: "show the time of the last boot by step",
		Long: `Shows how long each step of the boot took, also the boot steps of the
configuration; for each service that the boot started, how long it waited for
others and how long it took to get ready; and the critical chain: the service
that was ready last, what that one had waited for, and so on. Times count from
the start of PID 1. Steps are only known if there is a volume to record them on.

With --json: an object with at, took_s, steps (step, began_s, took_s), services
(service, began_s, started_s, ready_s, outcome, after: its last blocker)
and chain. With --svg it is a drawing: steps in green, waiting in grey, starting
in blue, the critical chain in red.`,
		Example: `  rlminit analyze
  docker exec box rlminit analyze --svg >boot.svg`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if t.json && svg {
				return misused(cmd, "--json and --svg exclude each other; give one of them")
			}
			client := t.open()
			events, steps, err := lastBoot(cmd.Context(), client)
			if err != nil {
				return err
			}
			dependencies, err := client.Dependencies(cmd.Context())
			if err != nil {
				return err
			}
			start, err := containerStart(events)
			if err != nil {
				return err
			}
			report := analyze.Boot(start, events, dependencies)
			report.Steps = analyze.Steps(steps)
			switch {
			case t.json:
				return t.printJSON(report)
			case len(report.Services)+len(report.Steps) == 0:
				return control.Failed("nothing is known of the boot: no service was started by it, or the supervisor was replaced since and its events begin later")
			case svg:
				return report.SVG(t.out)
			}
			printReport(t, report)
			return nil
		},
	}
	forPrograms(t, cmd, "write a JSON object").Flags().BoolVar(&svg, "svg", false, "write a drawing, as SVG")
	return cmd
}

// lastBoot are the transitions of this start of the container, and the steps of
// its boot.
func lastBoot(ctx context.Context, client *control.Client) (events []control.Event, steps []control.BootStep, err error) {
	boot := ""
	query := control.EventQuery{Types: []string{"transition", control.TypeBooted}}
	err = client.Events(ctx, query, func(e control.Event) error {
		if e.Boot != boot { // what came before was an earlier start of the container
			boot, events, steps = e.Boot, nil, nil
		}
		switch {
		case e.Type != control.TypeBooted:
			e.Raw = nil
			events = append(events, e)
		case steps == nil: // a later one is of a supervisor that took over
			var booted control.Booted
			if err := json.Unmarshal(e.Raw, &booted); err != nil {
				return fmt.Errorf("cannot read the record of the boot: %w", err)
			}
			steps = booted.Steps
		}
		return nil
	})
	if errors.Is(err, control.ErrCut) {
		err = nil
	}
	return events, steps, err
}

// containerStart is when PID 1 was started; where /proc does not tell, the first
// event.
func containerStart(events []control.Event) (time.Time, error) {
	if began := usage.Began(procDir, 1); began > 0 {
		start := time.Now().Add(began - wire.SinceBoot())
		if len(events) == 0 || !start.After(events[0].At) {
			return start, nil
		}
	}
	if len(events) == 0 {
		return time.Time{}, control.Failed("nothing is known of the boot: there are no events")
	}
	return events[0].At, nil
}

func printReport(t *terminal, r analyze.Report) {
	took := r.TookS
	for _, s := range r.Steps {
		took = max(took, s.BeganS+s.TookS) // where no service is started, that was the boot
	}
	t.printf("the boot of %s took %s for %d services\n\n", eventTime(r.At), secondsText(took), len(r.Services))
	if len(r.Steps) > 0 {
		b := new(table)
		b.header("STEP", "AT", "TOOK")
		for _, s := range r.Steps {
			b.row(s.Step, secondsText(s.BeganS), secondsText(s.TookS))
		}
		b.write(t)
		t.printf("\n")
	}
	if len(r.Services) == 0 {
		return
	}
	b := new(table)
	b.header("SERVICE", "WAITED", "TOOK", "AT", "OUTCOME", "AFTER")
	byName := map[string]analyze.Service{}
	for _, s := range r.Services {
		byName[s.Name] = s
		b.row(s.Name, secondsText(s.StartedS-s.BeganS), secondsText(s.ReadyS-s.StartedS),
			secondsText(s.ReadyS), cell{s.Outcome, stateColour(s.Outcome)}, s.After)
	}
	b.write(t)
	t.printf("\n%s\n", t.paint(bold, "CRITICAL CHAIN"))
	for i, name := range r.Chain {
		s := byName[name]
		lead := ""
		if i > 0 {
			lead = strings.Repeat("  ", i-1) + "└─ "
		}
		t.printf("%s%s at %s, took %s\n", lead, printable(name), secondsText(s.ReadyS), secondsText(s.ReadyS-s.StartedS))
	}
}

func secondsText(s float64) string { return strconv.FormatFloat(max(s, 0), 'f', 3, 64) + "s" }
