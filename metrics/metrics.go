// Package metrics writes what rlminit and its services are like in the text
// format of OpenMetrics 1.0, or in the older one of Prometheus (0.0.4).
//
// It is a pure function of what it is given: it asks nobody, keeps nothing, and
// so costs nothing between two scrapes.
package metrics

import (
	"bufio"
	"io"
	"strconv"
	"strings"

	"rlminit/control"
)

// The media types of the two formats.
const (
	OpenMetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8"
	Prometheus  = "text/plain; version=0.0.4; charset=utf-8"
)

// Accepted is the format that a scraper who sends this Accept header gets.
func Accepted(header string) string {
	if strings.Contains(header, "application/openmetrics-text") {
		return OpenMetrics
	}
	return Prometheus
}

// Snapshot is what is written.
type Snapshot struct {
	Version  string
	Services []control.Service // tiers too, of the type "tier"
	Counts   control.Counts
}

// states are those that a service can be in.
var states = []string{"stopped", "waiting", "starting", "running", "stopping", "backoff", "failed", "exited"}

// family is one metric of every service.
type family struct {
	name, kind, help string
	unit             string // the end of the name that OpenMetrics wants to be told
	value            func(*control.Service) (float64, bool)
}

// families are in the order in which they are written.
var families = []family{
	{"rlminit_service_up", "gauge", "Whether the service runs.", "", func(s *control.Service) (float64, bool) { return truth(s.State == "running"), true }},
	{"rlminit_service_wanted", "gauge", "Whether the service is meant to run.", "", func(s *control.Service) (float64, bool) { return truth(s.Desired == "running"), true }},
	{"rlminit_service_failed", "gauge", "Whether the service has failed, and is not tried again by itself.", "", func(s *control.Service) (float64, bool) { return truth(s.State == "failed"), true }},
	{"rlminit_service_ready", "gauge", "Whether the service has said or shown that it is ready; of those that have a probe.", "", func(s *control.Service) (float64, bool) { return known(s.Ready) }},
	{"rlminit_service_healthy", "gauge", "Whether the last health probe passed; of those that have one.", "", func(s *control.Service) (float64, bool) { return known(s.Healthy) }},
	{"rlminit_service_restarts", "counter", "Restarts since rlminit started.", "", func(s *control.Service) (float64, bool) { return float64(s.Restarts), true }},
	{"rlminit_service_uptime_seconds", "gauge", "How long the service has been running.", "seconds", func(s *control.Service) (float64, bool) {
		if s.UptimeS == nil {
			return 0, false
		}
		return *s.UptimeS, true
	}},
	{"rlminit_service_log_lost_bytes", "counter", "What the log of the service could not keep.", "bytes", func(s *control.Service) (float64, bool) { return float64(s.LogLostBytes), true }},
	{"rlminit_service_log_unsent_lines", "gauge", "Lines of the service's log that the receiver does not have, for all that is known; of those that are sent on.", "lines", func(s *control.Service) (float64, bool) {
		if s.LogUnsentLines == nil {
			return 0, false
		}
		return float64(*s.LogUnsentLines), true
	}},
	{"rlminit_service_memory_bytes", "gauge", "Resident memory of the service's processes; what they share counts for each.", "bytes", func(s *control.Service) (float64, bool) {
		if s.Usage == nil {
			return 0, false
		}
		return float64(s.Usage.MemoryBytes), true
	}},
	{"rlminit_service_cpu_seconds", "counter", "CPU time of the processes that the service has now, and of those that they have waited for.", "seconds", func(s *control.Service) (float64, bool) {
		if s.Usage == nil {
			return 0, false
		}
		return s.Usage.CPUS, true
	}},
	{"rlminit_service_processes", "gauge", "Processes of the service.", "", func(s *control.Service) (float64, bool) {
		if s.Usage == nil {
			return 0, false
		}
		return float64(s.Usage.Processes), true
	}},
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func known(b *bool) (float64, bool) {
	if b == nil {
		return 0, false
	}
	return truth(*b), true
}

// Write writes a snapshot in a format.
func Write(to io.Writer, format string, s Snapshot) error {
	w := &writer{out: bufio.NewWriterSize(to, 64<<10), open: format == OpenMetrics}
	w.head("rlminit_info", "gauge", "", "The rlminit that answers.")
	w.sample("rlminit_info", label("version", s.Version), 1)

	counts := map[string]int{}
	for _, service := range s.Services {
		if service.Type != "tier" {
			counts[service.State]++
			w.labels = append(w.labels, label("service", service.Name)+","+label("profile", text(service.Profile)))
		} else {
			w.labels = append(w.labels, "")
		}
	}
	w.head("rlminit_services", "gauge", "", "Services by state.")
	for _, state := range states {
		w.sample("rlminit_services", label("state", state), float64(counts[state]))
	}
	for _, f := range families {
		w.head(f.name, f.kind, f.unit, f.help)
		name := w.sampleName(f.name, f.kind)
		for i := range s.Services {
			if value, ok := f.value(&s.Services[i]); ok && w.labels[i] != "" {
				w.sample(name, w.labels[i], value)
			}
		}
	}
	w.counts(s)
	w.tiers(s.Services)
	if w.open {
		w.out.WriteString("# EOF\n")
	}
	return w.out.Flush()
}

// tiers are rlminit's own processes.
func (w *writer) tiers(services []control.Service) {
	w.head("rlminit_process_memory_bytes", "gauge", "bytes", "Resident memory of rlminit's own processes.")
	for _, s := range services {
		if s.Type == "tier" && s.Usage != nil {
			w.sample("rlminit_process_memory_bytes", label("process", s.Name), float64(s.Usage.MemoryBytes))
		}
	}
	w.head("rlminit_process_cpu_seconds", "counter", "seconds", "CPU time of rlminit's own processes.")
	for _, s := range services {
		if s.Type == "tier" && s.Usage != nil {
			w.sample(w.sampleName("rlminit_process_cpu_seconds", "counter"), label("process", s.Name), s.Usage.CPUS)
		}
	}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// writer writes one of the two formats. They differ in the names of counters,
// in units, and in the end.
type writer struct {
	out    *bufio.Writer
	open   bool
	line   []byte
	labels []string // of each of the snapshot's services; "": it is a tier
}

// sampleName is what the samples of a family are called.
func (w *writer) sampleName(name, kind string) string {
	if kind == "counter" {
		return name + "_total"
	}
	return name
}

func (w *writer) head(name, kind, unit, help string) {
	if !w.open {
		name = w.sampleName(name, kind) // there a family has the name of its samples
	}
	w.line = append(append(append(append(append(w.line[:0], "# TYPE "...), name...), ' '), kind...), '\n')
	if w.open && unit != "" {
		w.line = append(append(append(append(append(w.line, "# UNIT "...), name...), ' '), unit...), '\n')
	}
	w.line = append(append(append(append(append(w.line, "# HELP "...), name...), ' '), help...), '\n')
	w.out.Write(w.line)
}

// sample writes one value with its labels.
func (w *writer) sample(name, labels string, value float64) {
	w.line = append(w.line[:0], name...)
	if labels != "" {
		w.line = append(append(append(w.line, '{'), labels...), '}')
	}
	w.line = append(w.line, ' ')
	w.line = append(strconv.AppendFloat(w.line, value, 'g', -1, 64), '\n')
	w.out.Write(w.line)
}

// label is one of a sample's labels.
func label(name, value string) string { return name + `="` + escape(value) + `"` }

// escape is a label's value as the formats want it.
func escape(value string) string {
	if !strings.ContainsAny(value, "\\\"\n") {
		return value
	}
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value)
}
