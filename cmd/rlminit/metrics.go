package main

import (
	"runtime/debug"

	"github.com/spf13/cobra"

	"rlminit/control"
	"rlminit/metrics"
	"rlminit/usage"
)

func metricsVerb(t *terminal) *cobra.Command {
	prometheus := false
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "write the state of all services as OpenMetrics",
		Long: `Writes metrics of rlminit and its services in the text format of OpenMetrics:
states, restarts, readiness and health, how long probes took, memory, CPU time
and processes, bytes that services have written and that logs have lost, the
journal, and the two processes of rlminit. Counts of probes, of bytes written
and of the journal start again at 0 when the supervisor is replaced. To have the
metrics scraped, set metrics.listen in the configuration; examples/metrics has
rules for alerts.`,
		Example: `  rlminit metrics
  docker exec box rlminit metrics --prometheus >/var/lib/node_exporter/box.prom`,
		Args: exactly(),
		RunE: t.asking(func(cmd *cobra.Command, _ []string, client *control.Client) error {
			debug.SetGCPercent(400) // what it reads of thousands is needed to the end, a moment later
			// Of thousands of services each of the three takes its time.
			counted := aside(func() (control.Counts, error) { return client.Counts(cmd.Context()) })
			looked := aside(func() ([]usage.Process, error) { return usage.Processes(procDir) })
			services, err := client.Services(cmd.Context())
			if err != nil {
				return err
			}
			counts, err := counted()
			if err != nil {
				return err
			}
			all, err := looked()
			if err != nil {
				return control.Failed("cannot tell memory and CPU: %v", err)
			}
			services = metrics.Attribute(procDir, all, services, true)
			format := metrics.OpenMetrics
			if prometheus {
				format = metrics.Prometheus
			}
			return metrics.Write(t.out, format, metrics.Snapshot{Version: version, Services: services, Counts: counts})
		}),
	}
	cmd.Flags().BoolVar(&prometheus, "prometheus", false, "in the older format of Prometheus, for textfile collectors")
	return cmd
}

// aside does something in the background. Its result waits for the outcome.
func aside[T any](do func() (T, error)) func() (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := do()
		done <- outcome{value, err}
	}()
	return func() (T, error) {
		o := <-done
		return o.value, o.err
	}
}
