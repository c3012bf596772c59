package contract

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/tests/box"
)

// alice starts a box with one profile, whose gateway runs.
func alice(t testing.TB, start New, config string) (*box.Box, control.Service) {
	t.Helper()
	b := start(t, box.Spec{Config: config})
	b.Must("profile", "create", "alice")
	return b, b.Await("gateway-alice", "running")
}

// restarted waits for a service's next run after one of this pid.
func restarted(b *box.Box, name string, pid int) control.Service {
	b.Helper()
	return b.AwaitThat(name, fmt.Sprintf("runs with another pid than %d", pid), func(s control.Service) bool {
		return s.State == "running" && s.PID != nil && *s.PID != pid
	})
}

// logged waits until a service has logged something.
func logged(b *box.Box, name, what string) {
	b.Helper()
	box.Eventually(b, long, name+" logs "+what, func() (bool, any) {
		out := b.Must("logs", name)
		return strings.Contains(out, what), out
	})
}

// CrashIsRestarted: a service that dies, by a code or a signal, runs again at
// once, and how it died is told exactly.
func CrashIsRestarted(t *testing.T, start New) {
	b, s := alice(t, start, Config())
	b.Call(*s.Port, "/fault/crash?code=42", "")
	s = restarted(b, "gateway-alice", *s.PID)
	if s.Restarts != 1 || s.LastExit == nil || s.LastExit.Code == nil || *s.LastExit.Code != 42 || s.LastExit.Signal != nil {
		t.Errorf("after exit 42: %s", box.Describe(s))
	}
	b.As(box.Service, "kill", "-9", fmt.Sprint(*s.PID))
	s = restarted(b, "gateway-alice", *s.PID)
	if s.Restarts != 2 || s.LastExit == nil || s.LastExit.Code != nil || s.LastExit.Signal == nil || *s.LastExit.Signal != "KILL" {
		t.Errorf("after SIGKILL: %s", box.Describe(s))
	}
	if s.Desired != "running" {
		t.Errorf("a crash changed what is wanted: %s", box.Describe(s))
	}
}

// CrashLoopFails: more starts than the limit make a service failed, with a
// reason that names the last exit; a person's start tries again.
func CrashLoopFails(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`loop: {`+bash("echo no TOKEN; exit 3")+`, ready: {notify: true}, restart: {delay: 10ms, max_delay: 20ms, limit: 4, window: 60s}}`,
		`retried: {command: [nasty, exit, "3"], restart: {delay: 10ms, limit: 2, retry_failed: 100ms}}`)})
	s := b.Await("loop", "failed")
	if s.Reason == nil || s.LastExit == nil || s.LastExit.Code == nil || *s.LastExit.Code != 3 || s.Desired != "running" {
		t.Errorf("failed as %s", box.Describe(s))
	}
	if text := b.Run("status", "loop"); !strings.Contains(text.Out, "failed") {
		t.Errorf("status: %s", text)
	}
	for _, line := range []string{
		`rlminit: a service ended and will be started again service=loop pid=\d+ cause="exit 3"`,
		`rlminit: a service failed service=loop pid=\d+ cause="\d+ starts in .*, last exit 3"`,
	} {
		if out := b.Printed(); !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("no line %s in:\n%s", line, out)
		}
	}
	b.Fails(1, `"no TOKEN"`, "start", "loop")
	if again := b.Await("loop", "failed"); again.Restarts <= s.Restarts {
		t.Errorf("a person's start tried nothing: %s", box.Describe(again))
	}
	box.Eventually(b, long, "a failed service is tried again", func() (bool, any) {
		out := b.Printed()
		return regexp.MustCompile(`rlminit: a failed service is tried again service=retried cause="2 starts in .*, last exit 3"`).MatchString(out), out
	})
}

// ExitClasses: success, fatal and restart codes do what the definition says.
func ExitClasses(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`fatal: {command: [nasty, exit, "78"]}`,
		`done: {command: [nasty, exit, "0"], restart: on-failure}`,
		`again: {command: [nasty, exit, "0"], restart: {delay: 10ms}}`,
		`once: {type: oneshot, command: [nasty, exit, "0"]}`,
		`broken: {type: oneshot, command: [nasty, exit, "9"], restart: no}`,
		`absent: {command: [no-such-program]}`,
	)})
	if s := b.Await("fatal", "failed"); s.Restarts != 0 {
		t.Errorf("a fatal exit code was followed by a restart: %s", box.Describe(s))
	}
	b.Await("done", "exited")
	b.Await("once", "exited")
	b.AwaitThat("again", "is wanted, and started again after a success", func(s control.Service) bool { return s.Restarts > 1 })
	b.AwaitThat("broken", "ended with 9", func(s control.Service) bool {
		return (s.State == "failed" || s.State == "exited") && s.LastExit != nil && s.LastExit.Code != nil && *s.LastExit.Code == 9
	})
	s := b.AwaitThat("absent", "has a reason", func(s control.Service) bool { return s.Reason != nil })
	if !strings.Contains(*s.Reason, "no-such-program") {
		t.Errorf("reason %q", *s.Reason)
	}
}

