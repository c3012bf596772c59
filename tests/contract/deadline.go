package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/tests/box"
	"rlminit/wire"
)

// leased is a service that needs a deadline, and is deaf for TERM with all that it starts.
const leased = `leased: {deadline: required, restart: {delay: 10ms}, ` +
	`command: [bash, -c, "trap '' TERM; echo \"fence is $RLMINIT_FENCE\"; setsid bash -c \"trap '' TERM; sleep 7777; sleep 7777\" & sleep 7777; sleep 7777"]}`

// asks makes a request of the control socket, and returns the status of the answer.
func asks(b *box.Box, request string) string {
	b.Helper()
	status, _ := answered(b, request)
	return status
}

// answered does so too, and tells whether the answer names the service.
func answered(b *box.Box, request string) (status string, named bool) {
	b.Helper()
	r := b.As(box.Root, "nasty", "requests", "/run/rlminit/control.sock", "leased", request)
	fields := strings.Fields(r.Out)
	if r.Code != 0 || len(fields) < 5 {
		b.Fatalf("%s: %s", request, r)
	}
	return fields[3], fields[4] != "-"
}

// within is a time so far from now, as deadlines have it.
func within(d time.Duration) int64 { return int64(wire.SinceBoot() + d) }

func startLeased(b *box.Box, fence string, at int64) string {
	b.Helper()
	return asks(b, fmt.Sprintf(`POST /v1/services/leased/start {"deadline": {"at_ns": %d, "fence": %q}}`, at, fence))
}

// prolongs moves the deadline on, and tells whether status shows it. The answer names it if
// it was not.
func prolongs(b *box.Box, fence string, at int64) bool {
	b.Helper()
	code, refused := answered(b, fmt.Sprintf(`POST /v1/deadlines {"deadlines": [{"name": "leased", "fence": %q, "at_ns": %d}]}`, fence, at))
	if code != "200" {
		b.Fatalf("the request for deadlines is answered %s", code)
	}
	d := b.Status()["leased"].Deadline
	moved := d != nil && d.Fence == fence && d.AtNS == at
	if moved == refused {
		b.Errorf("it was moved on: %t, and the answer refuses it: %t", moved, refused)
	}
	return moved
}

// sleepers is how much of it is there.
func sleepers(b *box.Box) (n int) {
	for _, p := range b.Processes() {
		if strings.Contains(strings.Join(p.Args, " "), "7777") {
			n++
		}
	}
	return n
}

// endsAt waits until nothing of it is left, which is not before its deadline, and soon after.
func endsAt(b *box.Box, at int64) {
	b.Helper()
	box.Eventually(b, long, "the end of all of it", func() (bool, any) {
		n := sleepers(b)
		if left := time.Duration(at) - wire.SinceBoot(); n == 0 && left > 0 {
			b.Fatalf("it ended %s before its deadline", left)
		}
		return n == 0, n
	})
}

// Deadlines: a service with `deadline: required` runs only until the deadline that its
// start has brought, or that was moved on, whatever happens to the supervisor, and nothing
// else starts it.
func Deadlines(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(leased, `other: {requires: [leased], `+bash("exec sleep infinity")+`}`)})
	if s := b.Status()["leased"]; s.State != "stopped" || s.PID != nil {
		t.Errorf("at boot: %s", box.Describe(s))
	}
	b.Fails(10, "it runs only under a deadline", "start", "leased")
	b.Fails(125, "leased runs only under a deadline", "run", "--profile", "leased", "--", "true")
	for request, code := range map[string]string{
		startLeased(b, "6", within(-time.Second)): "409", startLeased(b, "a b", within(time.Hour)): "400",
		asks(b, `POST /v1/services/other/start {"deadline": {"at_ns": 9000000000000000000, "fence": "1"}}`): "400",
	} {
		if request != code {
			t.Errorf("a start that makes no sense is answered %s, not %s", request, code)
		}
	}

	at := within(5 * time.Second)
	if code := startLeased(b, "7", at); code != "200" {
		t.Fatalf("a start is answered %s", code)
	}
	b.Await("leased", "running")
	logged(b, "leased", "fence is 7")
	b.Must("run", "--profile", "leased", "--detach", "--", "sleep", "7777.5")
	box.Eventually(b, long, "a job of it", func() (bool, any) { n := sleepers(b); return n == 5, n })
	if code := startLeased(b, "8", within(time.Hour)); code != "409" {
		t.Errorf("a start beside a run is answered %s", code)
	}
	if prolongs(b, "8", at+1) || prolongs(b, "7", at-1) {
		t.Error("a deadline was moved under another fence, or brought forward")
	}
	if at += int64(3 * time.Second); !prolongs(b, "7", at) {
		t.Errorf("not moved on: %s", box.Describe(b.Status()["leased"]))
	}
	old := b.Supervisor()
	kill(b, "STOP", old.PID)
	endsAt(b, at)
	replaced(b, old.PID)
	b.Await("leased", "stopped")
	if prolongs(b, "7", within(time.Hour)) || sleepers(b) > 0 {
		t.Error("what has passed was moved on")
	}

	at = within(time.Hour)
	startLeased(b, "9", within(30*time.Second))
	b.Await("leased", "running")
	old = b.Supervisor()
	kill(b, "KILL", old.PID)
	replaced(b, old.PID)
	if !prolongs(b, "9", at) {
		t.Errorf("a successor does not move it on: %s", box.Describe(b.Status()["leased"]))
	}
	pid := *b.Await("leased", "running").PID
	b.Shell(box.Root, fmt.Sprintf("kill -KILL %d", pid))
	s := restarted(b, "leased", pid)
	if s.Deadline == nil || s.Deadline.Fence != "9" || s.Deadline.AtNS != at {
		t.Errorf("restarted: %s", box.Describe(s))
	}
	b.Must("stop", "leased")
	b.Must("start", "leased") // within its deadline
	b.Await("leased", "running")

	b.Run("shutdown")
	b.Again()
	b.AwaitThat("leased", "stays stopped", func(s control.Service) bool { return s.State == "stopped" && s.Deadline == nil })
	if sleepers(b) > 0 {
		t.Error("the next boot has started it")
	}
}

