package contract

import (
	"strings"
	"testing"

	"rlminit/tests/box"
)

// RemovedDirectories: somebody removes the supervisor's directories from the volume while it
// runs. They are made again with their owners and modes, which is said once for each; logs
// and outputs of jobs are written there, and a command is found by the next boot.
// Nothing is written to one that the services have made in the place of the journal's.
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

	// The services may make one too, since the volume's directory is theirs as well.
	b.Shell(box.Root, "cd "+b.Home()+"; mkdir -m 777 theirs; chown --reference=profiles/alice theirs; until rm -rf .rlminit; mv -T theirs .rlminit; do :; done")
	b.Fails(1, "it belongs to uid", "start", "bob")
	b.Shell(box.Root, "cd "+b.Home()+"; ls -A .rlminit | grep . && exit 1; rmdir .rlminit")
	box.Eventually(b, long, "a command is recorded again", func() (bool, any) {
		r := b.Run("start", "bob")
		return r.Code == 0, r
	})
	b.Must("stop", "bob")
	if now := rights(); now != before {
		t.Errorf("the directories are %s, and were %s", now, before)
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