// StartStopRestart: the verbs wait for the outcome, and repeating them is no
// error.
func StartStopRestart(t *testing.T, start New) {
	b, first := alice(t, start, Config())
	b.Must("stop", "alice")
	if s := b.Status()["gateway-alice"]; s.State != "stopped" || s.Desired != "stopped" || s.PID != nil {
		t.Errorf("after stop: %s", box.Describe(s))
	}
	b.Must("stop", "alice")
	if r := b.Run("status", "-q", "alice"); r.Code != 3 {
		t.Errorf("status -q of a stopped service: %s", r)
	}
	b.Must("start", "gateway-alice")
	second := b.Status()["gateway-alice"]
	if second.State != "running" || second.PID == nil || *second.PID == *first.PID {
		t.Errorf("after start: %s", box.Describe(second))
	}
	b.Must("start", "alice")
	if s := b.Status()["gateway-alice"]; *s.PID != *second.PID {
		t.Error("start of a running service restarted it")
	}
	if r := b.Run("status", "-q", "alice"); r.Code != 0 {
		t.Errorf("status -q of a running service: %s", r)
	}
	b.Must("restart", "alice")
	third := b.Status()["gateway-alice"]
	if third.State != "running" || third.PID == nil || *third.PID == *second.PID {
		t.Errorf("after restart: %s", box.Describe(third))
	}
	b.Must("wait", "alice", "--for", "running", "--timeout", "1s")
	b.Fails(7, "alice", "wait", "alice", "--for", "stopped", "--timeout", "50ms")
	b.Must("stop", "--runtime", "alice")
	if s := b.Status()["gateway-alice"]; s.State != "stopped" || s.Desired != "running" {
		t.Errorf("after stop --runtime: %s", box.Describe(s))
	}
	b.Must("profile", "create", "alice", "--exist-ok", "--env", "COLOUR=red", "--restart")
	b.Must("profile", "set", "alice", "COLOUR=blue", "--restart")
	if s := b.Status()["gateway-alice"]; s.State != "stopped" || s.Desired != "running" {
		t.Errorf("after a change of a profile that was stopped for now: %s", box.Describe(s))
	}
	b.Must("start", "--all")
	b.Must("stop", "--all")
	b.Fails(4, "did you mean", "start", "alcie")
}

// WaitEnds: whoever waits for a service to run is told when that will not be.
func WaitEnds(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`fatal: {command: [nasty, exit, "78"]}`,
		`retried: {command: [nasty, exit, "3"], restart: {delay: 10ms, limit: 2, retry_failed: 1h}}`,
		`done: {command: [nasty, exit, "0"], restart: on-failure}`,
		`once: {type: oneshot, command: [nasty, exit, "0"]}`,
	)})
	b.Await("fatal", "failed")
	b.Fails(1, "fatal failed: exit 78", "wait", "fatal", "--for", "running")
	b.Await("retried", "failed")
	b.Fails(1, "retried failed", "wait", "retried", "--for", "running")
	b.Await("done", "exited")
	b.Fails(1, "done has exited: exit 0", "wait", "done", "--for", "running")
	b.Must("wait", "once", "--for", "running")
	b.Must("profile", "create", "--stopped", "alice")
	b.Fails(7, "alice", "wait", "alice", "--for", "running", "--timeout", "50ms") // somebody may start it
	waited := make(chan box.Result)
	go func() { waited <- b.Run("wait", "alice", "--for", "running") }()
	box.Eventually(b, long, "the wait", func() (bool, any) {
		for _, p := range b.Processes() {
			if slices.Contains(p.Args, "wait") {
				return true, p
			}
		}
		return false, "none"
	})
	b.Must("profile", "delete", "alice")
	if r := <-waited; r.Code != 4 {
		t.Errorf("the profile was deleted: %s", r)
	}
}

// DependenciesAreOrdered: what is required runs first and stops last.
func DependenciesAreOrdered(t *testing.T, start New) {
	step := func(name string) string {
		return bash("trap 'echo " + name + " stops; exit 0' TERM; echo " + name + " starts; while :; do sleep 0.02; done")
	}
	b := start(t, box.Spec{Config: Services(
		`app: {requires: [cache], `+step("app")+`}`,
		`cache: {requires: [disk], `+step("cache")+`}`,
		`disk: {`+step("disk")+`}`,
	)})
	b.Await("app", "running")
	printed(b, "app starts")
	printed(b, "cache starts")
	printed(b, "disk starts")
	before := b.Status()
	if out := b.Must("restart", "cache"); !strings.Contains(out, "restarted along with it: app") {
		t.Errorf("what goes along is not named: %s", out)
	}
	app := restarted(b, "app", *before["app"].PID)
	if now := b.Status(); *now["disk"].PID != *before["disk"].PID || *now["cache"].PID == *before["cache"].PID || now["cache"].Since.After(*app.Since) {
		t.Errorf("after a restart of cache: %s, %s, %s", box.Describe(now["disk"]), box.Describe(now["cache"]), box.Describe(app))
	}
	box.Eventually(b, long, "both have begun, and can say that they stop", func() (bool, any) {
		out := b.Printed()
		return strings.Count(out, "app starts") == 2 && strings.Count(out, "cache starts") == 2, out
	})
	inOrder(t, b.Printed(), "app stops", "cache stops")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	inOrder(t, b.Printed(), "app stops", "cache stops", "app stops", "cache stops", "disk stops")
}

// OrderGoesThroughOneshots: what requires a oneshot that has ended stops before what that
// required, goes along with a stop and a restart of it, and comes back after it.
func OrderGoesThroughOneshots(t *testing.T, start New) {
	step := func(name, takes string) string {
		return bash("trap 'sleep " + takes + "; echo " + name + " stops; exit 0' TERM; echo " + name + " starts; while :; do sleep 0.02; done")
	}
	b := start(t, box.Spec{Config: Services(
		`web: {requires: [migrate], `+step("web", "0.5")+`}`,
		`migrate: {type: oneshot, requires: [db], `+bash("echo migrate runs")+`}`,
		`db: {`+step("db", "0")+`}`,
	)})
	run := func(times int) { // and can say that they stop
		b.Helper()
		box.Eventually(b, long, "both have begun", func() (bool, any) {
			out := b.Printed()
			return strings.Count(out, "web starts") == times && strings.Count(out, "db starts") == times, out
		})
	}
	run(1)
	if out := b.Must("stop", "db"); !strings.Contains(out, "stopped along with it: web") {
		t.Errorf("what goes along is not named: %s", out)
	}
	waits(b, "web", "requires migrate, which requires db, which is stopped")
	b.Await("migrate", "exited")
	b.Must("start", "db")
	run(2)
	before := b.Await("web", "running")
	b.Must("restart", "db")
	web := restarted(b, "web", *before.PID)
	if db := b.Status()["db"]; db.Since.After(*web.Since) {
		t.Errorf("after a restart of db: %s, %s", box.Describe(db), box.Describe(web))
	}
	run(3)
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	inOrder(t, b.Printed(), "web stops", "db stops", "web stops", "db stops", "web stops", "db stops")
	if out := b.Printed(); strings.Count(out, "migrate runs") != 1 {
		t.Errorf("the oneshot has not run once:\n%s", out)
	}
}

