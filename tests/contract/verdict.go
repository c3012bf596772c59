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

// judged is a service of OneVerdict, with the verdict that it comes to.
type judged struct{ name, keys, verdict, code string }

// rows has a service for each row of the table in docs/json.md that needs no other
// container.
var rows = []judged{
	{"runs", "command: [sleep, infinity]", "ok", "running"},
	{"done", "type: oneshot, command: ['true']", "ok", "completed"},
	{"left", "command: ['true'], restart: no", "ok", "completed"},
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
	{"leased", "command: [sleep, infinity], deadline: required", "off", "unclaimed"},
}

// OneVerdict: status, status -q, health, doctor, metrics, hooks and --state say the same
// of each service, as the table says.
func OneVerdict(t *testing.T, start New) {
	var services []string
	for _, r := range rows {
		services = append(services, fmt.Sprintf("%s: {%s}", r.name, r.keys))
	}
	b := start(t, box.Spec{Config: Services(services...) + "hooks:\n  - {on: [ill, well], " + toldIn("verdicts") + "}\n"})
	b.Must("stop", "halted")
	b.Must("stop", "--runtime", "paused")
	counts := map[string]int{}
	var ill []string
	for _, r := range rows {
		b.AwaitThat(r.name, "is "+r.verdict+" ("+r.code+")", func(s control.Service) bool {
			return s.Verdict == r.verdict && s.ReasonCode == r.code
		})
		counts[r.verdict]++
		if r.verdict == "ill" {
			ill = append(ill, r.name)
		}
	}
	slices.Sort(ill)
	if r := b.Run("status", "-q"); r.Code != control.ExitNotRunning {
		t.Errorf("status -q: %v", r)
	}
	var health control.Health
	decode(b, b.Run("health", "--level", "ready", "--json").Out, &health)
	if len(health.Reasons) != counts["ill"]+counts["pending"] {
		t.Errorf("health has %d reasons where %d services are ill and %d pending:\n%s",
			len(health.Reasons), counts["ill"], counts["pending"], strings.Join(health.Reasons, "\n"))
	}
	doctor, metrics := b.Run("doctor").Out, b.Must("metrics")
	for _, r := range rows {
		if told := strings.Contains(doctor, r.name+" is ill: "); told != (r.verdict == "ill") {
			t.Errorf("doctor tells that %s is ill: %v", r.name, told)
		}
		if line := fmt.Sprintf(`rlminit_service_verdict{service=%q,profile="",verdict=%q} 1`, r.name, r.verdict); !strings.Contains(metrics, line) {
			t.Errorf("metrics lack %s", line)
		}
	}
	awaitTold(b, "verdicts", func(l hookLine) string { return l.To }, slices.Repeat([]string{"ill"}, len(ill))...)
	b.Must(append([]string{"stop"}, ill...)...)
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
	b.Must("profile", "create", "alice", "bob", "carol")
	b.Must("stop", "carol")
	for _, name := range []string{"alice", "bob"} {
		b.Await("gateway-"+name, "running")
	}
	b.Must("health", "--level", "ready")
	for _, name := range []string{"alice", "carol"} {
		b.Write(box.Service, b.Home()+"/profiles/"+name+"/profile.yaml", "no_such_key: 1\n")
	}
	stopped(b)
	b.Again()
	b.Await("gateway-bob", "running")
	check := func(when string) {
		t.Helper()
		alice, carol := b.Status()["gateway-alice"], b.Status()["gateway-carol"]
		if alice.Verdict != "ill" || alice.ReasonCode != "definition_refused" || alice.Desired != "running" || alice.State != "failed" {
			t.Errorf("%s, alice: %s, verdict %s (%s)", when, box.Describe(alice), alice.Verdict, alice.ReasonCode)
		}
		if carol.Verdict != "off" || carol.Desired != "stopped" || carol.Refused == "" {
			t.Errorf("%s, carol: %s, verdict %s, refused %q", when, box.Describe(carol), carol.Verdict, carol.Refused)
		}
		b.Fails(1, "alice: ", "health", "--level", "ready")
		if r := b.Run("status", "-q"); r.Code != control.ExitNotRunning {
			t.Errorf("%s, status -q: %v", when, r)
		}
		if out := b.Run("doctor").Out; !strings.Contains(out, "alice is ill: ") {
			t.Errorf("%s, doctor:\n%s", when, out)
		}
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
