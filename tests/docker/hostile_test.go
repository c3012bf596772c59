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

// rages waits until the bomb has taken all that can be had in a container, which is
// as much as services always have.
func rages(b *box.Box, limit int) {
	b.Helper()
	box.Eventually(b, answerTimeout, "the bomb takes all there is", func() (bool, any) {
		r, err := docker(nil, "top", b.Place.(*Place).name, "-eLo", "pid,comm")
		return err == nil && strings.Count(r.Out, "\n") >= limit && strings.Count(r.Out, "perl") >= fewestForServices-forOthers, fmt.Sprint(r, err)
	})
}

// fewestForServices are the processes that services and main have at the lowest limit,
// of which PID 1 has 9 threads, the supervisor and the process that touches files 35,
// wire.SupervisorRoom, and 3 are kept free. Others have threads, too: a gateway beside the
// one that is looked at, or the process that gives a directory to its user.
const (
	fewestForServices = 64 - 9 - 35 - 3
	forOthers         = 6
)

// TestForkBomb: a program that takes every process that the container may have
// takes nothing from PID 1: it goes on, and stops when asked.
func TestForkBomb(t *testing.T) {
	t.Parallel()
	const most = 64
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
			out := b.Printed()
			if name == "main" { // whom nobody ends, and who may be there before the supervisor has its threads: that is said
				out = strings.ReplaceAll(out, "rlminit: cannot go on: the limit on processes and threads is reached", "")
			}
			if crashed(out) {
				t.Errorf("a tier crashed: %s", out)
			}
		})
	}
}

// crashed tells whether a part of rlminit ended for want of a thread, or otherwise.
func crashed(printed string) bool {
	for _, word := range []string{"goroutine ", "newosproc", "cannot go on"} {
		if strings.Contains(printed, word) {
			return true
		}
	}
	return false
}

// TestForkBombEnds: when room is made again, all is as before.
func TestForkBombEnds(t *testing.T) {
	t.Parallel()
	const most = 64
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

	// Jobs say so too, more of them at once than are looked up side by side, and
	// those that go elsewhere run meanwhile.
	const silent = "its working directory or program lies on a file system that does not answer"
	ended := make(chan box.Result)
	hang := func(args ...string) {
		go func() { ended <- b.Run(append([]string{"run", "--timeout", "60s"}, args...)...) }()
	}
	count := 0
	for range 12 {
		hang("--dir", "/mnt/dir", "--", "true")
		hang("--", "/mnt/program")
		count += 2
	}
	hang("--dir", "/mnt/dir", "--dry-run", "--", "true")
	for range 10 {
		if r := b.Run("run", "--", "echo", "hello"); r.Code != 0 || r.Out != "hello\n" {
			t.Errorf("a job beside them: %s", r)
		}
	}
	for range count + 1 {
		if r := <-ended; !strings.Contains(r.Err, silent) || strings.Count(r.Err, "\n") != 1 || r.Code != 126 && r.Code != 125 || r.Err == "" {
			t.Errorf("a job there: %s", r)
		}
	}

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
