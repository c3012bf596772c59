package contract

import (
	"regexp"
	"strconv"
	"testing"

	"rlminit/tests/box"
)

// ProbesAreCounted: the metrics have how long probes took and what came of them,
// what a service has written, and what the journal does; and go on with a
// supervisor that was put in another's place.
func ProbesAreCounted(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`web: {`+bash(`echo 1234567; exec sleep infinity`)+`, health: {exec: [bash, -c, "exit 0"], interval: 50ms, timeout: 10s}}`,
		`ill: {`+bash(`exec sleep infinity`)+`, health: {exec: [bash, -c, "exit 3"], interval: 50ms, timeout: 10s, action: none}}`,
		`idle: {`+bash(`exec sleep infinity`)+`}`)})
	counted := func(least float64) {
		t.Helper()
		box.Eventually(b, long, "probes are counted", func() (bool, any) {
			out := b.Must("metrics")
			web, ill := `{service="web",profile="",probe="health"}`, `{service="ill",profile="",probe="health"}`
			asked, failed := value(out, `rlminit_service_probe_seconds_count`+ill), value(out, `rlminit_service_probe_failures_total`+ill)
			return value(out, `rlminit_service_probe_seconds_count`+web) >= least && asked >= least && failed == asked &&
				value(out, `rlminit_service_probe_failures_total`+web) == 0 && value(out, `rlminit_service_probe_passed`+web) == 1 &&
				value(out, `rlminit_service_probe_passed`+ill) == 0 && value(out, `rlminit_service_probe_last_seconds`+web) > 0 &&
				value(out, `rlminit_service_probe_seconds_sum`+web) > 0, out
		})
	}
	counted(3)
	logged(b, "web", "1234567")
	out := b.Must("metrics")
	if n := value(out, `rlminit_service_log_written_bytes_total{service="web",profile=""}`); n != 8 {
		t.Errorf("web has written %v bytes, of 8", n)
	}
	if n := value(out, `rlminit_service_log_written_bytes_total{service="idle",profile=""}`); n != 0 {
		t.Errorf("idle has written %v bytes, of none", n)
	}
	if regexp.MustCompile(`probe[^\n]*service="idle"`).MatchString(out) {
		t.Errorf("idle has no probe:\n%s", out)
	}

	records, syncs := value(out, "rlminit_journal_records_total"), value(out, "rlminit_journal_sync_seconds_count")
	b.Must("stop", "idle")
	out = b.Must("metrics")
	if now := value(out, "rlminit_journal_records_total"); now <= records || records <= 0 {
		t.Errorf("%v records, and %v after a command", records, now)
	}
	if now := value(out, "rlminit_journal_sync_seconds_count"); now <= syncs || syncs <= 0 || value(out, "rlminit_journal_sync_seconds_sum") <= 0 {
		t.Errorf("%v fsyncs, and %v after a command, in %v s", syncs, now, value(out, "rlminit_journal_sync_seconds_sum"))
	}
	if refused := value(out, "rlminit_journal_refused_total"); refused != 0 {
		t.Errorf("%v records were refused", refused)
	}

	old := b.Supervisor()
	kill(b, "KILL", old.PID)
	replaced(b, old.PID)
	counted(3)
}

// value is the one of a sample in metrics; -1: there is none.
func value(metrics, sample string) float64 {
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(sample) + ` (\S+)$`).FindStringSubmatch(metrics)
	if m == nil {
		return -1
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return -1
	}
	return f
}
