package docker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/examples/gateway/process"
	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// selfOf runs `nasty self` in a container and returns what it reported.
func selfOf(t *testing.T, args ...string) process.Info {
	t.Helper()
	out, err := must(nil, append(append([]string{"run", "--rm"}, args...), "nasty", "self")...)
	if err != nil {
		t.Fatal(err)
	}
	var p process.Info
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return p
}

// TestPureInitChangesNothing: without a configuration the command has the
// user, groups, capabilities, limits and signal state that the container was
// given.
func TestPureInitChangesNothing(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]string{
		"root":          nil,
		"a user":        {"--user", "12345:0"},
		"few and more":  {"--cap-drop", "ALL", "--cap-add", "NET_RAW", "--ulimit", "nofile=321:654"},
		"no privileges": {"--security-opt", "no-new-privileges", "--user", "1000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with := selfOf(t, append(slices.Clone(options), built.pure)...)
			without := selfOf(t, append(slices.Clone(options), "--entrypoint", "/usr/bin/env", built.pure)...)
			if with.PID == 1 || without.PID != 1 {
				t.Fatalf("pids %d and %d", with.PID, without.PID)
			}
			for what, pair := range map[string][2]any{
				"uid": {with.UID, without.UID}, "gid": {with.GID, without.GID}, "groups": {with.Groups, without.Groups},
				"capabilities": {with.Capabilities, without.Capabilities}, "no_new_privs": {with.NoNewPrivs, without.NoNewPrivs},
				"blocked": {with.Blocked, without.Blocked}, "ignored": {with.Ignored, without.Ignored},
				"limits": {with.Limits, without.Limits}, "umask": {with.Umask, without.Umask}, "seccomp": {with.Seccomp, without.Seccomp},
			} {
				if fmt.Sprint(pair[0]) != fmt.Sprint(pair[1]) {
					t.Errorf("%s: %v, without rlminit %v", what, pair[0], pair[1])
				}
			}
		})
	}
}

// TestTerminal: the main command owns the terminal, is its foreground group,
// and ^C reaches it; a shell has job control.
func TestTerminal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ image, config string }{
		"pure":       {built.pure, ""},
		"supervised": {built.based, contract.Config()},
		"a service":  {built.based, contract.Config("main: {command: [agent], restart: {limit: 2, delay: 10ms}}\n")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startImage(t, c.image, box.Spec{Config: c.config, Docker: []string{"-i", "-t"}, Main: []string{"bash", "--norc", "-i"}})
			tty := attach(t, b)
			if name == "a service" { // which is started again
				tty.typed("echo first-$((20+1)); exit 5\r")
				tty.reads("first-21")
				b.AwaitThat("main", "runs again", func(s control.Service) bool { return s.State == "running" && s.Restarts > 0 })
			}
			// What is typed is echoed, so the answer must differ from it.
			tty.typed("echo ready-$((40+2))\r")
			tty.reads("ready-42")
			tty.typed("nasty self | grep -o '\"terminal\":[0-9]*'; nasty self | grep -o '\"foreground\":[0-9]*'; echo done-$((1+1))\r")
			out := tty.reads("done-2")
			if strings.Contains(out, `"terminal":0`) || strings.Contains(out, `"foreground":-1`) {
				t.Errorf("no terminal: %s", out)
			}
			// What says that it has begun is what ^C is to end: bash itself may swallow one
			// that comes between its fork and the program.
			tty.typed("bash -c 'echo begun-$((2+3)); exec sleep 600'; echo code-$?\r")
			tty.reads("begun-5")
			tty.typed("\x03")
			tty.typed("echo after-$((3+4))\r")
			if out := tty.reads("after-7"); strings.Contains(out, "code-0") {
				t.Errorf("^C did not end the command: %s", out)
			}
			tty.typed("sleep 600\r")
			box.Eventually(b, 10*time.Second, "sleep runs", func() (bool, any) {
				r := b.As(box.Root, "pgrep", "-x", "sleep")
				return r.Code == 0, r
			})
			tty.typed("\x1a")
			tty.typed("jobs; echo jobs-$((4+5))\r")
			if out := tty.reads("jobs-9"); !strings.Contains(out, "Stopped") {
				t.Errorf("^Z did not stop the command: %s", out)
			}
			if strings.Contains(tty.all(), "no job control") {
				t.Error("the shell has no job control")
			}
			tty.typed("disown -a; exit 33\r")
			if code, err := b.Ended(20 * time.Second); err != nil || code != 33 {
				t.Errorf("exit code %d, %v", code, err)
			}
		})
	}
}

