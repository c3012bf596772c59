package machine_test

import (
	"os"
	"testing"

	"rlminit/supervise/machine"
	"rlminit/tests/explorelife"
)

// The test visits every state that a small policy can reach, with every event, possible
// or not, and with the supervisor killed at every point. No invariant breaks, and the
// table in STATES.md is what the test finds. With -short it visits the states of the
// first three policies, and does not look at the table.
func TestEveryReachableState(t *testing.T) {
	var all explorelife.Result
	policies := explorelife.Policies()
	if testing.Short() {
		policies = policies[:3]
	}
	for _, n := range policies {
		r, err := explorelife.Search(n.Policy)
		if err != nil {
			t.Fatalf("%s: %v", n.Name, err)
		}
		all.Merge(r)
		t.Logf("%-36s %6d states, %8d steps", n.Name, r.States, r.Steps)
	}
	if testing.Short() {
		return
	}
	pairs := 0
	for _, ph := range machine.Phases {
		for _, k := range machine.EventKinds {
			if all.Visits[explorelife.Pair{Phase: ph, Event: k}] == 0 {
				t.Errorf("never visited: phase %q, event %s", ph, k)
				continue
			}
			pairs++
		}
	}
	t.Logf("%d phases × %d events: %d of %d pairs visited", len(machine.Phases), len(machine.EventKinds),
		pairs, len(machine.Phases)*len(machine.EventKinds))

	text, err := os.ReadFile("STATES.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := explorelife.Replace(string(text), all.Markdown())
	if err != nil {
		t.Fatal(err)
	}
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatal("the table in STATES.md is stale; run: go generate ./supervise/machine")
	}
	if err := os.WriteFile("STATES.md", []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
