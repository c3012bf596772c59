package docker

import (
	"testing"
	"time"

	"rlminit/control"
	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// After a time in which nothing of the container ran, which no watchdog, no health
// check and no start would have survived, everything goes on; and what hangs
// afterwards is still found.
func TestPausedTimeIsNobodysFault(t *testing.T) {
	t.Parallel()
	b := start(t, box.Spec{Config: contract.Services(
		`guarded: {command: [gateway, --profile, guarded, --port, "8095"], ready: {notify: true}, watchdog: 1s}`,
		`asked: {command: [gateway, --profile, asked, --port, "8096"], ready: {notify: true}, health: {http: "http://127.0.0.1:8096/healthz", interval: 100ms, timeout: 1s, retries: 1}}`,
		`starting: {command: [bash, -c, "sleep 1; exec gateway --profile starting --port 8097"], ready: {http: "http://127.0.0.1:8097/healthz", timeout: 4s}}`)})
	b.Await("guarded", "running")
	b.Await("asked", "running")
	b.AwaitThat("starting", "has begun", func(s control.Service) bool { return s.PID != nil })
	before := b.Status()
	name := b.Place.(*Place).name
	for _, verb := range []string{"pause", "unpause"} {
		if _, err := must(nil, verb, name); err != nil {
			t.Fatal(err)
		}
		if verb == "pause" {
			time.Sleep(5 * time.Second) // what is tested is that it went by
		}
	}
	b.Await("starting", "running")
	for name, was := range before {
		if now := b.Status()[name]; now.Restarts != 0 || now.PID == nil || was.PID == nil || *now.PID != *was.PID {
			t.Errorf("%s: %s", name, box.Describe(now))
		}
	}
	b.Call(8095, "/fault/hang", "")
	b.AwaitThat("guarded", "is restarted when it hangs", func(s control.Service) bool { return s.Restarts == 1 && s.State == "running" })
}
