package metrics

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"rlminit/control"
)

func some() Snapshot {
	profile, yes, up := "al\"ice\\\n", true, 12.5
	return Snapshot{Version: "1.2", Services: []control.Service{
		{
			Name: "gateway-alice", Profile: &profile, State: "running", Desired: "running", Ready: &yes, UptimeS: &up, Restarts: 3,
			Usage: &control.Usage{MemoryBytes: 1 << 30, CPUS: 0.25, Processes: 2},
		},
		{Name: "web", State: "failed", Desired: "running", LogLostBytes: 7},
		{Name: "rlminit-init", Type: "tier", State: "running", Usage: &control.Usage{MemoryBytes: 4096, CPUS: 1}},
	}, Counts: control.Counts{
		Journal: &control.JournalCounts{Records: 5, Bytes: 700, Syncs: 4, SyncS: 0.5, Refused: 1, Dropped: 2, Segments: 3, SegmentBytes: 650},
		Services: []control.ServiceCounts{
			{
				Service: "gateway-alice", LogBytes: 1234,
				Ready:  &control.ProbeCounts{Asked: 3, Failed: 2, TookS: 0.75, LastS: 0.25, Passed: true},
				Health: &control.ProbeCounts{Asked: 9, Failed: 1, TookS: 2, LastS: 3},
			},
			{Service: "gone-meanwhile", LogBytes: 1},
		},
		Jobs: []control.JobCounts{{Kind: "run", State: "succeeded", Count: 4}},
	}}
}

// What is written has the grammar of OpenMetrics: a family's lines stand
// together, TYPE, UNIT and HELP before its samples and once each, and every
// sample belongs to the family above it.
func TestOpenMetricsGrammar(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, OpenMetrics, some()); err != nil {
		t.Fatal(err)
	}
	meta := regexp.MustCompile(`^# (TYPE|UNIT|HELP) ([a-z_]+) (.+)$`)
	sample := regexp.MustCompile(`^([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+)\})? (\d[0-9.e+-]*)$`)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if lines[len(lines)-1] != "# EOF" {
		t.Errorf("it ends with %q", lines[len(lines)-1])
	}
	family, kind := "", ""
	seen := map[string]bool{}
	for _, line := range lines[:len(lines)-1] {
		if m := meta.FindStringSubmatch(line); m != nil {
			if m[1] == "TYPE" {
				family, kind = m[2], m[3]
			}
			if m[1] == "UNIT" && !strings.HasSuffix(family, "_"+m[3]) {
				t.Errorf("%s does not end in its unit: %q", family, line)
			}
			if m[2] != family || seen[m[1]+family] {
				t.Errorf("out of place: %q", line)
			}
			seen[m[1]+family] = true
			continue
		}
		m := sample.FindStringSubmatch(line)
		want := []string{family}
		switch kind {
		case "counter":
			want = []string{family + "_total"}
		case "summary":
			want = []string{family + "_count", family + "_sum"}
		}
		if m == nil || !slices.Contains(want, m[1]) || seen[m[1]+m[2]] {
			t.Errorf("no sample of %s: %q", family, line)
			continue
		}
		seen[m[1]+m[2]] = true
	}
	for _, want := range []string{
		"rlminit_service_restarts_total{service=\"gateway-alice\",profile=\"al\\\"ice\\\\\\n\"} 3\n",
		"rlminit_services{state=\"failed\"} 1\n", "rlminit_services{state=\"running\"} 1\n",
		"rlminit_service_up{service=\"web\",profile=\"\"} 0\n", "rlminit_service_memory_bytes{service=\"gateway-alice\",profile=\"al\\\"ice\\\\\\n\"} 1.073741824e+09\n",
		"rlminit_process_cpu_seconds_total{process=\"rlminit-init\"} 1\n", "rlminit_service_log_lost_bytes_total{service=\"web\",profile=\"\"} 7\n",
		"rlminit_service_log_written_bytes_total{service=\"gateway-alice\",profile=\"al\\\"ice\\\\\\n\"} 1234\n",
		"\nrlminit_service_probe_seconds_count{service=\"gateway-alice\",profile=\"al\\\"ice\\\\\\n\",probe=\"ready\"} 3\nrlminit_service_probe_seconds_sum{service=\"gateway-alice\",profile=\"al\\\"ice\\\\\\n\",probe=\"ready\"} 0.75\n",
		"\",probe=\"health\"} 3\n", "rlminit_service_probe_passed{service=\"gateway-alice\",profile=\"al\\\"ice\\\\\\n\",probe=\"health\"} 0\n",
		"\nrlminit_journal_records_total 5\n", "\nrlminit_journal_written_bytes_total 700\n", "\nrlminit_journal_refused_total 1\n", "\nrlminit_journal_dropped_total 2\n",
		"\nrlminit_journal_segments_total 3\n", "\nrlminit_journal_segment_bytes 650\n", "\nrlminit_journal_sync_seconds_count 4\nrlminit_journal_sync_seconds_sum 0.5\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %s in\n%s", want, out.String())
		}
	}
}

