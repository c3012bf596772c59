// Package metrics writes what rlminit and its services are like in the text
// format of OpenMetrics 1.0, or in the older one of Prometheus (0.0.4).
//
// It is a pure function of what it is given: it asks nobody, keeps nothing, and
// so costs nothing between two scrapes.
package metrics

import (
	"bufio"
	"fmt"
	"io"
	"math"
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
	value            func(*control.Service) float64
}

// none is the value of a metric that a service has not.
var none = math.NaN()

// families are in the order in which they are written.
var families = []family{
	{"rlminit_service_up", "gauge", "Whether the service runs.", "", func(s *control.Service) float64 { return truth(s.State == "running") }},
	{"rlminit_service_wanted", "gauge", "Whether the service is meant to run.", "", func(s *control.Service) float64 { return truth(s.Desired == "running") }},
	{"rlminit_service_failed", "gauge", "Whether the service has failed, and is not tried again by itself.", "", func(s *control.Service) float64 { return truth(s.State == "failed") }},
	{"rlminit_service_flapping", "gauge", "Whether the service restarted three times within ten minutes that nobody asked for.", "", func(s *control.Service) float64 { return truth(s.Flapping) }},
	{"rlminit_service_ready", "gauge", "Whether the service has said or shown that it is ready; of those that have a probe.", "", func(s *control.Service) float64 { return known(s.Ready) }},
	{"rlminit_service_healthy", "gauge", "Whether the last health probe passed; of those that have one.", "", func(s *control.Service) float64 { return known(s.Healthy) }},
	{"rlminit_service_restarts", "counter", "Restarts since rlminit started.", "", func(s *control.Service) float64 { return float64(s.Restarts) }},
	{"rlminit_service_uptime_seconds", "gauge", "How long the service has been running.", "seconds", func(s *control.Service) float64 { return number(s.UptimeS) }},
	{"rlminit_service_log_lost_bytes", "counter", "What the log of the service could not keep.", "bytes", func(s *control.Service) float64 { return float64(s.LogLostBytes) }},
	{"rlminit_service_log_unsent_lines", "gauge", "Lines of the service's log that the receiver does not have, for all that is known; of those that are sent on.", "lines", func(s *control.Service) float64 { return number(s.LogUnsentLines) }},
	{"rlminit_service_memory_bytes", "gauge", "Resident memory of the service's processes; what they share counts for each.", "bytes", func(s *control.Service) float64 {
		if s.Usage == nil {
			return none
		}
		return float64(s.Usage.MemoryBytes)
	}},
	{"rlminit_service_cpu_seconds", "counter", "CPU time of the processes that the service has now, and of those that they have waited for.", "seconds", func(s *control.Service) float64 {
		if s.Usage == nil {
			return none
		}
		return s.Usage.CPUS
	}},
	{"rlminit_service_processes", "gauge", "Processes of the service.", "", func(s *control.Service) float64 {
		if s.Usage == nil {
			return none
		}
		return float64(s.Usage.Processes)
	}},
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func number[T uint64 | float64](n *T) float64 {
	if n == nil {
		return none
	}
	return float64(*n)
}

func known(b *bool) float64 {
	if b == nil {
		return none
	}
	return truth(*b)
}

// Write writes a snapshot in a format.
func Write(to io.Writer, format string, s Snapshot) error {
	w := &writer{Text: NewText(to, format)}
	w.Head("rlminit_info", "gauge", "", "The rlminit that answers.")
	w.Sample(Label("version", s.Version), 1)

	counts := map[string]int{}
	for _, service := range s.Services {
		if service.Type != "tier" {
			counts[service.State]++
			w.labels = append(w.labels, Label("service", service.Name)+","+Label("profile", text(service.Profile)))
		} else {
			w.labels = append(w.labels, "")
		}
	}
	w.Head("rlminit_services", "gauge", "", "Services by state.")
	for _, state := range states {
		w.Sample(Label("state", state), float64(counts[state]))
	}
	for _, f := range families {
		w.Head(f.name, f.kind, f.unit, f.help)
		for i := range s.Services {
			if value := f.value(&s.Services[i]); !math.IsNaN(value) && w.labels[i] != "" {
				w.Sample(w.labels[i], value)
			}
		}
	}
	w.Head("rlminit_service_verdict", "gauge", "", "Whether the service is well, as status and health say: 1 for its verdict, 0 for each other.")
	for i := range s.Services {
		for _, v := range control.Verdicts {
			if w.labels[i] != "" {
				w.Sample(w.labels[i]+","+Label("verdict", v), truth(s.Services[i].Verdict == v))
			}
		}
	}
	w.counts(s)
	w.tiers(s.Services)
	return w.End()
}

// tiers are rlminit's own processes.
func (w *writer) tiers(services []control.Service) {
	w.Head("rlminit_process_memory_bytes", "gauge", "bytes", "Resident memory of rlminit's own processes.")
	for _, s := range services {
		if s.Type == "tier" && s.Usage != nil {
			w.Sample(Label("process", s.Name), float64(s.Usage.MemoryBytes))
		}
	}
	w.Head("rlminit_process_cpu_seconds", "counter", "seconds", "CPU time of rlminit's own processes.")
	for _, s := range services {
		if s.Type == "tier" && s.Usage != nil {
			w.Sample(Label("process", s.Name), s.Usage.CPUS)
		}
	}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// writer writes a snapshot.
type writer struct {
	*Text
	labels []string // of each of the snapshot's services; "": it is a tier
}

// Text writes one of the two formats. They differ in the names of counters, in units, and
// in the end.
type Text struct {
	out    *bufio.Writer
	open   bool
	family string // what the samples of the family are called that has begun
	line   []byte
}

// NewText is a text that begins, of a format that Accepted returns.
func NewText(to io.Writer, format string) *Text {
	return &Text{out: bufio.NewWriterSize(to, 64<<10), open: format == OpenMetrics}
}

// End ends it.
func (t *Text) End() error {
	if t.open {
		t.out.WriteString("# EOF\n")
	}
	return t.out.Flush()
}

// Head begins a family. The unit is the end of its name, if that is one.
func (t *Text) Head(name, kind, unit, help string) {
	t.family = name
	if kind == "counter" {
		t.family += "_total"
	}
	if !t.open {
		name = t.family // there a family has the name of its samples
	}
	fmt.Fprintf(t.out, "# TYPE %s %s\n", name, kind)
	if t.open && unit != "" {
		fmt.Fprintf(t.out, "# UNIT %s %s\n", name, unit)
	}
	fmt.Fprintf(t.out, "# HELP %s %s\n", name, help)
}

// One writes a family with one sample.
func (t *Text) One(name, kind, unit, help string, value float64) {
	t.Head(name, kind, unit, help)
	t.Sample("", value)
}

// Sample writes one value of the family, with its labels.
func (t *Text) Sample(labels string, value float64) { t.sample("", labels, value) }

// Sum writes what a summary is of: how many, and all together.
func (t *Text) Sum(labels string, count, sum float64) {
	t.sample("_count", labels, count)
	t.sample("_sum", labels, sum)
}

func (t *Text) sample(suffix, labels string, value float64) {
	t.line = append(append(t.line[:0], t.family...), suffix...)
	if labels != "" {
		t.line = append(append(append(t.line, '{'), labels...), '}')
	}
	t.line = strconv.AppendFloat(append(t.line, ' '), value, 'g', -1, 64)
	t.out.Write(append(t.line, '\n'))
}

// Label is one of a sample's labels.
func Label(name, value string) string { return name + `="` + escape(value) + `"` }

// escape is a label's value as the formats want it.
func escape(value string) string {
	if !strings.ContainsAny(value, "\\\"\n") {
		return value
	}
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value)
}
