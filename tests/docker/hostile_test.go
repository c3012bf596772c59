package docker

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// bomb is a program that takes every process that the container may have, and
// goes on trying, for a number of seconds: Perl's, for it is one thread and
// one line, and every Debian has it.
func bomb(seconds int) []string {
	return []string{"perl", "-e", fmt.Sprintf(`$end = time + %d; while (time < $end) { defined fork or select undef, undef, undef, .001 }`, seconds)}
}

// rages waits until nothing more can be had in a container: by the bomb, or, where
// the limit is the lowest that there may be, so that it does not even begin.
func rages(b *box.Box, limit int) {
	b.Helper()
	box.Eventually(b, answerTimeout, "the bomb takes all there is", func() (bool, any) {
		r, err := docker(nil, "top", b.Place.(*Place).name, "-eLo", "pid,comm")
		begun := strings.Contains(r.Out, "perl") || strings.Contains(b.Printed(), "limit on processes (--pids-limit) is reached")
		return err == nil && strings.Count(r.Out, "\n") >= limit && begun, fmt.Sprint(r, err)
	})
}

// TestForkBomb: a program that takes every process that the container may have
// takes nothing from PID 1: it goes on, and stops when asked.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	const most = 20
	limit := []string{"--pids-limit", fmt.Sprint(most)}
	forEver := bomb(1000)
	quoted, err := json.Marshal(forEver)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		image string
		spec  box.Spec
	}{
		"pure":    {built.pure, box.Spec{Main: forEver, Docker: limit}},
		"main":    {built.based, box.Spec{Config: contract.Config(), Main: forEver, Docker: limit}},
		"service": {built.based, box.Spec{Config: contract.Services(`bomb: {command: ` + string(quoted) + `}`), Docker: limit}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startImage(t, c.image, c.spec)
			p := b.Place.(*Place)
			rages(b, most)
			began := time.Now()
			box.Eventually(b, 10*time.Second, "three seconds passed", func() (bool, any) {
				if out, err := p.inspect("{{.State.Running}}"); err != nil || out != "true" {
					t.Fatalf("the container ended (%s, %v)", out, err)
				}
				return time.Since(began) > 3*time.Second, nil
			})
			began = time.Now()
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}
			code, err := b.Ended(5 * time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 9500*time.Millisecond || code == 137 || code == 2 {
				t.Errorf("stopping took %s, exit code %d", took, code)
			}
			if out := b.Printed(); strings.Contains(out, "goroutine ") || strings.Contains(out, "newosproc") {
				t.Errorf("a tier crashed: %s", out)
			}
		})
	}
}

// TestForkBombEnds: when room is made again, all is as before.
func TestForkBombEnds(t *testing.T) {
	t.Parallel()
	const most = 60
	quoted, err := json.Marshal(bomb(6))
	if err != nil {
		t.Fatal(err)
	}
	b := startImage(t, built.based, box.Spec{
		Config: contract.Services(`bomb: {command: ` + string(quoted) + `, enabled: false, restart: no}`),
		Docker: []string{"--pids-limit", fmt.Sprint(most)},
	})
	awaitAnswer(b)
	b.Must("profile", "create", "alice")
	s := b.Await("gateway-alice", "running")
	b.Must("start", "--no-wait", "bomb")
	rages(b, most)
	box.Eventually(b, answerTimeout, "the bomb has gone off", func() (bool, any) {
		r, err := docker(nil, "top", b.Place.(*Place).name, "-eo", "pid,comm")
		return err == nil && r.Code == 0 && !strings.Contains(r.Out, "perl"), fmt.Sprint(r, err)
	})
	b.Await("bomb", "exited")
	if now := b.Status()["gateway-alice"]; now.PID == nil || *now.PID != *s.PID {
		t.Errorf("alice: %s", box.Describe(now))
	}
	b.Must("restart", "alice")
	b.NoZombies()
}

// TestDeadMount: a working directory on a file system that never answers
// parks that service, says so, and touches nothing else.
func TestDeadMount(t *testing.T) {
	t.Parallel()
	b := startImage(t, built.based, box.Spec{
		Config: contract.Services(
			`stuck: {command: [sleep, infinity], working_dir: /mnt/dir, enabled: false}`,
			`stuck2: {command: [sleep, infinity], working_dir: /mnt/dir, enabled: false}`,
			`stuck3: {command: [/mnt/program], enabled: false}`),
		Docker: []string{"--device", "/dev/fuse", "--cap-add", "SYS_ADMIN", "--security-opt", "apparmor=unconfined"},
	})
	awaitAnswer(b)
	p := b.Place.(*Place)
	b.Must("profile", "create", "alice")
	s := b.Await("gateway-alice", "running")

	if _, err := must(nil, "exec", "-d", p.name, "bash", "-c", "deadfuse /mnt >/tmp/deadfuse 2>&1 < <(sleep infinity)"); err != nil {
		t.Fatal(err)
	}
	box.Eventually(b, answerTimeout, "the mount is there", func() (bool, any) {
		out := b.Shell(box.Root, "cat /tmp/deadfuse 2>/dev/null || true")
		return strings.Contains(out, "mounted"), out
	})
	b.Must("start", "--no-wait", "stuck", "stuck2", "stuck3")
	box.Eventually(b, answerTimeout, "a stuck spawn is reported", func() (bool, any) {
		stuck := b.Status()["stuck"]
		return stuck.Reason != nil, box.Describe(stuck)
	})

	// All else goes on: answers, restarts, new services, and the collector,
	// whatever the garbage that requests make.
	for range 20 {
		b.Status()
	}
	b.Call(*s.Port, "/fault/crash?code=3", "")
	b.AwaitThat("gateway-alice", "runs again", func(now svc) bool {
		return now.State == "running" && *now.PID != *s.PID
	})
	b.Must("profile", "create", "bob")
	b.Await("gateway-bob", "running")

	began := time.Now()
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 9500*time.Millisecond {
		t.Errorf("stopping took %s", took)
	}
}