// A service of which nothing was counted has a counter all the same; one that is
// gone meanwhile has none; nor has a journal that there is not.
func TestNothingCounted(t *testing.T) {
	s := some()
	s.Services = append(s.Services, control.Service{Name: "new", State: "running"})
	var out bytes.Buffer
	if err := Write(&out, OpenMetrics, s); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "gone-meanwhile") || !strings.Contains(text, `written_bytes_total{service="new",profile=""} 0`) || strings.Contains(text, `tes_total{service="rlminit-init"`) {
		t.Error(text)
	}
	s.Counts.Journal = nil
	out.Reset()
	if err := Write(&out, OpenMetrics, s); err != nil || strings.Contains(out.String(), "journal") {
		t.Errorf("%v: a journal that there is not in\n%s", err, out.String())
	}
}

// In the older format a counter's family has the name of its samples.
func TestPrometheusFormat(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, Prometheus, some()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# TYPE rlminit_service_restarts_total counter\n", "\nrlminit_service_restarts_total{"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q", want)
		}
	}
	if strings.Contains(out.String(), "# EOF") || strings.Contains(out.String(), "# UNIT") {
		t.Error("it is OpenMetrics")
	}
	for header, want := range map[string]string{
		"": Prometheus, "text/plain": Prometheus, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5": OpenMetrics,
	} {
		if got := Accepted(header); got != want {
			t.Errorf("%q gets %q", header, got)
		}
	}
}

func BenchmarkThousand(b *testing.B) {
	s := some()
	one := s.Services[0]
	for i := range 1000 {
		one.Name = fmt.Sprintf("gateway-%d", i)
		s.Services = append(s.Services, one)
	}
	for b.Loop() {
		if err := Write(io.Discard, OpenMetrics, s); err != nil {
			b.Fatal(err)
		}
	}
}

// TestExamplesNameMetrics: the example's alerts and dashboard speak of metrics and labels that
// there are.
func TestExamplesNameMetrics(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, OpenMetrics, some()); err != nil {
		t.Fatal(err)
	}
	for file, expression := range map[string]string{"alerts.yaml": `(?m)^ +expr: (.*)$`, "dashboard.json": `(?m)^ +"(?:expr|query)": (".*rlminit_.*"),?$`} {
		text, err := os.ReadFile("../examples/metrics/" + file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(expression).FindAllSubmatch(text, -1)
		if len(found) < 5 {
			t.Fatalf("%s has %d expressions", file, len(found))
		}
		for _, e := range found {
			for _, name := range regexp.MustCompile(`rlminit_[a-z_]+`).FindAll(e[1], -1) {
				if !strings.Contains(out.String(), "\n"+string(name)+"{") && !strings.Contains(out.String(), "\n"+string(name)+" ") && !strings.Contains(out.String(), "# TYPE "+string(name)+" gauge") {
					t.Errorf("%s: %s: there is no %s", file, e[1], name)
				}
			}
		}
		for _, m := range regexp.MustCompile(`\{\{([a-z]+)\}\}`).FindAllSubmatch(text, -1) {
			if label := string(m[1]); label != "instance" && !strings.Contains(out.String(), label+`="`) {
				t.Errorf("%s: no metric has the label %s", file, label)
			}
		}
	}
}
