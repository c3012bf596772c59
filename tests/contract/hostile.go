package contract

import (
	"fmt"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// SupervisorCannotBeTraced: a service that kills its supervisor over and over,
// as it may, does not get at the memory of the next one, not even in its first
// moments; and nobody else notices.
func SupervisorCannotBeTraced(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`tracer: {command: [nasty, trace, "12"], type: oneshot, enabled: false, stop: {timeout: 200ms}}`)})
	pids := several(b, 1)
	b.Run("start", "--no-wait", "tracer")
	box.Eventually(b, 2*long, "the tracer is through", func() (bool, any) {
		r := b.Run("logs", "tracer")
		return strings.Contains(r.Out, "traced "), r
	})
	if out := b.Must("logs", "tracer"); !strings.Contains(out, "not traced in ") || strings.Contains(out, "not traced in 0") {
		t.Errorf("the tracer says %q", out)
	}
	b.AwaitReady()
	unharmed(b, pids)
}

// SlotIsSpoilt: whatever a service puts in place of what is written in the
// service directory, the others are served.
func SlotIsSpoilt(t *testing.T, start New) {
	b, s := alice(t, start, Config())
	b.Must("profile", "create", "bob")
	before := b.Await("gateway-bob", "running")
	b.Shell(box.Service, `cd /run/rlminit/services/gateway-bob
		rm -f status.json; mkfifo status.json .status.json .service.yaml
		mkdir -p /tmp/attacker && echo precious >/tmp/attacker/elsewhere`)
	b.As(box.Service, "kill", "-9", fmt.Sprint(*before.PID))
	restarted(b, "gateway-bob", *before.PID)
	b.Must("restart", "alice")
	b.Shell(box.Service, `cd /run/rlminit/services/gateway-bob
		rm -f status.json .status.json; ln -s /tmp/attacker/elsewhere status.json; ln -s /tmp/attacker/elsewhere .status.json`)
	b.Must("restart", "bob")
	b.Shell(box.Service, `cd /run/rlminit/services/gateway-bob
		rm -f status.json .status.json; mkdir -p status.json/x .status.json/x notify.d; rm -f notify; mkdir notify`)
	b.Must("restart", "bob")
	b.Must("restart", "alice")
	if out := b.Shell(box.Service, `cat /tmp/attacker/elsewhere; rm -r /tmp/attacker`); out != "precious\n" {
		t.Errorf("a file elsewhere holds %q", out)
	}
	// What is published of the other is current, and outlives a supervisor.
	now := b.Await("gateway-alice", "running")
	if *now.PID == *s.PID {
		t.Error("alice was not restarted")
	}
	old := b.Supervisor()
	kill(b, "KILL", old.PID)
	replaced(b, old.PID)
	if again := b.Await("gateway-alice", "running"); *again.PID != *now.PID || again.Restarts != now.Restarts {
		t.Errorf("after another supervisor: %s", box.Describe(again))
	}
}

// StoredDescriptorsFlood: a service that stores more descriptors than can be
// passed to it loses the rest, and is restarted all the same.
func StoredDescriptorsFlood(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`hoarder: {command: [nasty, hoard, "200"], ready: {notify: true}, restart: {delay: 50ms}}`)})
	s := b.Await("hoarder", "running")
	for range 2 {
		b.As(box.Service, "kill", "-9", fmt.Sprint(*s.PID))
		s = restarted(b, "hoarder", *s.PID)
	}
	b.Must("stop", "hoarder")
}
