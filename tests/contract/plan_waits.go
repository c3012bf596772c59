package contract

import (
	"encoding/json"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
)

// PlanWaits: a plan waits for approval over a kill of the supervisor and a restart of the
// container, with its secrets, until it is applied by its hash or withdrawn; one whose base
// has changed says so.
func PlanWaits(t *testing.T, start New) {
	b, _ := alice(t, start, Config())
	file := b.Home() + "/agents.yaml"
	b.Write(box.Service, file, planOfTwo)
	waiting := func() (list []control.ProposedPlan) {
		t.Helper()
		if err := json.Unmarshal([]byte(b.Must("plan", "proposed", "--json")), &list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	if out := b.Must("plan", "-f", file, "--propose", "--by", "bob"); !strings.Contains(out, "approve with: rlminit apply --approve sha256:") {
		t.Errorf("people read\n%s", out)
	}
	first := waiting()
	if len(first) != 1 || !first[0].Current || first[0].By != "bob" || first[0].Summary.Create != 1 {
		t.Fatalf("%+v", first)
	}
	old := b.Supervisor().PID
	kill(b, "KILL", old)
	replaced(b, old)
	if now := waiting(); len(now) != 1 || now[0].Hash != first[0].Hash {
		t.Fatalf("after a kill %+v", now)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Again()
	b.Shell(box.Service, "rm "+file) // the secrets wait with the plan
	exits(b, 9, "apply", "--approve", first[0].Hash, "--steady", "200ms", "--by", "alice")
	if r := revisions(b); len(r) != 1 || r[0].Hash != first[0].Hash || r[0].By != "alice" {
		t.Errorf("%+v", r)
	}
	if self := b.Call(*b.Status()["gateway-alice"].Port, "/self"); !strings.Contains(self, "API_TOKEN=hunter2") {
		t.Errorf("alice has %s", self)
	}
	b.Fails(4, "no plan waits under", "apply", "--approve", first[0].Hash)

	b.Write(box.Service, file, strings.Replace(planOfTwo, "blue", "red", 1))
	b.Must("plan", "-f", file, "--propose")
	b.Must("profile", "set", "alice", "COLOUR=green", "--restart")
	now := waiting()
	if len(now) != 1 || now[0].Current || !strings.Contains(now[0].Why, "was applied since") && !strings.Contains(now[0].Why, "were changed since") {
		t.Fatalf("its base has changed: %+v", now)
	}
	b.Fails(17, "does not fit what there is", "apply", "--approve", now[0].Hash)
	b.Must("plan", "withdraw", now[0].Hash, "--by", "carol")
	if now := waiting(); len(now) != 0 {
		t.Errorf("withdrawn: %+v", now)
	}
	if out := b.Must("events", "--type", "plan_withdrawn"); !strings.Contains(out, "was withdrawn (carol, by uid ") {
		t.Errorf("the journal has %s", out)
	}
}