// AfterAndWantsAreOrdered: what another comes after is waited for, and restarted with
// it in two phases, whichever name sorts first.
func AfterAndWantsAreOrdered(t *testing.T, start New) {
	// One is ready when it has said that it starts: its process is there before that.
	const ready = `ready: {exec: [bash, -c, 'test -e "$$0/open" && test -e "$$0/$$1"', "${RLMINIT_HOME}", NAME], timeout: 60s}`
	step := func(name string) string {
		file := `"$$RLMINIT_HOME/` + name + `"`
		return bash("trap 'rm " + file + "; echo " + name + " stops; exit 0' TERM; echo " + name + " starts; >" + file + "; while :; do sleep 0.02; done")
	}
	readiness := func(name string) string { return strings.Replace(ready, "NAME", name, 1) }
	b := start(t, box.Spec{Config: Services(
		`mid: {after: [zdb], `+step("mid")+`}`,
		`zdb: {`+step("zdb")+`, `+readiness("zdb")+`}`,
		`late: {wants: [adb], `+step("late")+`}`,
		`adb: {`+step("adb")+`, `+readiness("adb")+`}`,
	)})
	waits(b, "mid", "waits for zdb")
	waits(b, "late", "waits for adb")
	b.Shell(box.Service, `touch "${RLMINIT_HOME:-/data}/open"`)
	for _, name := range []string{"mid", "zdb", "late", "adb"} {
		b.Await(name, "running")
	}
	printsInOrder(b, "zdb starts", "mid starts")
	printsInOrder(b, "adb starts", "late starts")
	before := b.Status()
	b.Must("restart", "--all", "--timeout", "60s")
	for name, now := range b.Status() {
		if now.State != "running" || *now.PID == *before[name].PID {
			t.Errorf("after a restart of all, %s is %s, and was %s", name, box.Describe(now), box.Describe(before[name]))
		}
	}
	printsInOrder(b, "mid starts", "mid stops", "zdb stops", "zdb starts", "mid starts")
	printsInOrder(b, "late starts", "late stops", "adb stops", "adb starts", "late starts")
	b.Shell(box.Service, `rm "${RLMINIT_HOME:-/data}/open"`)
	b.Must("stop", "--all")
	b.Must("start", "--all", "--no-wait")
	waits(b, "mid", "waits for zdb")
	waits(b, "late", "waits for adb")
	b.Shell(box.Service, `touch "${RLMINIT_HOME:-/data}/open"`)
	b.Await("mid", "running")
	b.Await("late", "running")
}

// printsInOrder waits until a box has printed the lines, one after the other: what runs may
// not have printed yet that it does.
func printsInOrder(b *box.Box, lines ...string) {
	b.Helper()
	box.Eventually(b, long, fmt.Sprintf("it has printed %q, in this order", lines), func() (bool, any) {
		out := b.Printed()
		rest, found := out, true
		for i := 0; i < len(lines) && found; i++ {
			_, rest, found = strings.Cut(rest, lines[i])
		}
		return found, out
	})
}

// inOrder checks that the lines are there, one after the other.
func inOrder(t *testing.T, out string, lines ...string) {
	t.Helper()
	rest := out
	for _, line := range lines {
		_, after, found := strings.Cut(rest, line)
		if !found {
			t.Errorf("no %q, in the order of %q, in:\n%s", line, lines, out)
			return
		}
		rest = after
	}
}

// waits waits until a service waits, and says why.
func waits(b *box.Box, name, why string) {
	b.Helper()
	b.AwaitThat(name, "says "+why, func(s control.Service) bool {
		return s.State == "waiting" && s.Reason != nil && strings.Contains(*s.Reason, why)
	})
}

// ServiceRequiresAGateway: a service waits for the gateway of a profile that is
// made later, outlives its deletion, and waits for the next one of that name.
func ServiceRequiresAGateway(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(`app: {command: [nasty, sleep], requires: [gateway-alice]}`)})
	waits(b, "app", "requires gateway-alice, which does not exist")
	b.Must("profile", "create", "alice")
	s := b.Await("app", "running")
	b.Must("profile", "delete", "alice")
	if now := b.Status()["app"]; now.State != "running" || *now.PID != *s.PID {
		t.Errorf("after the deletion: %s", box.Describe(now))
	}
	b.Fails(1, "requires gateway-alice, which does not exist", "restart", "app")
	b.Must("profile", "create", "alice", "--stopped")
	waits(b, "app", "requires gateway-alice, which is stopped")
	b.Must("start", "app")
	b.Await("gateway-alice", "running")
}

