package metrics

import "rlminit/control"

// counts are what the supervisor has counted beside the status of services.
func (w *writer) counts(s Snapshot) {
	counted := make(map[string]control.ServiceCounts, len(s.Counts.Services))
	for _, c := range s.Counts.Services {
		counted[c.Service] = c
	}
	each := func(write func(c control.ServiceCounts, labels string)) {
		for i, labels := range w.labels {
			if labels != "" { // where nothing was counted, that is 0
				write(counted[s.Services[i].Name], labels)
			}
		}
	}
	w.Head("rlminit_service_log_written_bytes", "counter", "bytes", "What the service has written to stdout and stderr.")
	each(func(c control.ServiceCounts, labels string) { w.Sample(labels, float64(c.LogBytes)) })
	w.probes(func(write func(c control.ProbeCounts, labels string)) {
		each(func(c control.ServiceCounts, labels string) {
			if c.Ready != nil {
				write(*c.Ready, labels+`,probe="ready"`)
			}
			if c.Health != nil {
				write(*c.Health, labels+`,probe="health"`)
			}
		})
	})
	w.jobs(s.Counts.Jobs)
	if s.Counts.Journal != nil {
		w.journal(*s.Counts.Journal)
	}
}

// probes are how services were asked. A readiness probe fails as a rule, until
// the service is ready.
func (w *writer) probes(each func(write func(c control.ProbeCounts, labels string))) {
	w.Head("rlminit_service_probe_seconds", "summary", "seconds", "How long the answers to a probe took.")
	each(func(c control.ProbeCounts, labels string) { w.Sum(labels, float64(c.Asked), c.TookS) })
	w.Head("rlminit_service_probe_failures", "counter", "", "Probes that failed, or had no answer in time.")
	each(func(c control.ProbeCounts, labels string) { w.Sample(labels, float64(c.Failed)) })
	w.Head("rlminit_service_probe_last_seconds", "gauge", "seconds", "How long the latest answer to a probe took.")
	each(func(c control.ProbeCounts, labels string) { w.Sample(labels, c.LastS) })
	w.Head("rlminit_service_probe_passed", "gauge", "", "Whether the latest probe passed.")
	each(func(c control.ProbeCounts, labels string) { w.Sample(labels, truth(c.Passed)) })
}

// jobs are those that have ended.
func (w *writer) jobs(counts []control.JobCounts) {
	w.Head("rlminit_jobs", "counter", "", "Jobs that have ended since the supervisor began, by kind and state.")
	for _, c := range counts {
		w.Sample(`kind="`+c.Kind+`",state="`+c.State+`"`, float64(c.Count))
	}
}

// journal is the journal of the volume, as long as the volume is this container's.
func (w *writer) journal(c control.JournalCounts) {
	w.One("rlminit_journal_records", "counter", "", "Records appended to the journal.", float64(c.Records))
	w.One("rlminit_journal_written_bytes", "counter", "bytes", "Bytes appended to the journal.", float64(c.Bytes))
	w.One("rlminit_journal_refused", "counter", "", "Records that the disk refused, and with them the command.", float64(c.Refused))
	w.One("rlminit_journal_dropped", "counter", "", "Records that the disk refused, and that no command waited for.", float64(c.Dropped))
	w.One("rlminit_journal_segments", "counter", "", "Segments begun.", float64(c.Segments))
	w.One("rlminit_journal_segment_bytes", "gauge", "bytes", "Size of the segment that is written.", float64(c.SegmentBytes))
	w.Head("rlminit_journal_sync_seconds", "summary", "seconds", "How long the journal has waited for fsync.")
	w.Sum("", float64(c.Syncs), c.SyncS)
}
