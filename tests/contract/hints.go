package contract

import (
	"slices"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
)

// Hints: a verb that cannot do what was meant says what does it, and lists are in the order in
// which people count.
func Hints(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services("a: {command: [/no/such/program]}", "b: {command: [/no/such/program]}", "c: {command: [sleep, infinity]}")})
	b.Await("a", "failed")
	b.Await("b", "failed")
	b.Fails(8, "--state ok takes only those that are well", "restart", "--all", "--rolling")
	b.Must("restart", "--all", "--rolling", "--state", "ok", "--steady", "0")
	if out := b.Must("reload"); out != "nothing has changed\n2 failed before, and are still so: a, b; rlminit start --failed\n" {
		t.Errorf("a reload that changes nothing says %q", out)
	}
	if out := b.Must("operations"); !strings.Contains(out, " restart: done, 1 of 1 done: c (") {
		t.Errorf("the operations are\n%s", out)
	}
	b.Must("profile", "create", "chat-10", "chat-2", "chat-1")
	want := []string{"a", "b", "c", "gateway-chat-1", "gateway-chat-2", "gateway-chat-10"}
	var got []string
	var services []control.Service
	decode(b, b.Must("status", "--json"), &services)
	for _, s := range services {
		got = append(got, s.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("status has %q", got)
	}
	b.Fails(127, "rlminit exec --profile chat-1 -- COMMAND", "exec", "chat-1", "ls")
	b.Write(box.Service, b.Home()+"/agents.yaml", "version: 1\nprofiles:\n  alice: {}\n")
	b.Fails(1, "is a declared set of profiles, and no configuration; rlminit plan -f", "check", b.Home()+"/agents.yaml")
	b.Must("stop", "chat-2")
	b.Write(box.Service, b.Home()+"/profiles/chat-2/profile.yaml", "no_such_key: 1\n")
	b.Run("reload")
	b.Fails(1, "correct it, then rlminit reload", "start", "chat-2")
}