// SlotsInACircle: definitions put there by hand that require each other name the
// way in their reasons, and hold up nothing else; they run when one is mended.
func SlotsInACircle(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Config()})
	put := func(name, requires string) {
		b.Shell(box.Supervisor, `cd "${RLMINIT_RUNTIME_DIR:-/run/rlminit}/services" && mkdir -p .new &&
			echo 'command: [nasty, sleep]' >.new/service.yaml && echo 'requires: [`+requires+`]' >>.new/service.yaml &&
			if [ -d `+name+` ]; then mv .new/service.yaml `+name+`/service.yaml; else mv .new `+name+`; fi`)
	}
	put("one", "two")
	waits(b, "one", "requires two, which does not exist")
	put("two", "one")
	waits(b, "one", "requires itself: one → two → one")
	waits(b, "two", "requires itself: two → one → two")
	b.Fails(1, "requires itself: one → two → one", "start", "one")
	b.Must("profile", "create", "alice")
	b.Must("stop", "one")
	b.Must("start", "--no-wait", "one")
	put("two", "")
	b.Await("two", "running")
	b.Await("one", "running")
}

// HungServiceIsRestarted: a watchdog that is not fed, and a health check that
// fails, both end in a restart.
func HungServiceIsRestarted(t *testing.T, start New) {
	for name, c := range map[string]struct{ more, fault, why string }{
		"watchdog": {"  watchdog: 1s\n", "/fault/hang", "watchdog: no WATCHDOG=1 for 1s"},
		"health":   {"  health: {http: \"http://127.0.0.1:${PORT}/healthz\", interval: 200ms, timeout: 500ms, retries: 2}\n", "/fault/unhealthy", "unhealthy: status 503"},
	} {
		t.Run(name, func(t *testing.T) {
			b, s := alice(t, start, Config(c.more))
			b.Call(*s.Port, c.fault, "")
			if s = restarted(b, "gateway-alice", *s.PID); s.Restarts != 1 || s.Reason == nil || !strings.Contains(*s.Reason, c.why) {
				t.Errorf("restarted as %s", box.Describe(s))
			}
			if log := b.Must("logs", "alice"); !strings.Contains(log, "--- "+c.why) {
				t.Errorf("its log does not say why:\n%s", log)
			}
		})
	}
}

// ProbeIsItsServices: what a probe executes is who its service is, where that is:
// nobody else may enter its directory.
func ProbeIsItsServices(t *testing.T, start New) {
	probe := `exec: [bash, -c, '[ "$$(id -u)" = 1234 ] && [ -w . ] && [ "$$(pwd)" = "$${RLMINIT_HOME}/private" ]']`
	b := start(t, box.Spec{Config: Config(`dirs: [{path: private, mode: "0700", owner: "1234:1234"}]
services:
  private:
    command: [nasty, sleep]
    user: "1234:1234"
    working_dir: "${RLMINIT_HOME}/private"
    ready: {` + probe + `, timeout: 20s}
    health: {` + probe + `, interval: 50ms, timeout: 10s, retries: 1}
`)})
	b.Await("private", "running")
	s := b.AwaitThat("private", "is healthy", func(s control.Service) bool { return s.Healthy != nil && *s.Healthy })
	if s.Restarts != 0 {
		t.Errorf("%s", box.Describe(s))
	}
}

// PassedSocket: a listener that rlminit opens outlives the service, so that no
// connection is refused while it restarts.
func PassedSocket(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`web: {command: [gateway, --profile, web], ready: {notify: true}, sockets: [{listen: "tcp:127.0.0.1:8099", name: http}]}`)})
	s := b.Await("web", "running")
	if answer := b.Call(8099, "/chat", "one"); !strings.Contains(answer, "one") {
		t.Errorf("answer %q", answer)
	}
	b.As(box.Service, "kill", "-9", fmt.Sprint(*s.PID))
	if answer := b.Call(8099, "/chat", "two"); !strings.Contains(answer, "two") {
		t.Errorf("answer %q", answer)
	}
}

// LogsAreKept: every line a service writes can be read back, in order.
func LogsAreKept(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`talker: {type: oneshot, command: [nasty, lines, "3000"], log: {max_size: 10MB}}`)})
	b.Await("talker", "exited")
	var out string
	box.Eventually(b, long, "all lines", func() (bool, any) {
		out = b.Must("logs", "talker", "-n", "10000")
		n := strings.Count(out, "line ")
		return n >= 3000, n
	})
	next := 1
	for line := range strings.Lines(out) {
		if strings.HasSuffix(strings.TrimSpace(line), fmt.Sprintf("line %d", next)) {
			next++
		}
	}
	if next != 3001 {
		t.Errorf("line %d is out of order or missing", next)
	}
	// The exit is a line of the log too.
	if tail := b.Must("logs", "talker", "-n", "2"); !strings.Contains(tail, "line 3000\n") || strings.Count(tail, "\n") != 2 {
		t.Errorf("the last lines: %q", tail)
	}
}

// Signals: a person's signal reaches the service and is no crash of ours.
func Signals(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`deaf: {`+bash("trap 'echo got USR1' USR1; echo ready; while :; do sleep 0.02; done")+`}`,
		`away: {`+bash("setsid sleep 1000 & echo $!; sleep 1000")+`}`)})
	b.Await("deaf", "running")
	printed(b, "ready")
	b.Await("away", "running")
	b.Must("signal", "USR1", "deaf")
	printed(b, "got USR1")
	var sent control.Service
	if out := b.Must("signal", "SIGUSR1", "deaf", "--json"); json.Unmarshal([]byte(out), &sent) != nil || sent.PID == nil || *sent.PID != *b.Status()["deaf"].PID {
		t.Errorf("it was sent to %s", out)
	}
	got := func(signals int) { // of two that come at once the kernel keeps one
		t.Helper()
		box.Eventually(b, long, fmt.Sprintf("it got %d signals", signals), func() (bool, any) {
			out := b.Must("logs", "deaf")
			return strings.Count(out, "got USR1") == signals, out
		})
	}
	got(2)
	// One process: a child in a session of its own is the service's, PID 1 and a shell of
	// somebody's are not.
	b.Must("signal", "USR1", "--pid", fmt.Sprint(*b.Status()["deaf"].PID))
	got(3)
	away := strings.TrimSpace(b.Must("logs", "away", "-n", "1"))
	b.Must("signal", "KILL", "--pid", away[strings.LastIndex(away, " ")+1:])
	box.Eventually(b, long, "the child of away is gone", func() (bool, any) {
		r := b.Run("signal", "CONT", "--pid", away[strings.LastIndex(away, " ")+1:])
		return r.Code == 1 || r.Code == 5, r // collected, or a zombie
	})
	if r := b.Run("signal", "TERM", "--pid", "1"); r.Code != 5 || !strings.Contains(r.Err, "belongs to no service and no job") {
		t.Errorf("a signal to PID 1: %s", r)
	}
	if r := b.Run("signal", "TERM", "--pid", "1", "deaf"); r.Code != 2 {
		t.Errorf("a signal to a process and a service: %s", r)
	}
	if r := b.Run("signal", "NOSUCH", "deaf", "other"); r.Code != 2 || strings.Count(r.Err, "NOSUCH") != 1 {
		t.Errorf("no such signal: %s", r)
	}
}

