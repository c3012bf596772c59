package programs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// background runs a command in the box beside the test, and returns a channel
// with its result.
func background(b *box.Box, argv ...string) <-chan box.Result {
	done := make(chan box.Result, 1)
	go func() {
		r, err := b.Exec(box.Service, nil, argv)
		if err != nil {
			r = box.Result{Code: -1, Err: err.Error()}
		}
		done <- r
	}()
	return done
}

// result takes what a command in the background came to.
func result(b *box.Box, done <-chan box.Result) box.Result {
	b.Helper()
	select {
	case r := <-done:
		return r
	case <-time.After(long):
		b.Fatal("the command in the background does not end")
		return box.Result{}
	}
}

// The later of two commands counts, whatever the first was doing.
func TestTheLaterCommandCounts(t *testing.T) {
	t.Parallel()
	need(t, "systemd-notify", "systemd")
	const deaf = `trap '' TERM; systemd-notify --ready; while :; do sleep 0.02; done`
	b := services(t,
		`waits: {`+script(`exit 1`)+`, restart: {delay: 1h, max_delay: 1h, jitter: 0}}`,
		`starts: {command: [sleep, infinity], enabled: false, ready: {notify: true, timeout: 1h}}`,
		`deaf: {`+script(deaf)+`, ready: {notify: true}, stop: {timeout: 1s}}`)

	// Stop during back-off, and start of one that was stopped there.
	b.Await("waits", "backoff")
	b.Must("stop", "waits")
	if s := b.Status()["waits"]; s.State != "stopped" || s.Desired != "stopped" {
		t.Errorf("stopped in back-off: %s", box.Describe(s))
	}
	if r := b.Run("start", "waits", "--no-wait"); r.Code != 0 {
		t.Errorf("start --no-wait: %s", r)
	}
	s := b.Await("waits", "backoff")
	b.Must("start", "waits", "--no-wait")
	b.AwaitThat("waits", "was started out of its back-off", func(now control.Service) bool {
		return now.State == "backoff" && now.LastExit != nil && now.LastExit.At.After(s.LastExit.At)
	})

	// Stop during start.
	starting := background(b, "rlminit", "start", "starts")
	b.Await("starts", "starting")
	b.Must("stop", "starts")
	if r := result(b, starting); r.Code != 17 || !strings.Contains(r.Err, "starts was stopped before it was ready") {
		t.Errorf("the start that was overruled: %s", r)
	}
	if s := b.Status()["starts"]; s.State != "stopped" || s.Desired != "stopped" {
		t.Errorf("stopped as it started: %s", box.Describe(s))
	}

	// Start during stop.
	s = b.Await("deaf", "running")
	stopping := background(b, "rlminit", "stop", "deaf")
	b.Await("deaf", "stopping")
	b.Must("start", "deaf", "--timeout", "20s")
	if now := b.Status()["deaf"]; now.State != "running" || *now.PID == *s.PID || now.Desired != "running" || now.Restarts != 0 {
		t.Errorf("started as it stopped: %s", box.Describe(now))
	}
	if r := result(b, stopping); r.Code != 17 || !strings.Contains(r.Err, "deaf was started again before it had stopped") {
		t.Errorf("the stop that was overruled: %s", r)
	}

	// Stop during a restart's stop.
	restarting := background(b, "rlminit", "restart", "deaf")
	b.Await("deaf", "stopping")
	b.Must("stop", "deaf")
	if now := b.Status()["deaf"]; now.State != "stopped" || now.Desired != "stopped" {
		t.Errorf("stopped as it restarted: %s", box.Describe(now))
	}
	if r := result(b, restarting); r.Code != 17 {
		t.Errorf("the restart that was overruled: %s", r)
	}
}