// TestNotAsPID1: below another init rlminit is a subreaper: it collects its
// own orphans and touches nobody else.
func TestNotAsPID1(t *testing.T) {
	t.Parallel()
	b := startImage(t, built.based, box.Spec{Config: contract.Config(), Docker: []string{"--init"}})
	awaitAnswer(b)
	b.Must("profile", "create", "alice")
	s := b.Await("gateway-alice", "running")
	b.Call(*s.Port, "/fault/leak", "")
	b.Must("stop", "alice")
	for _, p := range b.Processes() {
		if strings.HasSuffix(strings.Join(p.Args, " "), "exe sleep") || p.State == "Z" {
			t.Errorf("%v is left, state %s", p.Args, p.State)
		}
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if code, err := b.Ended(time.Second); err != nil || code != 0 {
		t.Errorf("exit code %d, %v", code, err)
	}
}

// TestAnyUser: as any user, with few capabilities or none, on a read-only root
// file system, profiles run.
func TestAnyUser(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]string{
		"user 1000":              {"--user", "1000:1000"},
		"user 12345":             {"--user", "12345:0", "--tmpfs", "/data:uid=12345"},
		"no capability":          {"--cap-drop", "ALL", "--user", "1000:1000"},
		"read-only":              {"--read-only", "--tmpfs", "/run", "--tmpfs", "/data:uid=1000,gid=1000"},
		"read-only, nothing run": {"--read-only", "--tmpfs", "/data:uid=1000,gid=1000"},
		"four capabilities":      {"--cap-drop", "ALL", "--cap-add", "SETUID", "--cap-add", "SETGID", "--cap-add", "KILL", "--cap-add", "CHOWN"},
		"two capabilities":       {"--cap-drop", "ALL", "--cap-add", "SETUID", "--cap-add", "SETGID"},
		"no CAP_KILL":            {"--cap-drop", "KILL"},
		"no CAP_SETPCAP":         {"--cap-drop", "SETPCAP"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// With the image's own configuration: docker cp writes into no
			// read-only container.
			b := startImage(t, built.based, box.Spec{Docker: options})
			user := box.Service
			if strings.Contains(name, "12345") {
				user = box.User{UID: 12345, GID: 0}
			}
			box.Eventually(b, answerTimeout, "rlminit answers", func() (bool, any) {
				r, err := b.Exec(user, nil, []string{"rlminit", "health"})
				return err == nil && r.Code == 0, fmt.Sprint(r, err)
			})
			for _, args := range [][]string{
				{"profile", "create", "alice"},
				{"wait", "alice", "--for", "running", "--timeout", "10s"},
				{"restart", "alice"},
				{"stop", "alice"},
				{"start", "alice"},
			} {
				if r := b.As(user, append([]string{"rlminit"}, args...)...); r.Code != 0 {
					t.Fatalf("%s: %s", args, r)
				}
			}
			began := time.Now()
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 9500*time.Millisecond {
				t.Errorf("stopping took %s", took)
			}
		})
	}
}

// TestUserThatCannotBeReached: a configured user without the capability to
// become it ends the start, with the name of what is missing.
func TestUserThatCannotBeReached(t *testing.T) {
	t.Parallel()
	b := startImage(t, built.based, box.Spec{Config: contract.Config(), Docker: []string{"--cap-drop", "SETUID"}})
	code, err := b.Ended(20 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if out := b.Printed(); code == 0 || !strings.Contains(out, "rlminit: ") || !strings.Contains(out, "CAP_SETUID") {
		t.Errorf("exit code %d, printed %q", code, out)
	}
}