// Health: alive means rlminit itself, ready means that what is wanted is up.
func Health(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(
		`good: {command: [nasty, sleep]}`,
		`bad: {command: [nasty, exit, "78"]}`)})
	b.Await("good", "running")
	b.Await("bad", "failed")
	b.Must("health")
	b.Must("health", "--level", "ready", "good")
	if r := b.Run("health", "--level", "ready"); r.Code != 1 || !strings.Contains(r.Out+r.Err, "bad") {
		t.Errorf("readiness with a failed service: %s", r)
	}
	if r := b.Run("status", "-q"); r.Code != 3 {
		t.Errorf("status -q with a failed service: %s", r)
	}
	b.Must("stop", "bad") // and so it is wanted no more
	b.Must("health", "--level", "ready")
	b.Must("status", "-q")
}

// Reload: a changed definition is taken up, and only what changed restarts.
func Reload(t *testing.T, start New) {
	b, s := alice(t, start, Config())
	b.Must("profile", "create", "bob")
	bob := b.Await("gateway-bob", "running")
	path := b.Home() + "/profiles/alice/profile.yaml"
	b.Shell(box.Service, `grep -v '^environment' `+path+` >/tmp/profile.$$ || true; echo 'environment: {MOOD: good}' >>/tmp/profile.$$; cat /tmp/profile.$$ >`+path+`; rm /tmp/profile.$$`)
	b.Must("reload")
	s = restarted(b, "gateway-alice", *s.PID)
	if self := b.Call(*s.Port, "/self"); !strings.Contains(self, "MOOD=good") {
		t.Error("the changed environment was not taken up")
	}
	if now := b.Status()["gateway-bob"]; *now.PID != *bob.PID {
		t.Error("a reload restarted what had not changed")
	}
	// At the start root could read it.
	b.Shell(box.Root, `chmod 0 "${RLMINIT_CONFIG:-/etc/rlminit/rlminit.yaml}"`)
	b.Fails(1, "make it readable for all", "reload")
}

// ServiceNamedLikeAProfile: a configuration that takes a profile's name for a
// service is refused whole, and the gateway runs on.
func ServiceNamedLikeAProfile(t *testing.T, start New) {
	b, s := alice(t, start, Config())
	path := strings.TrimSpace(b.Shell(box.Root, `echo "${RLMINIT_CONFIG:-/etc/rlminit/rlminit.yaml}"`))
	b.Write(box.Root, path, Services(`web: {command: [sleep, infinity]}`, `alice: {command: [sleep, infinity]}`))
	for _, args := range [][]string{{"reload", "--dry-run"}, {"reload"}} {
		b.Fails(17, `service "alice" has the name of a profile; give it another one, or remove the profile first: rlminit profile delete alice`, args...)
	}
	if now := b.Status(); len(now) != 1 || *now["gateway-alice"].PID != *s.PID {
		t.Errorf("%d services, %s", len(now), box.Describe(now["gateway-alice"]))
	}
	b.Must("profile", "delete", "alice")
	b.Must("reload")
	b.Await("alice", "running")
	b.Await("web", "running")
}

// ServiceNamedLikeAProfileAtBoot: a container that is started with such a configuration
// says so wherever somebody asks; the name means the service, which gets nothing of the
// profile's; and the profile can be renamed, or deleted.
func ServiceNamedLikeAProfileAtBoot(t *testing.T, start New) {
	b := start(t, box.Spec{Config: ownUsers()})
	for _, name := range []string{"alice", "zed"} {
		b.Must("profile", "create", name)
		b.Await("gateway-"+name, "running")
		b.Write(box.Root, b.Home()+"/profiles/"+name+"/notes", "precious")
	}
	port := *b.Await("gateway-alice", "running").Port
	path := strings.TrimSpace(b.Shell(box.Root, `echo "${RLMINIT_CONFIG:-/etc/rlminit/rlminit.yaml}"`))
	b.Write(box.Root, path, ownUsers("services: {alice: {command: [sleep, infinity]}, zed: {command: [sleep, infinity]}}\n"))
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Again()
	b.Await("alice", "running")
	if s := b.Await("gateway-alice", "failed"); s.Reason == nil || !strings.Contains(*s.Reason, "rlminit profile rename alice") {
		t.Errorf("%s", box.Describe(s))
	}
	var health control.Health
	r := b.Run("health", "--level", "ready", "--json")
	if err := json.Unmarshal([]byte(r.Out), &health); err != nil || r.Code == 0 || !strings.Contains(health.Missing, "service alice") || !strings.Contains(health.Missing, "service zed") {
		t.Errorf("health: %s %v", r, err)
	}
	for _, args := range [][]string{{"profile", "list"}, {"doctor"}, {"status"}, {"check"}} {
		if r := b.Run(args...); !strings.Contains(r.Out+r.Err, "alice") || args[0] != "status" && !strings.Contains(r.Out+r.Err, "rlminit profile rename alice") && args[0] != "profile" {
			t.Errorf("%v: %s", args, r)
		}
	}
	if r := b.Run("run", "-p", "alice", "--", "bash", "-c", `id -u; cat "$0"`, b.Home()+"/profiles/alice/notes"); separable(b) && (!strings.HasPrefix(r.Out, "1000\n") || strings.Contains(r.Out, "precious")) {
		t.Errorf("a job of the service alice: %s", r)
	}
	b.Must("reload")
	id := strings.TrimSpace(b.Must("run", "-p", "gateway-alice", "--detach", "--", "sleep", "600"))
	b.Fails(17, "it has job "+id, "profile", "rename", "alice", "carol")
	b.Must("job", "cancel", id)
	if dir := b.Must("run", "-p", "gateway-alice", "--", "pwd"); strings.TrimSpace(dir) != b.Home()+"/profiles/alice" {
		t.Errorf("a job of the profile alice is in %s", dir)
	}
	b.Must("profile", "rename", "alice", "carol")
	if s := b.Await("gateway-carol", "running"); *s.Port != port {
		t.Errorf("%s; it had port %d", box.Describe(s), port)
	}
	b.Must("profile", "delete", "zed")
	b.Must("health", "--level", "ready")
	if b.Shell(box.Root, "cat "+b.Home()+"/profiles/carol/notes "+b.Home()+"/trash/zed-*/notes") != "preciousprecious" {
		t.Error("not all is where it should be")
	}
}

