package supervise

import (
	"log/slog"
	"net"

	"rlminit/control"
	"rlminit/metrics"
	"rlminit/supervise/machine"
)

// counts is what was counted of the journal and of those services that have
// written or were asked. It costs nothing before it is asked for, and then no
// file and no system call.
func (s *backend) counts() control.Counts {
	answer := control.Counts{Services: []control.ServiceCounts{}}
	if j := s.records.volume.Journal.Open.Load(); j != nil {
		n := j.Stats()
		answer.Journal = &control.JournalCounts{
			Records: n.Records, Bytes: n.Bytes, Syncs: n.Syncs, SyncS: n.SyncTime.Seconds(),
			Refused: n.Refused, Dropped: n.Dropped, Segments: n.Segments, SegmentBytes: n.Segment,
		}
	}
	if s.jobs.runner != nil {
		answer.Jobs = s.jobs.runner.Tally.Counts()
	}
	s.loop.read(func() {
		for _, u := range s.fleet.all() {
			of := control.ServiceCounts{Service: u.name, Ready: s.probes.Counts(u.life.Node(), machine.ProbeReady), Health: s.probes.Counts(u.life.Node(), machine.ProbeHealth)}
			of.LogBytes = u.output.stats().Bytes
			if of != (control.ServiceCounts{Service: u.name}) {
				answer.Services = append(answer.Services, of)
			}
		}
	})
	return answer
}

// serveMetrics answers scrapes where the configuration says so. A listener that
// cannot be had is said, and nothing waits for it.
func (s *Supervisor) serveMetrics(version string) {
	started, _ := s.prep.Settings.Started()
	at := started.Metrics
	if at.Network == "" {
		return
	}
	listener, err := net.Listen(at.Network, at.Address)
	if err != nil {
		slog.Error("cannot listen for scrapes of the metrics; choose another address for metrics.listen", "err", err)
		return
	}
	d := s.backend()
	go func() {
		err := metrics.Serve(listener, func() (metrics.Snapshot, error) {
			services, err := metrics.Measure("/proc", d.Services(), true)
			return metrics.Snapshot{Version: version, Services: services, Counts: d.counts()}, err
		})
		slog.Error("the metrics are not served any more", "err", err)
	}()
}
