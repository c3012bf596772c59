package contract

import (
	"strings"
	"testing"

	"rlminit/tests/box"
)

// StopIsCut: a service whose time to stop is longer than what the container's stop leaves it is
// named by a boot and by check, and when it is killed for that.
func StopIsCut(t *testing.T, start New) {
	const config = `version: 1
user: "1000:1000"
stop_timeout: 3s
services:
  slow: {command: [sh, -c, "trap '' TERM; while :; do sleep 0.1; done"], stop: {timeout: 1m}}
  quick: {command: [sleep, "1000000"]}
`
	b := start(t, box.Spec{Config: config})
	b.Await("slow", "running")
	const caution = "services.slow.stop.timeout is 1m0s, and stop_timeout leaves a service 2.4s: it is killed then"
	if !strings.Contains(b.Printed(), caution) {
		t.Errorf("the boot says %s", b.Printed())
	}
	b.Write(box.Root, "/tmp/slow.yaml", config)
	if out := b.Must("check", "/tmp/slow.yaml"); !strings.Contains(out, caution) {
		t.Errorf("check says %q", out)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if said := b.Printed(); strings.Count(said, "the container's stop left a service less than its stop.timeout") != 1 || !strings.Contains(said, "service=slow had=2.") {
		t.Errorf("the stop says %s", said)
	}
}

// ReadyAddressIsTaken: another process listens where a service's readiness is asked for. The
// service waits for the address, and is not taken to be ready; who requires it waits too. Where
// that is meant to be so, services of one user that share an address, and one that is asked
// through another, start.
func ReadyAddressIsTaken(t *testing.T, start New) {
	b := start(t, box.Spec{Config: `version: 1
user: "1000:1000"
services:
  first: {command: [gateway, --profile, first, --port, "9119"], ready: {tcp: "127.0.0.1:9119"}}
  second:
    command: [gateway, --profile, second, --port, "9119"]
    ready: {tcp: "127.0.0.1:9119"}
    requires: [first]
    restart: {limit: 0}
  user: {command: [sleep, "1000000"], requires: [second]}
  share1: {command: [nasty, share, "127.0.0.1:9120"], ready: {tcp: "127.0.0.1:9120"}}
  share2: {command: [nasty, share, "127.0.0.1:9120"], ready: {tcp: "127.0.0.1:9120"}, requires: [share1]}
  behind: {command: [sleep, "1000000"], ready: {http: "http://127.0.0.1:9119/healthz"}, requires: [first]}
`})
	for _, name := range []string{"share1", "share2", "behind"} {
		b.Await(name, "running")
	}
	b.Await("first", "running")
	box.Eventually(b, long, "second waits for the address", func() (bool, any) {
		s := b.Status()["second"]
		return s.Reason != nil && strings.Contains(*s.Reason, "listens on") && strings.Contains(*s.Reason, "where ready asks whether it is up"), box.Describe(s)
	})
	if s := b.Status()["user"]; s.State != "waiting" {
		t.Errorf("who requires it: %s", box.Describe(s))
	}
}