// Operations: a command on several is one operation, which can be listed, waited
// for and cancelled; a rolling restart takes one while fewer than its number are
// out of service, and stops at the first that does not get ready.
func Operations(t *testing.T, start New) {
	const ready = `ready: {exec: [bash, -c, '! test -e "$0"', "${RLMINIT_HOME}/broken"], timeout: 1s}, restart: {delay: 20s}`
	names := []string{"web-1", "web-2", "web-3"}
	var services []string
	for _, name := range names {
		services = append(services, name+`: {command: [nasty, sleep], `+ready+`}`)
	}
	b := start(t, box.Spec{Config: Services(append(services, `other: {command: [nasty, sleep]}`)...)})
	for _, name := range append(names, "other") {
		b.Await(name, "running")
	}
	before := b.Status()
	id := strings.TrimSpace(b.Must("restart", "web-*", "--no-wait"))
	b.Must("wait", "--operation", id, "--timeout", "30s")
	var o control.Operation
	if err := json.Unmarshal([]byte(b.Must("operations", id, "--json")), &o); err != nil || o.State != "done" || len(o.Members) != 3 || o.Verb != "restart" {
		t.Fatalf("%+v %v", o, err)
	}
	for _, m := range o.Members {
		if m.OldPID != *before[m.Name].PID || m.PID == m.OldPID || m.State != "done" {
			t.Errorf("%+v, and it was %s", m, box.Describe(before[m.Name]))
		}
	}
	b.Fails(17, "is over", "cancel", id)
	b.Fails(4, "no operation 4711", "cancel", "4711")
	listed := b.Must("operations")
	b.Fails(4, `no profile or service "none-*"`, "restart", "none-*")
	for _, more := range [][]string{{}, {"web-*"}, {"--all"}, {"--no-wait"}, {"--rolling"}} {
		b.Fails(2, `no state "runing"; did you mean "running"?`, append([]string{"stop", "--state", "runing"}, more...)...)
	}
	b.Fails(2, `no state "upside"; a service is stopped, waiting, `, "restart", "--state", "upside")
	b.Fails(2, `no type of record "transitoin"; did you mean "transition"?`, "events", "--type", "transition", "--type", "transitoin")
	b.Fails(2, `no type of record "what"; there are `, "events", "--type", "what")
	b.Fails(4, `no profile or service "web-11"`, "events", "web-11")
	b.Fails(2, `-n takes a number of lines, or all, not "-1"`, "events", "-n", "-1")
	if all := b.Must("events", "web-1"); all != b.Must("events", "-n", "all", "web-1") || b.Must("events", "-n", "0", "web-1") != "" {
		t.Errorf("-n 0 and -n all are none and all of\n%s", all)
	} else if some := b.Must("events", "-n", "3", "web-1"); strings.Count(some, "\n") != 3 || !strings.HasSuffix(all, "\n"+some) {
		t.Errorf("the last 3 of\n%s\nare said to be\n%s", all, some)
	}
	b.Must("start", "--all", "--state", "failed")
	if now := b.Must("operations"); now != listed {
		t.Errorf("commands on nothing are operations: %s", now)
	}

	before = b.Status()
	b.Must("restart", "web-*", "--rolling", "--steady", "100ms")
	after := b.Status()
	for i, name := range names {
		if *after[name].PID == *before[name].PID {
			t.Errorf("%s has its old process", name)
		}
		if i > 0 && after[name].Since.Before(*after[names[i-1]].Since) {
			t.Errorf("%s was taken before %s was back", name, names[i-1])
		}
	}
	if *after["other"].PID != *before["other"].PID {
		t.Error("another was restarted too")
	}

	// When the supervisor is replaced it goes no further, and nobody is left half-way.
	before = b.Status()
	id = strings.TrimSpace(b.Must("restart", "web-*", "--rolling", "--steady", "60s", "--no-wait"))
	restarted(b, "web-1", *before["web-1"].PID)
	kill(b, "KILL", b.Supervisor().PID)
	b.Fails(17, "interrupted", "wait", "--operation", id)
	after = b.Status()
	for _, name := range names {
		if s := b.Await(name, "running"); (*s.PID == *before[name].PID) != (name != "web-1") {
			t.Errorf("after the supervisor was replaced: %s, before: %s", box.Describe(s), box.Describe(before[name]))
		}
	}

	b.Shell(box.Service, `touch "${RLMINIT_HOME:-/data}/broken"`)
	b.Fails(8, "stopped at web-1", "restart", "web-*", "--rolling", "--steady", "100ms")
	now := b.Status()
	for _, name := range names[1:] {
		if now[name].State != "running" || *now[name].PID != *after[name].PID {
			t.Errorf("after the gate: %s", box.Describe(now[name]))
		}
	}
	b.Shell(box.Service, `rm "${RLMINIT_HOME:-/data}/broken"`)
	b.Must("stop", "web-*", "--rolling=2")
	b.Must("start", "web-*", "--rolling", "--steady", "100ms")
	now = b.Status()
	for i, name := range names {
		if now[name].State != "running" || i > 0 && now[name].Since.Before(*now[names[i-1]].Since) {
			t.Errorf("after a rolling start: %s", box.Describe(now[name]))
		}
	}
}

