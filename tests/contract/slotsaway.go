package contract

import (
	"fmt"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
)

// ServiceDirectoryGoesAway: a service directory that is renamed away, exchanged for an empty
// one or cannot be read says nothing about services: what runs goes on, whether the
// supervisor is killed meanwhile or not. One that is removed from it is taken away.
func ServiceDirectoryGoesAway(t *testing.T, start New) {
	const dir = "/run/rlminit/services"
	for _, ways := range [][2]string{
		{"mv " + dir + " " + dir + ".away", "mv " + dir + ".away " + dir},
		{"mv " + dir + " " + dir + ".away && mkdir " + dir, "rmdir " + dir + " && mv " + dir + ".away " + dir},
		{"mv " + dir + " " + dir + ".away && install -d -o 49999 -g 49999 " + dir, "rm -r " + dir + " && mv " + dir + ".away " + dir},
		{"chmod 0 " + dir, "chmod 755 " + dir},
	} {
		SlotsGoAway(t, start, ways[0], ways[1], true)
	}
}

// StrangerFile is a definition that a box has for SlotsGoAway.
const StrangerFile = "/tmp/stranger.yaml"

// SlotsGoAway takes the service directory of a box away, and gives it back. reached tells
// whether the supervisor can be asked meanwhile.
func SlotsGoAway(t *testing.T, start New, away, back string, reached bool) {
	const dir, said = "/run/rlminit/services", "the service directory is not as it was"
	b := start(t, box.Spec{Config: Services(`web: {command: [sleep, infinity]}`)})
	b.Write(box.Root, StrangerFile, "type: daemon\ncommand: [sleep, \"7777\"]\n")
	b.Must("profile", "create", "alice")
	if r, err := b.Exec(box.Service, strings.NewReader("secret"), []string{"rlminit", "profile", "create", "dora", "--secret", "TOKEN=-"}); err != nil || r.Code != 0 {
		t.Fatalf("%v, %s", err, r)
	}
	b.Must("profile", "create", "carl", "--stopped")
	b.Must("start", "carl")
	b.Shell(box.Supervisor, "cd "+dir+" && mkdir .new && cp "+StrangerFile+" .new/service.yaml && mv .new stranger")
	b.Await("stranger", "running")
	pids := map[string]int{}
	for _, name := range []string{"web", "gateway-alice", "gateway-dora", "stranger"} {
		pids[name] = *b.Await(name, "running").PID
	}
	same := func(when string) {
		b.Helper()
		there := map[int]bool{}
		for _, p := range b.Processes() {
			there[p.PID] = true
		}
		for name, pid := range pids {
			if !there[pid] {
				b.Errorf("%s: %s: %s does not run any more\n%s", away, when, name, b.Printed())
			}
		}
	}
	count := func() int { return strings.Count(b.Printed(), said) }
	b.Shell(box.Root, away)
	before := 0
	if reached {
		before = 1
		box.Eventually(b, long, "it is said", func() (bool, any) {
			_ = b.Run("reload")
			return count() == 1, b.Printed()
		})
		if r := b.Run("health", "--level", "ready"); r.Code == 0 || !strings.Contains(r.Out+r.Err, "the service directory") && !strings.Contains(r.Out+r.Err, dir) {
			t.Errorf("%s: health: %s", away, r)
		}
		b.Must("profile", "delete", "carl")
	}
	same("supervised")
	old := b.Supervisor().PID
	kill(b, "KILL", old)
	box.Eventually(b, long, "a successor that says so", func() (bool, any) {
		return count() == before+1 && b.Supervisor().PID != old, b.Printed()
	})
	same("its supervisor was killed")
	if reached { // what ends meanwhile is started again; with a socket or secrets in its slot, when it is back
		for _, name := range []string{"gateway-alice", "gateway-dora", "web"} {
			kill(b, "KILL", pids[name])
		}
		pids["web"] = *restarted(b, "web", pids["web"]).PID
		b.AwaitThat("gateway-dora", "says why", func(s control.Service) bool {
			return s.Reason != nil && strings.Contains(*s.Reason, "its directory in the service directory is not there now")
		})
	}
	b.Shell(box.Root, back)
	if reached {
		for _, name := range []string{"gateway-alice", "gateway-dora"} {
			pids[name] = *restarted(b, name, pids[name]).PID
		}
	}
	box.Eventually(b, long, "it is found again", func() (bool, any) {
		r := b.Run("status", "--json")
		return r.Code == 0 && strings.Count(b.Printed(), "the service directory is as it was again") > 0, fmt.Sprint(r, b.Printed())
	})
	same("it is back")
	for name, pid := range pids {
		if s := b.Status()[name]; s.PID == nil || *s.PID != pid {
			b.Errorf("%s: it is back: %s", away, box.Describe(s))
		}
	}
	for name := range b.Status() {
		if _, known := pids[name]; !known && name != "gateway-carl" {
			b.Errorf("%s: it is back: there is %s", away, name)
		}
	}
	b.Must("profile", "create", "bob")
	box.Eventually(b, long, "it has a slot", func() (bool, any) {
		r := b.As(box.Supervisor, "cat", dir+"/gateway-bob/service.yaml", dir+"/gateway-bob/status.json", dir+"/web/status.json")
		return r.Code == 0, r
	})
	b.Must("restart", "web")
	b.Shell(box.Root, "rm "+dir+"/stranger/service.yaml")
	box.Eventually(b, long, "one name is taken away", func() (bool, any) {
		_, there := b.Status()["stranger"]
		return !there, there
	})
	b.Must("profile", "delete", "alice")
	if n := count(); n != before+1 {
		b.Errorf("%s: it is said %d times:\n%s", away, n, b.Printed())
	}
}
