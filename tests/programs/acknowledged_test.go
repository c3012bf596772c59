package programs

import (
	"fmt"
	"testing"

	"rlminit/tests/box"
)

// What was acknowledged holds, though tier 2 is killed the moment after.
func TestAcknowledgedIsKept(t *testing.T) {
	t.Parallel()
	b := services(t,
		`web: {command: [sleep, infinity], restart: {delay: 1ms, limit: 0}}`,
		`quiet: {command: [sleep, infinity], restart: {delay: 1ms, limit: 0}}`)
	b.Await("web", "running")
	b.Await("quiet", "running")
	for range 2 {
		old := b.Supervisor().PID
		b.Shell(box.Root, fmt.Sprintf("rlminit stop web --no-wait; rlminit stop quiet --runtime; kill -9 %d", old))
		b.AwaitReady()
		if s := b.Await("web", "stopped"); s.Desired != "stopped" {
			t.Errorf("after stop: %s", box.Describe(s))
		}
		if s := b.Await("quiet", "stopped"); s.Desired != "running" {
			t.Errorf("after stop --runtime: %s", box.Describe(s))
		}
		old = b.Supervisor().PID
		b.Shell(box.Root, fmt.Sprintf("rlminit start web quiet --no-wait; kill -9 %d", old))
		b.AwaitReady()
		b.Await("web", "running")
		b.Await("quiet", "running")
	}
}