// RollingHealsTheUnhealthy: who is unhealthy, and stays so until it is restarted, is
// taken first by a rolling restart, and can be chosen by that.
func RollingHealsTheUnhealthy(t *testing.T, start New) {
	const well = `"${RLMINIT_HOME}/well-`
	names := []string{"web-1", "web-2", "web-3"}
	var services []string
	for _, name := range names {
		services = append(services, name+`: {command: [bash, -c, 'touch "$0"; exec nasty sleep', `+well+name+`"],
    health: {exec: [test, -e, `+well+name+`"], interval: 100ms, retries: 1, action: none}}`)
	}
	b := start(t, box.Spec{Config: Services(services...)})
	for _, name := range names {
		b.Await(name, "running")
	}
	// falls has web-2 fall ill, and heals whom a command restarts.
	falls := func(and func()) (before, after map[string]control.Service) {
		t.Helper()
		b.Shell(box.Service, `rm "${RLMINIT_HOME:-/data}/well-web-2"`)
		box.Eventually(b, long, "web-2 is unhealthy", func() (bool, any) {
			s := b.Status()["web-2"]
			return s.Healthy != nil && !*s.Healthy, box.Describe(s)
		})
		before = b.Status()
		and()
		return before, b.Status()
	}
	before, after := falls(func() { b.Must("restart", "web-*", "--rolling", "--steady", "300ms", "--timeout", "60s") })
	for _, name := range names {
		if *after[name].PID == *before[name].PID || after[name].Since.Before(*after["web-2"].Since) {
			t.Errorf("%s, and before that %s", box.Describe(after[name]), box.Describe(before[name]))
		}
	}
	before, after = falls(func() { b.Must("restart", "--all", "--state", "unhealthy") })
	for _, name := range names {
		if (*after[name].PID == *before[name].PID) != (name != "web-2") {
			t.Errorf("%s, and before that %s", box.Describe(after[name]), box.Describe(before[name]))
		}
	}
}

