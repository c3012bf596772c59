package verbs

import (
	"fmt"
	"testing"

	"rlminit/fleet/agent"
)

// A drain waits for what the member has yet, and for what it had and is to run elsewhere; it
// names what nobody takes, and waits for nothing else.
func TestDrainPending(t *testing.T) {
	v := agent.NewView()
	apply := func(name string, value any) { v.Apply(agent.Change{Name: name, Value: value}) }
	apply("m0", &agent.Member{})
	apply("m1", &agent.Member{Labels: map[string]string{"zone": "a"}})
	apply("m0", &agent.Drain{})
	had := map[string]bool{}
	for _, name := range []string{"deleted", "left", "nowhere", "runs", "starts", "stopped", "vacant"} {
		had[name] = true
		apply(name, &agent.Profile{})
	}
	v.Apply(agent.Change{Name: "deleted", Gone: true, Value: (*agent.Profile)(nil)})
	for _, name := range []string{"runs", "starts", "other"} {
		apply(name, &agent.Owner{Member: "m1", Fence: 7})
	}
	apply("left", &agent.Owner{Member: "m0", Fence: 6})
	apply("late", &agent.Owner{Member: "m0", Fence: 5})
	apply("runs", &agent.Live{Fence: 7})
	apply("failed", &agent.Profile{}) // it was there, and did not run
	had["failed"] = false
	apply("stopped", &agent.Profile{Stopped: true})
	apply("nowhere", &agent.Profile{Labels: map[string]string{"zone": "b"}})
	d := drained{Member: "m0"}
	pending, nowhere := d.pending(v, had)
	if got := fmt.Sprintf("%q", pending); got != `["late is there yet" "left is there yet" "starts: it is starting" "vacant: the next to claim it is m1"]` {
		t.Errorf("pending: %s", got)
	}
	if got := fmt.Sprintf("%q", nowhere); got != `["nowhere: no member takes it: m1: it has no label zone=b; m0: it is drained"]` {
		t.Errorf("nowhere: %s", got)
	}
}
