package programs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/tests/box"
	"rlminit/tests/ns"
)

// One that ignores TERM gets its time, and then KILL.
func TestIgnoresTerm(t *testing.T) {
	t.Parallel()
	b := services(t, `deaf: {`+script(`trap '' TERM INT HUP QUIT; echo deaf; while :; do sleep 0.02; done`)+`, stop: {timeout: 400ms}}`)
	b.Await("deaf", "running")
	logged(b, "deaf", "deaf")
	began := time.Now()
	b.Must("stop", "deaf")
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("it was given %s, not 400ms", took)
	}
	if s := b.Status()["deaf"]; s.State != "stopped" || s.LastExit == nil || s.LastExit.Signal == nil || *s.LastExit.Signal != "KILL" {
		t.Errorf("after stop: %s", box.Describe(s))
	}
	gone(b, "bash")
}

// One that forks and exits is done; what it left goes, by TERM if it heeds
// that. Unless it is let be, it is started again, and never twice at once.
func TestForksAndExits(t *testing.T) {
	t.Parallel()
	b := services(t,
		`once: {`+script(`(trap 'echo child got TERM; exit 0' TERM; echo child; while :; do sleep 0.02; done) & sleep 0.2; exit 0`)+`, stop: {timeout: 5s}, restart: on-failure}`,
		`again: {`+script(`sleep 4242 & sleep 0.05; exit 0`)+`, stop: {timeout: 5s}, restart: {delay: 20ms, factor: 1, limit: 3, window: 1h, retry_failed: 0s}}`)
	s := b.Await("once", "exited")
	if !strings.Contains(reason(s), "background") || s.LastExit.Code == nil || *s.LastExit.Code != 0 {
		t.Errorf("forked and exited: %s", box.Describe(s))
	}
	logged(b, "once", "child got TERM")
	s = b.Await("again", "failed")
	if s.Restarts != 2 || !strings.HasPrefix(reason(s), "3 starts in ") {
		t.Errorf("forked and exited again and again: %s", box.Describe(s))
	}
	gone(b, "sleep")
}

// One that closes its output goes on: the end of a pipe is no exit.
func TestClosesOutput(t *testing.T) {
	t.Parallel()
	b := services(t, `quiet: {`+script(`echo the last line; exec >&- 2>&- <&-; >"$RLMINIT_HOME/closed"; while :; do sleep 0.02; done`)+`, environment: {RLMINIT_HOME: "${RLMINIT_HOME}"}}`)
	s := b.Await("quiet", "running")
	box.Eventually(b, long, "it has closed its output", func() (bool, any) {
		r := b.As(box.Service, "test", "-e", b.Home()+"/closed")
		return r.Code == 0, r
	})
	logged(b, "quiet", "the last line")
	b.Must("health", "--level", "ready")
	if now := b.Status()["quiet"]; now.State != "running" || *now.PID != *s.PID {
		t.Errorf("after it closed its output: %s", box.Describe(now))
	}
	b.Must("stop", "quiet")
	gone(b, "bash")
}

// What changes its process group and its session is found by its tag, on a stop
// and after a crash.
func TestChangesItsGroup(t *testing.T) {
	t.Parallel()
	if !ns.Privileged() {
		t.Skip("needs root: without tags another session is not found")
	}
	b := services(t, `leaver: {`+script(`
set -m
sleep 4242 & setsid sleep 4243 & setsid env -i /bin/sleep 4244 & (setsid setsid sleep 4245 &)
while [ "$(pgrep -c sleep)" -lt 4 ]; do :; done
echo four; exec sleep 4246`)+`, restart: {delay: 1ms, limit: 0}}`)
	s := b.Await("leaver", "running")
	logged(b, "leaver", "four")
	box.Eventually(b, long, "five sleepers", func() (bool, any) { n := len(named(b, "sleep")); return n == 5, n })
	before := named(b, "sleep")
	b.As(box.Service, "kill", "-9", fmt.Sprint(*s.PID))
	another(b, "leaver", *s.PID)
	box.Eventually(b, long, "five new sleepers", func() (bool, any) { n := len(named(b, "sleep")); return n == 5, n })
	for _, pid := range named(b, "sleep") {
		for _, old := range before {
			if pid == old {
				t.Errorf("pid %d of the run before is left", pid)
			}
		}
	}
	b.Must("stop", "leaver")
	gone(b, "sleep")
}