// ManyRequestsAtOnce: a service with control: true has each of 300 requests at once answered,
// and one that may not command each of 60, by the answer or by one that says that there are too
// many. Meanwhile the deadlines of 200 services are moved on, but for one that is refused.
func ManyRequestsAtOnce(t *testing.T, start New) {
	const n = 200
	many := func(count int, request string) string {
		return fmt.Sprintf(`command: [bash, -c, 'nasty at-once /run/rlminit/control.sock %d "%s"; exec sleep infinity']}`, count, request)
	}
	lines := []string{
		`commands: {control: true, ` + many(300, "GET /v1/services"),
		`reads: {control: read, ` + many(60, "GET /v1/services/reads"),
	}
	for i := range n {
		lines = append(lines, fmt.Sprintf(`s%d: {deadline: required, command: [sleep, infinity]}`, i))
	}
	b := start(t, box.Spec{Config: Services(lines...)})
	at := within(10 * time.Minute)
	var starts []string
	deadlines := []control.Deadline{{Name: "nobody", Fence: "7", AtNS: at}}
	for i := range n {
		starts = append(starts, fmt.Sprintf(`POST /v1/services/s%d/start {"deadline": {"at_ns": %d, "fence": "7"}}`, i, at))
		deadlines = append(deadlines, control.Deadline{Name: fmt.Sprintf("s%d", i), Fence: "7", AtNS: at + 1})
	}
	if r := b.As(box.Root, append([]string{"nasty", "requests", "/run/rlminit/control.sock", "leased"}, starts...)...); strings.Count(r.Out, " 200 ") != n {
		t.Fatalf("the starts: %s", r)
	}
	b.Must("restart", "commands")
	body, err := json.Marshal(control.Deadlines{Deadlines: deadlines})
	if err != nil {
		t.Fatal(err)
	}
	r := b.As(box.Root, "nasty", "requests", "/run/rlminit/control.sock", `{"refused":[{"name":"nobody","why":"there is no such service"}]}`, "POST /v1/deadlines "+string(body))
	if !strings.Contains(r.Out, "POST /v1/deadlines 200 shows it") {
		t.Errorf("the deadlines: %s", r)
	}
	box.Eventually(b, long, "all answers to one who may command", func() (bool, any) {
		out := b.Must("logs", "commands")
		return strings.Count(out, "at once: 300 map[200:300]") == 2, out
	})
	logged(b, "reads", "at once: 60")
	if out := b.Must("logs", "reads"); strings.Contains(out, "map[0:") {
		t.Errorf("requests of one who may not command are not answered: %s", out)
	}
}

// ClaimedAlone: what is asked of claimed profiles alone does nothing to anything else that has
// the name: neither to a service nor to a profile that runs without a deadline.
func ClaimedAlone(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config(`gateways:
  leased: {command: [sleep, infinity], deadline: required}
services:
  plain: {command: [sleep, infinity]}
`)})
	b.Must("profile", "create", "local")
	b.Must("profile", "create", "ours", "--kind", "leased", "--stopped")
	plain, local := *b.Await("plain", "running").PID, *b.Await("gateway-local", "running").PID
	for request, code := range map[string]string{
		`POST /v1/services/plain/stop {"claimed": true}`:                                                                           "404",
		`POST /v1/services/all/stop {"claimed": true}`:                                                                             "404",
		`POST /v1/services/gateway-local/stop {"claimed": true}`:                                                                   "404",
		`POST /v1/services/local/stop {"claimed": true}`:                                                                           "200", // with a problem for it
		`POST /v1/services/local/restart {"claimed": true}`:                                                                        "400",
		`POST /v1/services/a*/stop {"claimed": true}`:                                                                              "400",
		`POST /v1/services/ours/stop {"claimed": true}`:                                                                            "200",
		`POST /v1/profiles/local/replace {"text": "kind: leased\n", "claimed": true}`:                                              "403",
		`POST /v1/profiles/ours/replace {"text": "", "claimed": true}`:                                                             "403",
		`POST /v1/profiles {"name": "new", "claimed": true}`:                                                                       "403",
		`POST /v1/profiles {"name": "plain", "kind": "leased", "claimed": true}`:                                                   "400",
		fmt.Sprintf(`POST /v1/services/local/start {"claimed": true, "deadline": {"at_ns": %d, "fence": "7"}}`, within(time.Hour)): "400",
	} {
		if got := asks(b, request); got != code {
			t.Errorf("%s is answered %s, not %s", request, got, code)
		}
	}
	if now := b.Status(); *now["plain"].PID != plain || *now["gateway-local"].PID != local {
		t.Error("something that is not claimed was stopped")
	}
	asks(b, fmt.Sprintf(`POST /v1/services/ours/start {"claimed": true, "deadline": {"at_ns": %d, "fence": "7"}}`, within(time.Hour)))
	b.Await("gateway-ours", "running")
	if got := asks(b, `POST /v1/services/ours/stop {"claimed": true, "wait": {}}`); got != "200" || b.Status()["gateway-ours"].State != "stopped" {
		t.Errorf("the stop of a claimed one is answered %s: %s", got, box.Describe(b.Status()["gateway-ours"]))
	}
}