// start, stop and restart of all say what became of each, and the worst exit
// code counts.
func TestAll(t *testing.T) {
	t.Parallel()
	b := services(t,
		`good: {command: [sleep, infinity]}`,
		`user: {command: [sleep, infinity], requires: [good]}`,
		`bad: {`+script(`echo no luck; exit 78`)+`, ready: {notify: true}}`)
	b.Must("stop", "--all")
	r := b.Run("start", "--all")
	if r.Code != 1 || !strings.Contains(r.Out, "good: running (pid ") || !strings.Contains(r.Out, "user: running (pid ") ||
		strings.Count(r.Err, "\n") != 1 || !strings.HasPrefix(r.Err, "rlminit: bad failed: exit 78, a fatal exit code") {
		t.Errorf("start --all: %s", r)
	}
	if r = b.Run("start", "--failed", "--all"); r.Code != 1 || strings.Contains(r.Out+r.Err, "good") || !strings.Contains(r.Err, "bad failed") {
		t.Errorf("start --failed --all: %s", r)
	}
	pids := b.Status()
	b.Must("stop", "bad")
	if r = b.Run("restart", "--all"); r.Code != 0 || !strings.HasSuffix(r.Out, "1 is stopped and stays so: bad\n") {
		t.Errorf("restart --all: %s", r)
	}
	for _, name := range []string{"good", "user"} {
		if s := b.Status()[name]; s.State != "running" || *s.PID == *pids[name].PID || s.Desired != "running" {
			t.Errorf("after restart --all: %s", box.Describe(s))
		}
	}
	if r = b.Run("stop", "--all", "--runtime"); r.Code != 0 {
		t.Errorf("stop --all --runtime: %s", r)
	}
	for name, want := range map[string]string{"good": "running", "user": "running", "bad": "stopped"} {
		if s := b.Status()[name]; s.State != "stopped" || s.Desired != want {
			t.Errorf("after stop --all --runtime: %s", box.Describe(s))
		}
	}
	if r = b.Run("stop", "--all"); r.Code != 0 || r.Out != "3 are stopped and stay so: bad, good, user\n" {
		t.Errorf("stop --all of what is stopped: %s", r)
	}
	if s := b.Status()["good"]; s.Desired != "running" { // a set leaves what is stopped as it is
		t.Errorf("after stop --all: %s", box.Describe(s))
	}
	if r = b.Run("start", "good", "nobody"); r.Code != 4 || !strings.Contains(r.Out, "good: running") || !strings.Contains(r.Err, `no profile or service "nobody"`) {
		t.Errorf("start of one that exists and one that does not: %s", r)
	}
}

// events -f tells every transition with its cause, who asked for it and when;
// status --watch shows the state anew at each.
func TestFollowing(t *testing.T) {
	t.Parallel()
	b := services(t, `web: {command: [sleep, infinity], enabled: false}`)
	b.Shell(box.Service, `rlminit events -f --json </dev/null >"`+b.Home()+`/events" 2>&1 & rlminit status --watch </dev/null >"`+b.Home()+`/watch" 2>&1 &`)
	shown := func(file string) string { return b.Shell(box.Service, `cat "`+b.Home()+`/`+file+`"`) }
	box.Eventually(b, long, "status --watch shows the service", func() (bool, any) { out := shown("watch"); return strings.Contains(out, "stopped"), out })
	b.Must("start", "web")
	s := b.Await("web", "running")
	supervisorKilled(b) // who follows goes on with the next one
	b.As(box.Service, "kill", "-9", fmt.Sprint(*s.PID))
	another(b, "web", *s.PID)
	b.Must("stop", "web")
	type step struct{ from, to, cause string }
	want := []step{
		{"stopped", "starting", "start by uid "},
		{"starting", "running", "its process is there"},
		{"running", "backoff", "killed by KILL"},
		{"backoff", "starting", "back-off is over: killed by KILL"},
		{"starting", "running", "its process is there"},
		{"running", "stopping", "stop by uid "},
		{"stopping", "stopped", "killed by TERM"},
	}
	box.Eventually(b, long, "all transitions", func() (bool, any) {
		out := shown("events")
		next, last := 0, time.Time{}
		for line := range strings.Lines(out) {
			var e control.Event
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.At.Before(last) {
				return false, fmt.Sprint(err, line)
			}
			last = e.At
			if next < len(want) && e.From == want[next].from && e.To == want[next].to && strings.HasPrefix(e.Cause, want[next].cause) &&
				(e.Actor != nil) == strings.Contains(want[next].cause, "uid") {
				next++
			}
		}
		return next == len(want), out
	})
	box.Eventually(b, long, "status --watch shows each state", func() (bool, any) {
		out := shown("watch")
		return strings.Contains(out, "running") && strings.HasSuffix(strings.TrimSpace(out), "stopped") || strings.Count(out, "stopped") >= 2, out
	})
}

