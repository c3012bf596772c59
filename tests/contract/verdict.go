package contract

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
)

// Judged is a service with the verdict that it comes to.
type Judged struct{ Name, keys, Verdict, Code string }

// Rows has a service for each row of the table in docs/json.md that needs no other start of the
// container; RefusedAtBoot has those that do.
var Rows = []Judged{
	{"runs", "command: [sleep, infinity]", "ok", "running"},
	{"done", "type: oneshot, command: ['true']", "ok", "completed"},
	{"left", "command: ['true'], restart: no", "ok", "completed"},
	{"flaps", bash("echo >>$RLMINIT_HOME/flaps; [ $(wc -l <$RLMINIT_HOME/flaps) -le 3 ] && exit 1; exec sleep infinity") + ", restart: {delay: 10ms}", "ok", "running"},
	{"restarts", bash("trap 'until [ -e $RLMINIT_HOME/end ]; do sleep 0.1; done; exit 0' TERM; while :; do sleep 0.1; done") + ", stop: {timeout: 1h}", "pending", "restarting"},
	{"starts", "command: [sleep, infinity], ready: {notify: true, timeout: 1h}", "pending", "starting"},
	{"waits", "command: [sleep, infinity], requires: [starts]", "pending", "waiting"},
	{"rests", "command: ['true'], restart: {delay: 1h}", "pending", "backoff"},
	{"failed", "command: ['false'], ready: {notify: true}, restart: {limit: 1, retry_failed: 0s}", "ill", "failed"},
	{"backs-off", "command: ['false'], restart: {delay: 1h}", "ill", "backoff_failed"},
	{"broke", "command: ['false'], restart: no", "ill", "exited_failed"},
	{"sick", "command: [sleep, infinity], health: {exec: ['false'], interval: 100ms, retries: 1, action: none}", "ill", "unhealthy"},
	{"behind-ill", "command: [sleep, infinity], requires: [failed]", "ill", "waiting_ill"},
	{"disabled", "command: [sleep, infinity], enabled: false", "off", "disabled"},
	{"behind-off", "command: [sleep, infinity], requires: [disabled]", "off", "waiting_off"},
	{"halted", "command: [sleep, infinity]", "off", "stopped"},
	{"paused", "command: [sleep, infinity]", "off", "stopped"},
	{"nightly", "type: oneshot, command: ['true'], schedule: {cron: '0 0 1 1 *'}", "off", "scheduled"},
	{"missed", "type: oneshot, command: ['false'], restart: no, schedule: {cron: '0 0 1 1 *'}", "off", "scheduled_failed"},
	{"leased", "command: [sleep, infinity], deadline: required", "off", "unclaimed"},
}

// RowsConfig is the section services of a configuration with all Rows.
func RowsConfig() string {
	services := []string{"services:"}
	for _, r := range Rows {
		services = append(services, fmt.Sprintf("  %s: {%s}", r.Name, r.keys))
	}
	return strings.Join(services, "\n") + "\n"
}

// Judge brings the services of RowsConfig to their verdicts, and returns how many have each.
func Judge(b *box.Box) (counts map[string]int) {
	b.Helper()
	b.Must("stop", "halted")
	b.Must("stop", "--runtime", "paused")
	b.Run("start", "missed")
	b.Await("restarts", "running")
	b.Must("restart", "--no-wait", "restarts")
	b.Cleanup(func() { b.Shell(box.Root, "touch "+b.Home()+"/end") })
	counts = map[string]int{}
	for _, r := range Rows {
		b.AwaitThat(r.Name, "is "+r.Verdict+" ("+r.Code+")", func(s control.Service) bool {
			return s.Verdict == r.Verdict && s.ReasonCode == r.Code && s.Flapping == (r.Name == "flaps")
		})
		counts[r.Verdict]++
	}
	return counts
}

// agree holds that status -q, health, doctor and metrics say of services what their rows say.
func agree(b *box.Box, rows ...Judged) {
	b.Helper()
	counts := map[string]int{}
	doctor, metrics := b.Run("doctor").Out, b.Must("metrics")
	for _, r := range rows {
		counts[r.Verdict]++
		name := strings.TrimPrefix(r.Name, "gateway-") // as people call it
		if told := strings.Contains(doctor, name+" is ill: "); told != (r.Verdict == "ill") {
			b.Errorf("doctor tells that %s is ill: %v", name, told)
		}
		profile := ""
		if name != r.Name {
			profile = name
		}
		if line := fmt.Sprintf(`rlminit_service_verdict{service=%q,profile=%q,verdict=%q} 1`, r.Name, profile, r.Verdict); !strings.Contains(metrics, line) {
			b.Errorf("metrics lack %s", line)
		}
	}
	want := control.ExitDone
	if counts["ill"] > 0 {
		want = control.ExitNotRunning
	}
	if r := b.Run("status", "-q"); r.Code != want {
		b.Errorf("status -q, where %d are ill: %v", counts["ill"], r)
	}
	var health control.Health
	decode(b, b.Run("health", "--level", "ready", "--json").Out, &health)
	if len(health.Reasons) != counts["ill"]+counts["pending"] {
		b.Errorf("health has %d reasons where %d services are ill and %d pending:\n%s",
			len(health.Reasons), counts["ill"], counts["pending"], strings.Join(health.Reasons, "\n"))
	}
}

