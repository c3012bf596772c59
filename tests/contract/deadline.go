package contract

import (
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