// A reload restarts only what changed, and only if the change needs it. HUP
// does what the verb does.
func TestReload(t *testing.T) {
	t.Parallel()
	lines := func(mood, timeout string, more ...string) []string {
		return append([]string{
			`same: {command: [sleep, infinity]}`,
			`mood: {command: [sleep, infinity], environment: {MOOD: ` + mood + `}}`,
			`patient: {command: [sleep, infinity], stop: {timeout: ` + timeout + `}}`,
		}, more...)
	}
	b := services(t, lines("good", "1s", `old: {command: [sleep, infinity]}`)...)
	b.Await("old", "running")
	b.Must("start", "--all")
	before := b.Status()
	write := func(lines []string) {
		b.Helper()
		b.Write(box.Root, b.Shell(box.Root, `printf %s "$RLMINIT_CONFIG"`), contract.Services(lines...))
	}

	write(lines("bad", "2s", `new: {command: [sleep, infinity]}`))
	plan := b.Must("reload", "--dry-run")
	for _, line := range []string{"mood: restart: environment changed\n", "patient: update\n", "old: remove: its definition is gone\n", "new: add: its definition is new\n"} {
		if !strings.Contains(plan, line) {
			t.Errorf("the plan lacks %q:\n%s", line, plan)
		}
	}
	if strings.Contains(plan, "same") {
		t.Errorf("the plan has what did not change:\n%s", plan)
	}
	for name, s := range b.Status() {
		if s.State != "running" || *s.PID != *before[name].PID {
			t.Errorf("a dry run changed %s", box.Describe(s))
		}
	}
	if done := b.Must("reload"); done != plan {
		t.Errorf("done:\n%sthe plan was:\n%s", done, plan)
	}
	b.Await("new", "running")
	another(b, "mood", *before["mood"].PID)
	for _, name := range []string{"same", "patient"} {
		if s := b.Status()[name]; s.State != "running" || *s.PID != *before[name].PID {
			t.Errorf("restarted without need: %s", box.Describe(s))
		}
	}
	box.Eventually(b, long, "the old one is gone", func() (bool, any) { s, found := b.Status()["old"]; return !found, box.Describe(s) })
	b.Fails(4, "old", "start", "old")
	if out := b.Must("reload"); out != "nothing has changed\n" {
		t.Errorf("a second reload: %q", out)
	}

	// A fault changes nothing, and names its place.
	before = b.Status()
	write(lines("bad", "soon"))
	b.Fails(1, `rlminit.yaml:12: services.patient.stop.timeout`, "reload")
	for name, s := range b.Status() {
		if s.State != "running" || *s.PID != *before[name].PID {
			t.Errorf("a broken configuration changed %s", box.Describe(s))
		}
	}
	// HUP to PID 1, after tier 2 was replaced: the newest configuration counts.
	supervisorKilled(b)
	write(lines("fair", "2s", `new: {command: [sleep, infinity]}`))
	if err := b.Signal(int(unix.SIGHUP)); err != nil {
		t.Fatal(err)
	}
	another(b, "mood", *before["mood"].PID)
	for _, name := range []string{"same", "patient", "new"} {
		if s := b.Status()[name]; s.State != "running" || *s.PID != *before[name].PID {
			t.Errorf("HUP restarted without need: %s", box.Describe(s))
		}
	}
}
