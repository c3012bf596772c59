package contract

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"rlminit/tests/box"
)

// What a successor of the supervisor goes by is with PID 1, and not in the files
// of the service directory: those are copies, that may be late or false.

const serviceDir = "/run/rlminit/services"

// RunIsFull: with a full /run all goes on, commands included, and a successor
// knows what happened; the copies follow when there is room.
func RunIsFull(t *testing.T, start New) {
	b := start(t, box.Spec{
		Config: Services(`once: {type: oneshot, restart: on-failure, command: [sh, -c, "echo ran >>$RLMINIT_HOME/ran; until test -e $RLMINIT_HOME/go; do sleep 0.05; done"]}`),
		Docker: []string{"--tmpfs", "/run:size=1m"},
	})
	ran := path.Join(b.Home(), "ran")
	pids := several(b, 2)
	box.Eventually(b, long, "the oneshot works", func() (bool, any) {
		r := b.As(box.Service, "cat", ran)
		return r.Code == 0, r
	})
	b.As(box.Root, "mount", "-o", "remount,size=1m", "/run") // a container's is that small already
	if size := strings.Fields(b.Shell(box.Root, "df -k --output=size /run"))[1]; size != "1024" {
		t.Fatalf("/run has %s KB: it is not to be filled", size)
	}
	fill := func() {
		if r := b.As(box.Root, "dd", "if=/dev/zero", "of=/run/filling", "bs=4k"); !strings.Contains(r.Err, "No space left") {
			t.Fatal(r)
		}
	}
	fill()
	b.Shell(box.Service, "touch "+path.Join(b.Home(), "go"))
	b.Await("once", "exited")
	b.Must("profile", "create", "late")
	late := *b.Await("gateway-late", "running").PID
	b.Must("stop", "p1")
	delete(pids, "gateway-p1")
	pids["gateway-late"] = late
	for range 3 {
		old := b.Supervisor()
		kill(b, "KILL", old.PID)
		replaced(b, old.PID)
		unharmed(b, pids)
		status := b.Status()
		if s := status["once"]; s.State != "exited" || s.LastExit == nil || s.LastExit.Code == nil || *s.LastExit.Code != 0 {
			t.Errorf("the oneshot that had ended: %s", box.Describe(s))
		}
		if s := status["gateway-p1"]; s.State != "stopped" || s.Desired != "stopped" {
			t.Errorf("the profile that was stopped: %s", box.Describe(s))
		}
	}
	if runs := strings.Count(b.Shell(box.Root, "cat "+ran), "ran"); runs != 1 {
		t.Errorf("the oneshot ran %d times", runs)
	}
	b.Shell(box.Root, "rm /run/filling")
	for name, state := range map[string]string{"once": "exited", "gateway-late": "running", "gateway-p1": "stopped"} {
		box.Eventually(b, long, "the copies of "+name+" follow", func() (bool, any) {
			r := b.As(box.Root, "cat", path.Join(serviceDir, name, "status.json"), path.Join(serviceDir, name, "service.yaml"))
			return r.Code == 0 && strings.Contains(r.Out, fmt.Sprintf(`"state":%q`, state)), r
		})
	}
	unharmed(b, pids)
}

// FalseCopies: what somebody writes into the place of a status decides nothing.
func FalseCopies(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	pids := several(b, 2)
	for _, lie := range []string{
		`{"machine":{"phase":"running","last_id":18446744073709551615}}`,
		`{"name":"gateway-p0","desired":"stopped","recorded":true,"machine":{"want":"","phase":"stopping","removed":true}}`,
		`{`,
	} {
		// A service may be unable to write there at all: root can.
		b.Shell(box.Root, fmt.Sprintf("cd %s/gateway-p0 && printf '%%s' '%s' >.lie && mv .lie status.json", serviceDir, lie))
		old := b.Supervisor()
		kill(b, "KILL", old.PID)
		replaced(b, old.PID)
		unharmed(b, pids)
		if s := b.Status()["gateway-p0"]; s.Desired != "running" {
			t.Errorf("after the lie %s: %s", lie, box.Describe(s))
		}
	}
	b.Must("stop", "p0")
	b.Must("start", "p0")
}

// SlotGoneMeanwhile: a service that was taken out of the service directory while
// nobody supervised is stopped, as it is when somebody does; one that root has
// changed there runs as it says then.
func SlotGoneMeanwhile(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	b.Shell(box.Root, fmt.Sprintf(`cd %s && for n in gone changed; do
		mkdir .$n && echo 'command: [sleep, infinity]' >.$n/service.yaml && chown -R --reference=. .$n && mv .$n $n; done`, serviceDir))
	gone, changed := *b.Await("gone", "running").PID, *b.Await("changed", "running").PID
	old := b.Supervisor()
	b.Shell(box.Root, fmt.Sprintf(`kill -STOP %d; cd %s && mv gone /run/taken && echo 'command: [sleep, "1000000"]' >.new && mv .new changed/service.yaml; kill -KILL %[1]d`, old.PID, serviceDir))
	replaced(b, old.PID)
	box.Eventually(b, long, "the one taken out ends", func() (bool, any) {
		_, there := b.Status()["gone"]
		r := b.As(box.Root, "kill", "-0", fmt.Sprint(gone))
		return !there && r.Code != 0, r
	})
	box.Eventually(b, long, "the changed one runs as it says", func() (bool, any) {
		s := b.Status()["changed"]
		return s.State == "running" && *s.PID != changed, box.Describe(s)
	})
}
