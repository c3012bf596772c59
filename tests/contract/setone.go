package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/tests/box"
)

// SetOfOne: values given to one profile by its name are a revision, which its number takes
// back, and which a rollback without a number passes over.
func SetOfOne(t *testing.T, start New) {
	b := start(t, box.Spec{Config: kinds("")})
	b.Must("profile", "create", "alice", "bob", "idle")
	b.Must("stop", "idle")
	if err := b.Signal(int(unix.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	b.Again() // idle rests
	pids := map[string]int{}
	for _, name := range []string{"gateway-alice", "gateway-bob"} {
		pids[name] = *b.Await(name, "running").PID
	}
	set := func(args ...string) (p control.ProfileSet) {
		t.Helper()
		if err := json.Unmarshal([]byte(b.Must(append([]string{"profile", "set", "--json"}, args...)...)), &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	if got := asks(b, `PATCH /v1/profiles/* {"environment": {"COLOUR": "blue"}}`); got != "400" || len(revisions(b)) != 0 {
		t.Errorf("a PATCH of a pattern is answered %s, and there are revisions: %v", got, revisions(b))
	}
	if out := b.Must("profile", "set", "*", "COLOUR=blue"); !strings.Contains(out, "changed by revision 1") {
		t.Fatal(out)
	}
	if out := b.Must("profile", "set", "alice", "COLOUR=red", "--dry-run"); !strings.Contains(out, "environment.COLOUR: blue -> red") || len(revisions(b)) != 1 {
		t.Errorf("a dry run says %s", out)
	}
	if p := set("alice", "COLOUR=red"); p.Name != "alice" || p.Revision != 2 || !p.Outdated || p.Environment["COLOUR"] != "red" {
		t.Errorf("%+v", p)
	}
	if p := set("gateway-alice", "COLOUR=red"); p.Name != "alice" || p.Revision != 0 || !p.Outdated {
		t.Errorf("the same again: %+v", p)
	}
	secret := b.Home() + "/secret"
	b.Write(box.Service, secret, "hunter2\n")
	if p := set("bob", "--secret", "TOKEN="+secret, "--only-present"); p.Name != "bob" || p.Revision != 0 {
		t.Errorf("a secret that it does not have: %+v", p)
	}
	if p := set("bob", "--secret", "TOKEN="+secret); p.Revision != 3 || !p.Outdated {
		t.Errorf("a secret: %+v", p)
	}
	if p := set("idle", "COLOUR=red"); p.Revision != 4 || p.Outdated || p.State != "stopped" {
		t.Errorf("a profile at rest: %+v", p)
	}
	if asks(b, `PATCH /v1/profiles/alice {"environment": {"COLOUR": "green"}}`) != "200" || asks(b, `POST /v1/set {"names": ["bob"], "environment": {"COLOUR": "green"}}`) != "200" {
		t.Error("it is not set over the socket")
	}
	list, out := revisions(b), b.Must("revisions")
	if len(list) != 6 || list[0].Single || !list[1].Single || !list[5].Single || !strings.Contains(out, "\n6 single ") {
		t.Errorf("the revisions are\n%s", out)
	}
	unharmed(b, pids)
	value := func(name string) string {
		var p control.Profile
		if err := json.Unmarshal([]byte(b.Must("profile", "show", name, "--json")), &p); err != nil {
			t.Fatal(err)
		}
		return p.Environment["COLOUR"]
	}

	exits(b, 9, "rollback", "4", "--steady", "0")
	if value("alice") != "red" || value("bob") != "blue" || value("idle") != "red" {
		t.Error("rollback 4 did not take back what 5 and 6 set")
	}
	if r := exits(b, 9, "rollback", "--steady", "0"); !strings.Contains(r.Out, "alice") || value("bob") != "" || value("idle") != "" {
		t.Errorf("a rollback without a number: %s", r)
	}
	if list := revisions(b); len(list) != 8 || !list[6].Single || list[7].Single {
		t.Errorf("the revisions are\n%s", b.Must("revisions"))
	}
	b.Fails(4, "no revision 4711 was applied", "rollback", "4711")

	b.Must("profile", "create", "chat-10", "chat-2")
	for _, args := range [][]string{{"profile", "set", "chat-*", "A=b"}, {"reload"}, {"restart", "chat-*"}, {"reload", "--dry-run"}} {
		out := b.Must(args...)
		if two, ten := strings.Index(out, "chat-2"), strings.Index(out, "chat-10"); two > ten || two < 0 && args[0] != "reload" {
			t.Errorf("%v: chat-10 is before chat-2: %s", args, out)
		}
	}
	b.Must("profile", "delete", "chat-10", "chat-2")
	if out := b.Must("profile", "list", "--trash"); strings.Index(out, "chat-2") > strings.Index(out, "chat-10") {
		t.Errorf("the trash is\n%s", out)
	}
}

// SetsOfOneAreCutOff: the supervisor is killed in the middle of a set of one profile. It has
// the new value in the end, or the one before, and takes others.
func SetsOfOneAreCutOff(t *testing.T, start New) {
	b := start(t, box.Spec{Config: kinds("")})
	b.Must("profile", "create", "alice")
	pids := map[string]int{"gateway-alice": *b.Await("gateway-alice", "running").PID}
	before := ""
	for i := range 6 {
		old := b.Supervisor().PID
		next := fmt.Sprint("v", i)
		b.Shell(box.Root, fmt.Sprintf("rlminit profile set alice V=%s >/dev/null 2>&1 & sleep 0.0%d; kill -9 %d; wait || true", next, 1+i*7%9, old))
		replaced(b, old)
		box.Eventually(b, long, "no revision is under way", func() (bool, any) {
			out := b.Must("revisions")
			return !strings.Contains(out, "running"), out
		})
		var p control.Profile
		if err := json.Unmarshal([]byte(b.Must("profile", "show", "alice", "--json")), &p); err != nil {
			t.Fatal(err)
		}
		if is := p.Environment["V"]; is != before && is != next {
			t.Fatalf("round %d: the value is %q, and was %q", i, is, before)
		}
		before = p.Environment["V"]
		unharmed(b, pids)
	}
	b.Must("profile", "set", "alice", "V=last", "--restart")
	if out := b.Must("exec", "--profile", "alice", "--", "sh", "-c", "echo $V"); strings.TrimSpace(out) != "last" {
		t.Errorf("alice has %q", out)
	}
}