// OneVerdict: status, status -q, health, doctor, metrics, hooks and --state say the same
// of each service, as the table says. The page and top are asked in tests/beside.
func OneVerdict(t *testing.T, start New) {
	var ill, steady []string
	for _, r := range Rows {
		if r.Verdict == "ill" {
			ill = append(ill, r.Name)
		}
		if r.Name != "flaps" { // which is ill between its restarts
			steady = append(steady, r.Name)
		}
	}
	b := start(t, box.Spec{Config: Config(RowsConfig()) + "hooks:\n  - {on: [ill, well], services: [" + strings.Join(steady, ", ") + "], " + toldIn("verdicts") + "}\n"})
	Judge(b)
	agree(b, Rows...)
	awaitTold(b, "verdicts", func(l hookLine) string { return l.To }, slices.Repeat([]string{"ill"}, len(ill))...)
	b.Must("stop", "--all", "--state", "ill")
	for _, r := range Rows {
		if r.Verdict != "ill" {
			if s := b.Status()[r.Name]; s.Verdict != r.Verdict {
				t.Errorf("those that are ill were stopped, and %s is %s", r.Name, box.Describe(s))
			}
		}
	}
	for _, name := range ill {
		if s := b.AwaitThat(name, "is off", func(s control.Service) bool { return s.Verdict == "off" }); s.State != "stopped" {
			t.Error(box.Describe(s))
		}
	}
	awaitTold(b, "verdicts", func(l hookLine) string { return l.To }, slices.Concat(
		slices.Repeat([]string{"ill"}, len(ill)), slices.Repeat([]string{"well"}, len(ill)))...)
}

// RefusedAtBoot: a profile whose definition is refused when the container starts again is
// ill, wanted as it was recorded, and told everywhere. Mended, it runs again.
func RefusedAtBoot(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config("")})
	b.Must("profile", "create", "alice", "bob", "carol", "dave")
	b.Must("stop", "carol", "dave")
	for _, name := range []string{"alice", "bob"} {
		b.Await("gateway-"+name, "running")
	}
	b.Must("health", "--level", "ready")
	b.Write(box.Service, b.Home()+"/profiles/bob/profile.yaml", "no_such_key: 1\n")
	b.Run("reload")
	b.AwaitThat("gateway-bob", "runs, and its newer definition is refused", func(s control.Service) bool { return s.Refused != "" })
	agree(b, Judged{Name: "gateway-alice", Verdict: "ok"}, Judged{Name: "gateway-bob", Verdict: "ok"}, Judged{Name: "gateway-carol", Verdict: "off"}, Judged{Name: "gateway-dave", Verdict: "off"})
	for _, name := range []string{"alice", "carol"} {
		b.Write(box.Service, b.Home()+"/profiles/"+name+"/profile.yaml", "no_such_key: 1\n")
	}
	b.Write(box.Service, b.Home()+"/profiles/bob/profile.yaml", "")
	stopped(b)
	b.Again()
	b.Await("gateway-bob", "running")
	check := func(when string) {
		t.Helper()
		agree(b, Judged{Name: "gateway-alice", Verdict: "ill"}, Judged{Name: "gateway-bob", Verdict: "ok"}, Judged{Name: "gateway-carol", Verdict: "off"}, Judged{Name: "gateway-dave", Verdict: "off"})
		alice, carol, dave := b.Status()["gateway-alice"], b.Status()["gateway-carol"], b.Status()["gateway-dave"]
		if dave.Verdict != "off" || dave.ReasonCode != "at_rest" {
			t.Errorf("%s, dave: %s, verdict %s (%s)", when, box.Describe(dave), dave.Verdict, dave.ReasonCode)
		}
		if alice.Verdict != "ill" || alice.ReasonCode != "definition_refused" || alice.Desired != "running" || alice.State != "failed" {
			t.Errorf("%s, alice: %s, verdict %s (%s)", when, box.Describe(alice), alice.Verdict, alice.ReasonCode)
		}
		if carol.Verdict != "off" || carol.Desired != "stopped" || carol.Refused == "" {
			t.Errorf("%s, carol: %s, verdict %s, refused %q", when, box.Describe(carol), carol.Verdict, carol.Refused)
		}
		b.Fails(1, "alice: ", "health", "--level", "ready")
	}
	check("after a boot")
	old := b.Supervisor().PID
	kill(b, "KILL", old)
	replaced(b, old)
	check("after the supervisor was replaced")
	stopped(b)
	b.Again()
	check("after another boot")
	b.Write(box.Service, b.Home()+"/profiles/alice/profile.yaml", "")
	b.Run("reload")
	b.Await("gateway-alice", "running")
	b.Must("health", "--level", "ready")
}

// stopped has the container stopped.
func stopped(b *box.Box) {
	b.Helper()
	if err := b.Stop(); err != nil {
		b.Fatal(err)
	}
}

// decode reads JSON that a verb has written.
func decode(b *box.Box, text string, into any) {
	b.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		b.Fatalf("%v: %s", err, text)
	}
}
