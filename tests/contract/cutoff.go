package contract

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"rlminit/tests/box"
)

// cutOffs are what a kill leaves of a profile's directory on its way to another owner:
// the topmost is the services' user's, and so is some of what it holds.
var cutOffs = map[string]string{
	"none":       "true",
	"definition": "chown 1000:1000 profile.yaml",
	"state":      "chown 1000:1000 gateway_state.json",
	"other":      "chown -R 1000:1000 kept",
	"most":       "chown 1000:1000 profile.yaml gateway_state.json",
}

// CutOffHandOver: a hand-over of a profile's directory that was killed is finished by
// whoever meets it: a look, a start, a boot, a deletion, a purge and a restore. What was
// recorded of the profile counts, and nothing is taken for corrupt.
func CutOffHandOver(t *testing.T, start New) {
	b := start(t, box.Spec{Config: ownUsers()})
	b.Must("profile", "create", "alice", "--env", "A=1")
	if !separable(b) {
		return
	}
	const first = 40000
	owned(b, "alice", first)
	b.Must("run", "--profile", "alice", "--", "bash", "-c", `umask 077; mkdir -p kept/deep; echo hello >kept/deep/note`)
	dir := b.Home() + "/profiles/alice"
	cut := func(how string) {
		b.Helper()
		b.Shell(box.Root, fmt.Sprintf("cd %s && chown 1000:1000 . && %s", dir, how))
	}
	sound := func(what string) {
		b.Helper()
		if out := b.Must("file", "read", "--profile", "alice", "kept/deep/note"); out != "hello\n" {
			t.Errorf("%s: the note is %q", what, out)
		}
		if out := b.Must("profile", "show", "alice"); !strings.Contains(out, "A=1") {
			t.Errorf("%s: profile show: %s", what, out)
		}
		if left := b.Shell(box.Root, "cd "+dir+" && ls -d *.corrupt-* 2>/dev/null || true"); left != "" {
			t.Errorf("%s: taken for corrupt: %s", what, left)
		}
	}
	for name, how := range cutOffs {
		b.Must("stop", "alice")
		cut(how)
		if s := b.Status()["gateway-alice"]; s.Desired != "stopped" {
			t.Errorf("%s: %s", name, box.Describe(s))
		}
		b.Must("reload", "--wait")
		if s := b.Status()["gateway-alice"]; s.State != "stopped" || s.Desired != "stopped" {
			t.Errorf("%s, reloaded: %s", name, box.Describe(s))
		}
		sound(name)
		b.Must("start", "alice")
		owned(b, "alice", first)
	}

	// A boot is who meets it, of one that is to run and of one that is not.
	for _, wanted := range []string{"running", "stopped"} {
		if wanted == "stopped" {
			b.Must("stop", "alice")
		}
		cut(cutOffs["none"])
		if err := b.Signal(9); err != nil {
			t.Fatal(err)
		}
		b.Again()
		s := b.Await("gateway-alice", wanted)
		if s.Desired != wanted {
			t.Errorf("after a boot: %s", box.Describe(s))
		}
		sound("a boot, " + wanted)
	}

	cut(cutOffs["other"])
	b.Must("profile", "rename", "alice", "dora")
	b.Must("profile", "rename", "dora", "alice")
	cut(cutOffs["state"])
	b.Must("profile", "delete", "alice")
	if others := b.Shell(box.Root, fmt.Sprintf("find %s/trash/alice-* ! -user %d", b.Home(), first)); others != "" {
		t.Errorf("in the trash, and not its user's: %s", others)
	}
	b.Must("profile", "restore", "alice")
	b.Must("start", "alice")
	owned(b, "alice", first)
	sound("restored")
	b.Must("stop", "alice")
	cut(cutOffs["definition"])
	b.Must("profile", "delete", "alice", "--purge")
	if left := b.Shell(box.Root, "ls -A "+b.Home()+"/profiles"); left != "" {
		t.Errorf("after the purge: %q", left)
	}
}

// strike sends a signal to each process that touches files, and returns how many it has
// reached.
func strike(b *box.Box, signal string) (reached int) {
	b.Helper()
	for _, p := range b.Processes() {
		if len(p.Args) > 1 && p.Args[1] == "rights" && b.As(box.Root, "bash", "-c", fmt.Sprintf("kill -%s %d", signal, p.PID)).Code == 0 {
			reached++
		}
	}
	return reached
}

// FileHelperStops: a process that touches files and that does not answer, or is killed,
// costs no service its start, and no name that is there is unknown.
func FileHelperStops(t *testing.T, start New) {
	b := start(t, box.Spec{Config: ownUsers()})
	for _, name := range []string{"alice", "bob", "rests"} {
		b.Must("profile", "create", name)
	}
	if !separable(b) {
		return
	}
	b.Must("stop", "rests")
	b.Must("reload")
	for _, how := range []string{"STOP", "KILL"} {
		if strike(b, how) == 0 {
			t.Errorf("%s reaches none", how)
		}
		before := b.Await("gateway-alice", "running").Restarts
		b.Must("restart", "alice", "bob", "--timeout", "60s")
		for _, name := range []string{"alice", "bob"} {
			if s := b.Await("gateway-"+name, "running"); s.Restarts != before {
				t.Errorf("%s: %s", how, box.Describe(s))
			}
		}
		b.Must("status", "rests")
	}
	// Whenever it ends, who asks for a profile at rest is not told that there is none.
	for range 20 {
		strike(b, "KILL")
		for _, ask := range [][]string{{"profile", "show", "rests"}, {"status", "rests"}} {
			if r := b.Run(ask...); r.Code == 4 {
				t.Errorf("%v, of one that is there: %s", ask, r)
			}
		}
	}
	// Nor does it cost a profile anything that is done with it, or does it twice.
	stop := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
				strike(b, "KILL")
			}
		}
	})
	for i := range 10 {
		name, moved := fmt.Sprint("made", i), fmt.Sprint("moved", i)
		b.Must("profile", "create", name, "--stopped", "--env", "A=1")
		b.Must("profile", "set", name, "B=2", "--restart")
		b.Must("profile", "rename", name, moved)
		b.Must("profile", "clone", moved, name)
		b.Must("profile", "delete", moved)
		b.Must("profile", "restore", moved)
		b.Must("profile", "delete", "--purge", moved, name)
	}
	close(stop)
	killer.Wait()
	if left := b.Shell(box.Root, "ls -A "+b.Home()+"/profiles"); left != "alice\nbob\nrests\n" {
		t.Errorf("left in profiles: %q", left)
	}
}

// RefusedDeletion: a deletion that the volume refuses has not stopped the gateway.
func RefusedDeletion(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	b.Must("profile", "create", "alice")
	b.Must("profile", "create", "bob")
	pid := *b.Await("gateway-alice", "running").PID
	b.Must("profile", "delete", "bob") // and there is a trash
	for _, dir := range []string{"profiles", "trash"} {
		path := b.Home() + "/" + dir
		b.Shell(box.Root, "chmod a-w "+path)
		if r := b.Run("profile", "delete", "alice"); r.Code == 0 || !strings.Contains(r.Err, path) {
			t.Errorf("%s: %s", dir, r)
		}
		if s := b.Status()["gateway-alice"]; s.PID == nil || *s.PID != pid {
			t.Errorf("%s: %s", dir, box.Describe(s))
		}
		b.Shell(box.Root, "chmod u+w "+path)
	}
	b.Must("profile", "delete", "alice")
}
