package contract

import (
	"strings"
	"testing"

	"rlminit/tests/box"
)

// RemovedDirectories: somebody removes the supervisor's directories from the volume while it
// runs. They are made again with their owners and modes, which is said once for each; logs
// and outputs of jobs are written there, and a command is found by the next boot.
func RemovedDirectories(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	b.Must("profile", "create", "alice", "bob")
	b.Await("gateway-alice", "running")
	rights := func() string {
		return b.Shell(box.Root, "cd "+b.Home()+"; stat -c '%n %a %u %g' logs .rlminit")
	}
	before := rights()
	written := func(profile string) {
		t.Helper()
		file := b.Home() + "/logs/gateways/" + profile + "/current"
		box.Eventually(b, long, "the log of "+profile+" is written", func() (bool, any) {
			if r := b.As(box.Root, "test", "-s", file); r.Code == 0 {
				return true, nil
			}
			b.Must("restart", profile) // what is written within a second may go to the file that is gone
			return false, b.Printed()
		})
	}
	written("alice")
	b.Shell(box.Root, "rm -rf "+b.Home()+"/logs")
	written("alice")
	if out := b.Must("run", "--profile", "alice", "--", "echo", "kept"); out != "kept\n" {
		t.Errorf("a job prints %q", out)
	}
	b.Shell(box.Root, "test -s "+b.Home()+"/logs/jobs/*.stdout; rm -rf "+b.Home()+"/logs/gateways/alice")
	written("alice")

	b.Shell(box.Root, "rm -rf "+b.Home()+"/.rlminit")
	b.Must("stop", "bob")
	if now := rights(); now != before {
		t.Errorf("the directories are %s, and were %s", now, before)
	}
	for _, dir := range []string{"logs", ".rlminit"} {
		line := "it is made again, empty path=" + b.Home() + "/" + dir + "\n"
		box.Eventually(b, long, "it is said once", func() (bool, any) {
			return strings.Count(b.Printed(), line) == 1, b.Printed()
		})
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Again()
	b.Await("gateway-alice", "running")
	if s := b.Await("gateway-bob", "stopped"); s.Desired != "stopped" {
		t.Errorf("bob, who was stopped: %s", box.Describe(s))
	}
}