// kill: main leaves the others to the main process.
func TestStopMainOnly(t *testing.T) {
	t.Parallel()
	b := services(t, `boss: {`+script(`
(trap 'echo worker got TERM; exit 0' TERM; trap 'echo worker got USR1; exit 0' USR1; echo worker; while :; do sleep 0.02; done) & w=$!
trap 'kill -USR1 $w; wait $w; echo boss ends; exit 0' TERM
while :; do sleep 0.02; done`)+`, stop: {kill: main, timeout: 10s}}`)
	b.Await("boss", "running")
	logged(b, "boss", "worker")
	b.Must("stop", "boss")
	out := logged(b, "boss", "boss ends")
	if !strings.Contains(out, "worker got USR1") || strings.Contains(out, "got TERM") {
		t.Errorf("the worker heard more than its boss said:\n%s", out)
	}
}

// A suspended service is woken for its stop.
func TestSuspendedIsWoken(t *testing.T) {
	t.Parallel()
	b := services(t, `asleep: {`+script(`trap 'echo woken; exit 0' TERM; echo up; while :; do sleep 0.02; done`)+`, stop: {timeout: 10s}}`)
	s := b.Await("asleep", "running")
	logged(b, "asleep", "up")
	b.Shell(box.Root, fmt.Sprintf("kill -STOP %d", *s.PID))
	b.Must("stop", "asleep")
	logged(b, "asleep", "woken")
}

// An exit is known at once, whoever holds the log's pipe; what the grandchild
// writes before it goes is logged.
func TestGrandchildHoldsTheLog(t *testing.T) {
	t.Parallel()
	b := services(t, `holder: {`+script(`(trap 'echo the grandchild goes; exit 0' TERM; while :; do sleep 0.02; done) & echo parent ends; sleep 0.1; exit 75`)+`, stop: {timeout: 10s}, restart: {delay: 1h, max_delay: 1h, jitter: 0}}`)
	began := time.Now()
	s := b.Await("holder", "backoff")
	if s.LastExit == nil || s.LastExit.Code == nil || *s.LastExit.Code != 75 || time.Since(began) > 8*time.Second {
		t.Errorf("after %s: %s", time.Since(began), box.Describe(s))
	}
	logged(b, "holder", "parent ends")
	logged(b, "holder", "the grandchild goes")
	b.Must("stop", "holder")
}

// One that exits before it is ready has not started, whatever its exit code.
func TestExitsDuringStart(t *testing.T) {
	t.Parallel()
	b := services(t,
		`zero: {`+script(`exit 0`)+`, enabled: false, ready: {notify: true}, restart: on-failure}`,
		`loop: {`+script(`echo no DATABASE_URL >&2; exit 3`)+`, enabled: false, ready: {tcp: "127.0.0.1:1"}, restart: {delay: 1ms, factor: 1, limit: 3}}`)
	b.Fails(1, "zero failed: exit 0 before it was ready", "start", "zero")
	if s := b.Status()["zero"]; s.State == "running" || s.Ready != nil {
		t.Errorf("exited during its start: %s", box.Describe(s))
	}
	b.Fails(1, `"no DATABASE_URL"; `, "start", "loop")
	s := b.AwaitThat("loop", "quotes its log", func(s control.Service) bool { return len(s.LastLines) > 0 })
	if s.State != "failed" || !strings.HasSuffix(reason(s), ", last exit 3") {
		t.Errorf("failed as %s", box.Describe(s))
	}
	if out := b.Must("status", "loop"); !strings.Contains(out, "no DATABASE_URL") {
		t.Errorf("status does not show the last lines:\n%s", out)
	}
}

// An environment of 1.5 MB arrives whole; one that the kernel does not take
// makes the service failed at once, and the reason says what is wrong.
func TestHugeEnvironment(t *testing.T) {
	t.Parallel()
	files := func(count int) string {
		return `env_file: ["${RLMINIT_HOME}/e` + strings.Join([]string{"1", "2", "3"}[:count], `", "${RLMINIT_HOME}/e`) + `"], enabled: false`
	}
	b := services(t,
		`large: {type: oneshot, `+script(`env | grep -c ^BIG; env | wc -c`)+`, `+files(2)+`}`,
		`huge: {`+script(`exit 0`)+`, `+files(3)+`}`,
		`roomy: {type: oneshot, `+script(`env | grep -c ^BIG`)+`, limits: {stack: 64MB}, `+files(3)+`}`)
	for file := range 3 {
		var env strings.Builder
		for i := range 7 {
			fmt.Fprintf(&env, "BIG%d_%d=%s\n", file, i, strings.Repeat("x", 110_000))
		}
		b.Write(box.Service, fmt.Sprintf("%s/e%d", b.Home(), file+1), env.String())
	}
	b.Must("start", "large")
	logged(b, "large", " 14\n")
	logged(b, "large", " 154")
	b.Fails(1, `huge: cannot run "bash": its arguments and environment are larger than the kernel takes`, "start", "huge")
	if s := b.Status()["huge"]; s.State != "failed" || s.Restarts != 0 {
		t.Errorf("failed as %s", box.Describe(s))
	}
	b.Must("start", "roomy")
	logged(b, "roomy", " 21\n")
}

