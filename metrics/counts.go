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
	const written = "rlminit_service_log_written_bytes"
	w.head(written, "counter", "bytes", "What the service has written to stdout and stderr.")
	each(func(c control.ServiceCounts, labels string) {
		w.sample(w.sampleName(written, "counter"), labels, float64(c.LogBytes))
	})
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
	const took, failures, last, passed = "rlminit_service_probe_seconds", "rlminit_service_probe_failures", "rlminit_service_probe_last_seconds", "rlminit_service_probe_passed"
	w.head(took, "summary", "seconds", "How long the answers to a probe took.")
	each(func(c control.ProbeCounts, labels string) {
		w.sample(took+"_count", labels, float64(c.Asked))
		w.sample(took+"_sum", labels, c.TookS)
	})
	w.head(failures, "counter", "", "Probes that failed, or had no answer in time.")
	each(func(c control.ProbeCounts, labels string) {
		w.sample(w.sampleName(failures, "counter"), labels, float64(c.Failed))
	})
	w.head(last, "gauge", "seconds", "How long the latest answer to a probe took.")
	each(func(c control.ProbeCounts, labels string) { w.sample(last, labels, c.LastS) })
	w.head(passed, "gauge", "", "Whether the latest probe passed.")
	each(func(c control.ProbeCounts, labels string) { w.sample(passed, labels, truth(c.Passed)) })
}

// jobs are those that have ended.
func (w *writer) jobs(counts []control.JobCounts) {
	const name = "rlminit_jobs"
	w.head(name, "counter", "", "Jobs that have ended since the supervisor began, by kind and state.")
	for _, c := range counts {
		w.sample(w.sampleName(name, "counter"), `kind="`+c.Kind+`",state="`+c.State+`"`, float64(c.Count))
	}
}

// journal is the journal of the volume, as long as the volume is this container's.
func (w *writer) journal(c control.JournalCounts) {
	one := func(name, kind, unit, help string, value float64) {
		w.head(name, kind, unit, help)
		w.sample(w.sampleName(name, kind), "", value)
	}
	one("rlminit_journal_records", "counter", "", "Records appended to the journal.", float64(c.Records))
	one("rlminit_journal_written_bytes", "counter", "bytes", "Bytes appended to the journal.", float64(c.Bytes))
	one("rlminit_journal_refused", "counter", "", "Records that the disk refused, and with them the command.", float64(c.Refused))
	one("rlminit_journal_dropped", "counter", "", "Records that the disk refused, and that no command waited for.", float64(c.Dropped))
	one("rlminit_journal_segments", "counter", "", "Segments begun.", float64(c.Segments))
	one("rlminit_journal_segment_bytes", "gauge", "bytes", "Size of the segment that is written.", float64(c.SegmentBytes))
	const synced = "rlminit_journal_sync_seconds"
	w.head(synced, "summary", "seconds", "How long the journal has waited for fsync.")
	w.sample(synced+"_count", "", float64(c.Syncs))
	w.sample(synced+"_sum", "", c.SyncS)
}
