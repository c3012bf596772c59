package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rlminit/analyze"
	"rlminit/control"
	"rlminit/usage"
)

func analyzeVerb(t *terminal) *cobra.Command {
	asJSON, svg := false, false
	cmd := &cobra.Command{
		Use:   "analyze",
		Short: "show where the time of the last boot went",
		Long: `Shows of each service that the boot started how long it waited for others and how
long it took to be ready, and the critical chain: the service that was ready
last, what it had waited for, and so on. Times are since PID 1 was started.

With --json: an object with at, took_s, services (service, began_s, started_s,
ready_s, outcome, after: what it waited for last) and chain. With --svg it is a
drawing: waiting in grey, starting in blue, the critical chain in red.`,
		Example: `  rlminit analyze
  docker exec box rlminit analyze --svg >boot.svg`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON && svg {
				return misused(cmd, "--json and --svg are two forms of one thing: give one of them")
			}
			client, err := t.open()
			if err != nil {
				return err
			}
			var events []control.Event
			err = client.Events(cmd.Context(), control.EventQuery{Types: []string{"transition"}}, func(e control.Event) error {
				if len(events) > 0 && events[0].Boot != e.Boot { // of an earlier start of the container
					events = events[:0]
				}
				e.Raw = nil
				events = append(events, e)
				return nil
			})
			if err != nil && !errors.Is(err, control.ErrCut) {
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
			switch {
			case asJSON:
				return t.printJSON(report)
			case len(report.Services) == 0:
				return control.Failed("nothing is known of the boot: no service was started by it, or the supervisor was replaced since and its events begin later")
			case svg:
				return report.SVG(t.out)
			}
			printReport(t, report)
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "write a JSON object")
	f.BoolVar(&svg, "svg", false, "write a drawing, as SVG")
	return cmd
}

// containerStart is when PID 1 was started; where /proc does not tell, the first
// event.
func containerStart(events []control.Event) (time.Time, error) {
	if start, ok := startOf(1); ok && (len(events) == 0 || !start.After(events[0].At)) {
		return start, nil
	}
	if len(events) == 0 {
		return time.Time{}, control.Failed("nothing is known of the boot: there are no events")
	}
	return events[0].At, nil
}

// startOf is when a process was started, to a hundredth of a second.
func startOf(pid int) (time.Time, bool) {
	all, err := usage.Processes(procDir)
	stat, statErr := os.ReadFile(filepath.Join(procDir, "stat"))
	if err != nil || statErr != nil {
		return time.Time{}, false
	}
	_, rest, _ := strings.Cut(string(stat), "\nbtime ")
	line, _, _ := strings.Cut(rest, "\n")
	boot, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	for _, p := range all {
		if p.PID == pid {
			return time.Unix(boot, 0).Add(time.Duration(p.Started) * time.Second / 100), true
		}
	}
	return time.Time{}, false
}

func printReport(t *terminal, r analyze.Report) {
	t.printf("the boot of %s took %s for %d services\n\n", eventTime(r.At), secondsText(r.TookS), len(r.Services))
	b := new(table)
	b.header("SERVICE", "WAITED", "TOOK", "AT", "OUTCOME", "AFTER")
	byName := map[string]analyze.Service{}
	for _, s := range r.Services {
		byName[s.Name] = s
		b.row(cell{text: printable(s.Name)}, cell{text: secondsText(s.StartedS - s.BeganS)}, cell{text: secondsText(s.ReadyS - s.StartedS)},
			cell{text: secondsText(s.ReadyS)}, cell{s.Outcome, stateColour(s.Outcome)}, cell{text: printable(s.After)})
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
