package supervise

import (
	"log/slog"
	"net"

	"rlminit/metrics"
)

// serveMetrics answers scrapes where the configuration says so. A listener that
// cannot be had is said, and nothing waits for it.
func (s *Supervisor) serveMetrics(version string) {
	started, _ := s.settings.Started()
	at := started.Metrics
	if at.Network == "" {
		return
	}
	listener, err := net.Listen(at.Network, at.Address)
	if err != nil {
		slog.Error("cannot listen for scrapes of the metrics; choose another address for metrics.listen", "err", err)
		return
	}
	go func() {
		err := metrics.Serve(listener, func() (metrics.Snapshot, error) {
			services, err := metrics.Measure("/proc", desk{s}.Services(), true)
			return metrics.Snapshot{Version: version, Services: services}, err
		})
		slog.Error("the metrics are not served any more", "err", err)
	}()
}