// What cannot be executed at all is failed at once, and the one line says why
// and what to do.
func TestCannotBeRun(t *testing.T) {
	t.Parallel()
	programs := map[string]struct {
		content, mode string
		want          string // of PATH, the program's
	}{
		"plain":    {"#!/bin/sh\nexit 0\n", "644", `cannot run "PATH": it is not executable (permission denied); chmod +x it, or mount its file system with exec`},
		"bare":     {"echo no shebang\n", "755", `cannot run "PATH": it is no program for this machine and has no #! line; add one, such as #!/bin/sh`},
		"crlf":     {"#!/bin/sh\r\necho hello\r\n", "755", `cannot run "PATH": the first line of PATH ends in CR LF; convert it with: sed -i 's/\r$//' PATH`},
		"missing":  {"#!/usr/bin/no-such-python -u\n", "755", `cannot run "PATH": it wants the interpreter "/usr/bin/no-such-python", which does not exist`},
		"empty":    {"", "755", `cannot run "PATH": it is no program for this machine and has no #! line; add one, such as #!/bin/sh`},
		"secret":   {"#!/bin/sh\nexit 0\n", "711", ""}, // of the service user's own: may be read
		"nothing":  {"#!\n", "755", `cannot run "PATH": the #! line of PATH names no interpreter; write one, such as #!/bin/sh`},
		"loop":     {"#!PATH\n", "755", `cannot run "PATH": too many levels of symbolic links`},
		"unmarked": {"#!PLAIN\n", "755", `cannot run "PATH": it wants the interpreter "PLAIN", which is not executable`},
	}
	lines := []string{
		`absent: {command: [no-such-program], enabled: false, environment: {PATH: /usr/bin}}`,
		`nofile: {command: [/no/such/file], enabled: false}`,
		`folder: {command: [/usr], enabled: false}`,
		`nodir: {command: [sleep, "1"], working_dir: /no/such/dir, enabled: false}`,
	}
	for name := range programs {
		lines = append(lines, fmt.Sprintf(`%s: {command: ["${RLMINIT_HOME}/%s"], enabled: false, type: oneshot}`, name, name))
	}
	b := services(t, lines...)
	home := b.Home()
	for name, p := range programs {
		content := strings.NewReplacer("PATH", home+"/"+name, "PLAIN", home+"/plain").Replace(p.content)
		b.Write(box.Service, home+"/"+name, content)
		b.Shell(box.Service, "chmod "+p.mode+" "+home+"/"+name)
	}
	check := func(name, want string) {
		r := b.Run("start", name)
		line := "rlminit: " + name + ": " + want + "\n"
		if strings.HasPrefix(want, "cannot enter ") {
			line = "rlminit: " + name + " failed: " + want + "; see rlminit logs " + name + ", then rlminit start " + name + "\n"
		}
		if r.Code != 1 || r.Err != line {
			t.Errorf("%s: %s\nwant %s", name, r, line)
		}
		if s := b.Status()[name]; s.State != "failed" || s.Restarts != 0 || reason(s) != want {
			t.Errorf("%s: %s", name, box.Describe(s))
		}
	}
	for name, p := range programs {
		if p.want == "" {
			b.Must("start", name)
			continue
		}
		check(name, strings.NewReplacer("PATH", home+"/"+name, "PLAIN", home+"/plain").Replace(p.want))
	}
	check("absent", `cannot run "no-such-program": not found in PATH (/usr/bin)`)
	check("nofile", `cannot run "/no/such/file": no such file or directory`)
	check("folder", `cannot run "/usr": it is a directory`)
	check("nodir", `cannot enter working_dir /no/such/dir: there is no such directory`)
}
