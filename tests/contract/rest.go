package contract

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
)

// StoppedProfilesRest: a profile that a boot finds stopped has no slot and costs
// nothing, and yet it is there for everybody who looks for it or commands it. One
// with a fault is shown with it, and starts when that is mended.
func StoppedProfilesRest(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config("services:\n  needy: {command: [nasty, sleep], enabled: false, requires: [gateway-dora]}\n")})
	names := []string{"alice", "bob", "carol", "dora", "eve", "fred", "gina"}
	for _, name := range names {
		b.Must("profile", "create", name, "--env", "NAME="+name)
	}
	b.Must("stop", "alice", "bob", "carol", "dora", "eve", "gina")
	b.Write(box.Service, b.Home()+"/profiles/carol/profile.yaml", "restart: {delay: soon}\n")
	if err := b.Signal(int(unix.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	b.Again()
	b.Await("gateway-fred", "running")
	slots := func() string {
		return strings.Join(strings.Fields(b.Shell(box.Service, "ls /run/rlminit/services")), " ")
	}
	// What is referred to is registered; the others are not.
	box.Eventually(b, long, "slots of what runs, and of what is referred to", func() (bool, any) {
		return slots() == "gateway-dora gateway-fred needy", slots()
	})
	now := b.Status()
	for _, name := range names {
		want, desired := "stopped", "stopped"
		switch name {
		case "carol":
			want = "failed"
		case "fred":
			want, desired = "running", "running"
		}
		s := now["gateway-"+name]
		if s.State != want || s.Desired != desired || s.Profile == nil || *s.Profile != name || s.Port == nil || s.Type != "daemon" {
			t.Errorf("%s is %s", name, box.Describe(s))
		}
	}
	if s := now["gateway-carol"]; s.Reason == nil || !strings.Contains(*s.Reason, "delay") {
		t.Errorf("carol is %s", box.Describe(s))
	}
	if out := b.Must("profile", "list"); strings.Count(out, "stopped") < 5 || !strings.Contains(out, "delay") && !strings.Contains(out, "failed") {
		t.Errorf("the list is\n%s", out)
	}
	if got := slots(); got != "gateway-dora gateway-fred needy" {
		t.Errorf("who looks has made slots: %s", got)
	}
	b.Must("health", "--level", "ready")
	if out := b.Must("stop", "--all"); strings.Contains(out, "failed") {
		t.Errorf("stop --all says %q", out)
	}
	b.Must("start", "fred")

	// Asked for by name, by a pattern, and by what requires it.
	b.Must("logs", "gina", "-n", "5")
	b.Must("profile", "set", "bob", "--env", "NAME=bobby", "--restart")
	b.Must("start", "b*", "--timeout", "20s")
	if out := b.Must("exec", "--profile", "bob", "--", "sh", "-c", "echo $NAME"); strings.TrimSpace(out) != "bobby" {
		t.Errorf("bob is %q", out)
	}
	b.Must("start", "needy")
	b.Await("gateway-dora", "running")
	b.Must("profile", "rename", "eve", "eva")
	if s := b.Status()["gateway-eva"]; s.State != "stopped" {
		t.Errorf("eva is %s", box.Describe(s))
	}
	b.Must("profile", "delete", "gina")
	if _, there := b.Status()["gateway-gina"]; there {
		t.Error("gina is still there")
	}

	// A reload looks at each of them, and says what is wrong with one.
	if r := b.Run("reload"); r.Code != 1 || !strings.Contains(r.Out, "carol: refuse:") {
		t.Errorf("carol has a fault, and reload says %s", r)
	}
	if out := b.Run("reload", "--dry-run").Out; strings.Contains(out, "alice") {
		t.Errorf("a reload has something to do about alice: %q", out)
	}
	b.Write(box.Service, b.Home()+"/profiles/carol/profile.yaml", "restart: {delay: 1s}\n")
	b.Must("reload")
	b.Must("start", "carol")
	b.Await("gateway-carol", "running")

	// A supervisor that is replaced leaves them where they are.
	old := b.Supervisor()
	kill(b, "KILL", old.PID)
	replaced(b, old.PID)
	if s := b.Await("gateway-alice", "stopped"); s.Desired != "stopped" {
		t.Errorf("alice is %s", box.Describe(s))
	}
	b.Must("start", "--all")
	for _, name := range []string{"alice", "bob", "carol", "dora", "eva", "fred"} {
		b.Await("gateway-"+name, "running")
	}
}