// OperationsAreRemembered: over a kill of the container and over its stop, with who
// gave them; what was under way is interrupted, and ids go on.
func OperationsAreRemembered(t *testing.T, start New) {
	b := start(t, box.Spec{Config: Services(`web-1: {command: [nasty, sleep]}`, `web-2: {command: [nasty, sleep]}`)})
	b.Await("web-1", "running")
	b.Await("web-2", "running")
	last := uint64(0)
	begin := func(args ...string) string {
		t.Helper()
		text := strings.TrimSpace(b.Must(append(args, "--no-wait")...))
		id, err := strconv.ParseUint(text, 10, 64)
		if err != nil || id <= last {
			t.Errorf("operation %q after %d: %v", text, last, err)
		}
		last = id
		return text
	}
	is := func(id, verb, state string, members int) {
		t.Helper()
		var o control.Operation
		err := json.Unmarshal([]byte(b.Must("operations", id, "--json")), &o)
		if err != nil || o.Verb != verb || o.State != state || len(o.Members) != members || o.Actor.PID <= 0 {
			t.Errorf("it is %+v, want a %s that is %s: %v", o, verb, state, err)
		}
	}
	done := begin("restart", "web-*")
	b.Must("wait", "--operation", done)
	runtime := begin("stop", "web-2", "--runtime")
	b.Must("wait", "--operation", runtime)
	b.Must("start", "web-2")
	before := b.Status()
	cut := begin("restart", "web-*", "--rolling", "--steady", "60s")
	restarted(b, "web-1", *before["web-1"].PID)
	if err := b.Signal(int(unix.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	b.Again()
	is(done, "restart", "done", 2)
	is(runtime, "stop", "done", 1)
	is(cut, "restart", "interrupted", 2)
	b.Fails(17, "interrupted", "wait", "--operation", cut)

	b.Await("web-2", "running")
	b.Await("web-1", "running")
	before = b.Status()
	stopped := begin("restart", "web-*", "--rolling", "--steady", "60s")
	restarted(b, "web-1", *before["web-1"].PID)
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.Again()
	is(done, "restart", "done", 2)
	is(cut, "restart", "interrupted", 2)
	is(stopped, "restart", "interrupted", 2)
	if out := b.Must("operations", stopped); strings.Contains(out, "running") || strings.Contains(out, "pending") {
		t.Errorf("of an operation that was interrupted something goes on:\n%s", out)
	}
	begin("restart", "web-1")
	if out := b.Must("events", "--type", "operation_ended", "--json"); !strings.Contains(out, `"operation":`+stopped+`,"verb":"restart","state":"interrupted"`) {
		t.Errorf("the journal has of operation %s:\n%s", stopped, out)
	}
}

// ReloadIsAnOperation: with --wait the command returns when what it restarts has
// the new definition and is up, and says which is not; with --rolling one is
// restarted after the other, and the rest is left alone where one does not get
// ready.
func ReloadIsAnOperation(t *testing.T, start New) {
	names := []string{"web-1", "web-2", "web-3"}
	path := ""
	write := func(b *box.Box, mood string) {
		t.Helper()
		services := []string{`other: {command: [nasty, sleep]}`}
		for _, name := range names {
			services = append(services, name+`: {command: [nasty, sleep], environment: {MOOD: `+mood+`}, ready: {exec: [test, `+mood+`, "!=", bad], timeout: 1s}, restart: {delay: 50ms, limit: 2, window: 60s}}`)
		}
		if b == nil {
			path = Services(services...)
			return
		}
		b.Write(box.Root, path, Services(services...))
	}
	write(nil, "good")
	b := start(t, box.Spec{Config: path})
	path = strings.TrimSpace(b.Shell(box.Root, `echo "${RLMINIT_CONFIG:-/etc/rlminit/rlminit.yaml}"`))
	for _, name := range append(names, "other") {
		b.Await(name, "running")
	}
	fresh := func(before map[string]control.Service, what string) {
		t.Helper()
		now := b.Status()
		for _, name := range names {
			if now[name].State != "running" || *now[name].PID == *before[name].PID {
				t.Errorf("%s: %s was %s", what, box.Describe(now[name]), box.Describe(before[name]))
			}
		}
		if *now["other"].PID != *before["other"].PID {
			t.Errorf("%s: another was restarted too", what)
		}
	}
	if out := b.Must("reload", "--wait"); !strings.Contains(out, "nothing has changed") {
		t.Errorf("it says %q", out)
	}
	before := b.Status()
	write(b, "better")
	b.Must("reload", "--wait")
	fresh(before, "waited for")
	if out := b.Must("operations"); !strings.Contains(out, "reload: done, 3 of 3 done") {
		t.Errorf("operations are %q", out)
	}

	before = b.Status()
	write(b, "best")
	b.Must("reload", "--rolling", "--steady", "100ms")
	fresh(before, "one after the other")
	after := b.Status()
	for i, name := range names[1:] {
		if after[name].Since.Before(*after[names[i]].Since) {
			t.Errorf("%s was taken before %s was back", name, names[i])
		}
	}

	write(b, "bad")
	b.Fails(8, "stopped at web-1", "reload", "--rolling", "--steady", "100ms")
	for _, name := range names[1:] {
		if now := b.Status()[name]; now.State != "running" || *now.PID != *after[name].PID {
			t.Errorf("after the gate: %s", box.Describe(now))
		}
	}
	write(b, "best") // taken back: services that never got it are not restarted for it
	b.Must("reload", "--wait")
	for _, name := range names {
		now := b.Status()[name]
		if now.State != "running" || now.Outdated || name != names[0] && *now.PID != *after[name].PID {
			t.Errorf("after it was taken back: %s", box.Describe(now))
		}
	}
	write(b, "good")
	b.Must("reload", "--wait")
	write(b, "bad")
	b.Fails(1, "web-", "reload", "--wait")
	b.Fails(2, "--steady needs --rolling", "reload", "--steady", "1s")
	b.Fails(2, "nothing to wait for", "reload", "--dry-run", "--wait")
}

// ReloadGoesOn: what a rolling reload has not come to, for it was cancelled, is
// known to whoever reloads next, also by another supervisor, and is restarted by
// the next rolling one, though nothing has changed since.
func ReloadGoesOn(t *testing.T, start New) {
	services := func(mood string) string {
		var all []string
		for _, name := range []string{"web-1", "web-2", "web-3"} {
			all = append(all, name+`: {command: [nasty, sleep], environment: {MOOD: `+mood+`}}`)
		}
		return Services(all...)
	}
	b := start(t, box.Spec{Config: services("good")})
	path := strings.TrimSpace(b.Shell(box.Root, `echo "${RLMINIT_CONFIG:-/etc/rlminit/rlminit.yaml}"`))
	for _, name := range []string{"web-1", "web-2", "web-3"} {
		b.Await(name, "running")
	}
	before := b.Status()
	b.Write(box.Root, path, services("better"))
	rolling := make(chan box.Result, 1)
	go func() { rolling <- b.Run("reload", "--rolling", "--steady", "60s") }()
	restarted(b, "web-1", *before["web-1"].PID)
	id := ""
	for _, line := range strings.Split(b.Must("operations"), "\n") {
		if number, _, found := strings.Cut(line, " reload: running"); found {
			id = number
		}
	}
	b.Must("cancel", id)
	if r := <-rolling; r.Code != 17 {
		t.Errorf("the reload that was cancelled: %s", r)
	}
	older := func(out string) {
		t.Helper()
		for _, name := range []string{"web-2", "web-3"} {
			if !strings.Contains(out, name+": it still runs with the definition before: environment changed") {
				t.Errorf("of %s it says %q", name, out)
			}
		}
		if strings.Contains(out, "web-1: ") {
			t.Errorf("web-1 has the new definition: %q", out)
		}
	}
	older(b.Must("reload"))
	old := b.Supervisor()
	kill(b, "KILL", old.PID)
	replaced(b, old.PID)
	older(b.Must("reload", "--dry-run"))

	after := b.Status()
	b.Must("restart", "web-3")
	b.Must("reload", "--rolling", "--steady", "100ms")
	now := b.Status()
	if *now["web-1"].PID != *after["web-1"].PID || *now["web-2"].PID == *before["web-2"].PID {
		t.Errorf("web-1 was %s and is %s; web-2 is %s", box.Describe(after["web-1"]), box.Describe(now["web-1"]), box.Describe(now["web-2"]))
	}
	if out := b.Must("reload"); !strings.Contains(out, "nothing has changed") {
		t.Errorf("at the end it says %q", out)
	}
}
