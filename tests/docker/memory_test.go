package docker

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// A service that the container's memory limit has ended is said to be, in its
// status, its log and the container's; one that somebody killed is not. A container
// that is killed after that is known to have ended so.
func TestMemoryLimitIsNamed(t *testing.T) {
	t.Parallel()
	b := start(t, box.Spec{
		Config: contract.Services(`greedy: {command: [tail, /dev/zero], enabled: false, restart: no}`, `modest: {command: [sleep, "1000"], restart: no}`),
		Docker: []string{"--memory", "96m", "--memory-swap", "96m"},
	})
	b.Await("modest", "running")
	b.Must("signal", "KILL", "modest")
	if s := b.Await("modest", "exited"); s.Reason == nil || *s.Reason != "killed by KILL" {
		t.Errorf("%s", box.Describe(s))
	}
	r := b.Run("start", "greedy")
	b.AwaitThat("greedy", "has ended", func(s control.Service) bool { return s.State == "exited" })
	for what, said := range map[string]string{
		"start": r.Out + r.Err + box.Describe(b.Status()["greedy"]), "log": b.Must("logs", "greedy"), "docker logs": b.Printed(),
	} {
		if !strings.Contains(said, "killed by KILL: ") || !strings.Contains(said, "out of memory; the container's limit is 96 MiB") {
			t.Errorf("%s: %q", what, said)
		}
	}
	if err := b.Signal(int(unix.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	b.Again()
	if out := b.Must("events", "--type", "boot_begun", "--json"); !strings.Contains(out, `"prior_exit":"oom"`) {
		t.Errorf("how the container ended is recorded as %s", out)
	}
}

// A container whose main command, or the service that it lives with, is ended by the
// memory limit is known to have ended so, though it stopped in order. One that is stopped
// after another service was is not.
func TestMainIsOutOfMemory(t *testing.T) {
	t.Parallel()
	const greedy = `[sh, -c, "test -e /tmp/again && exec sleep 1000; touch /tmp/again; sleep 1; exec tail /dev/zero"]`
	for what, c := range map[string]struct {
		config, exit string
		stop         bool
	}{
		"main":            {contract.Config("main: {command: " + greedy + "}\n"), "oom", false},
		"its service":     {contract.Config("main: {exit_on: greedy}\nservices: {greedy: {command: " + greedy + ", restart: no}}\n"), "oom", false},
		"another service": {contract.Config("services: {greedy: {command: " + greedy + ", restart: no}}\n"), "clean", true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := start(t, box.Spec{Config: c.config, Docker: []string{"--memory", "96m", "--memory-swap", "96m"}})
			if c.stop {
				b.AwaitThat("greedy", "has ended", func(s control.Service) bool { return s.State == "exited" })
				if err := b.Signal(int(unix.SIGTERM)); err != nil {
					t.Fatal(err)
				}
			}
			b.Again()
			if out := b.Must("events", "--type", "boot_begun", "--json"); !strings.Contains(out, `"prior_exit":"`+c.exit+`"`) {
				t.Errorf("how the container ended is recorded as %s", out)
			}
		})
	}
}
