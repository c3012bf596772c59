package programs

import (
	"strings"
	"testing"
	"time"

	"rlminit/control"
	"rlminit/tests/box"
)

// systemd-notify sends a barrier with each message, and waits until it is
// crossed.
func TestSystemdNotify(t *testing.T) {
	t.Parallel()
	need(t, "systemd-notify", "systemd")
	b := services(t, `worker: {`+script(`
systemd-notify --status="reading 1 of 2"
echo told the status
until [ -e "$RLMINIT_HOME/go" ]; do sleep 0.02; done
trap 'systemd-notify STOPPING=1 STATUS=draining; exit 0' TERM
systemd-notify --ready --status="serving" MAINPID=$$
while :; do sleep 0.02; done`)+`, environment: {RLMINIT_HOME: "${RLMINIT_HOME}"}, ready: {notify: true, timeout: 20s}}`)
	b.AwaitThat("worker", "shows its status", func(s control.Service) bool {
		return s.State == "starting" && s.StatusText != nil && *s.StatusText == "reading 1 of 2" && s.Ready != nil && !*s.Ready
	})
	logged(b, "worker", "told the status")
	b.Shell(box.Service, `>"`+b.Home()+`/go"`)
	b.AwaitThat("worker", "is ready", func(s control.Service) bool {
		return s.State == "running" && s.StatusText != nil && *s.StatusText == "serving" && *s.Ready
	})
	b.Must("stop", "worker")
	if s := b.Status()["worker"]; s.State != "stopped" || s.LastExit == nil || s.LastExit.Code == nil || *s.LastExit.Code != 0 {
		t.Errorf("after stop: %s", box.Describe(s))
	}
}

// WATCHDOG=: one who pings lives on; one who hangs, and one who asks for it,
// are ended and started anew, and the status says why.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	need(t, "systemd-notify", "systemd")
	const restart = `watchdog: 1s, stop: {timeout: 1s}, restart: {delay: 300ms, factor: 1, limit: 0}`
	b := services(t,
		`good: {`+script(`while :; do systemd-notify WATCHDOG=1; sleep 0.2; done`)+`, `+restart+`}`,
		`hung: {`+script(`systemd-notify WATCHDOG=1; sleep infinity`)+`, `+restart+`}`,
		`asks: {`+script(`[ "$WATCHDOG_USEC" = 1000000 ] && systemd-notify WATCHDOG=trigger; sleep infinity`)+`, `+restart+`}`)
	for name, why := range map[string]string{"hung": "watchdog: no WATCHDOG=1 for 1s", "asks": "watchdog: the service asked for it"} {
		b.AwaitThat(name, "says why it was ended", func(s control.Service) bool {
			return s.State == "backoff" && strings.Contains(reason(s), why) && s.LastExit != nil
		})
		if !strings.Contains(b.Must("events"), why) {
			t.Errorf("no event of %s says %q", name, why)
		}
	}
	b.AwaitThat("hung", "is restarted", func(s control.Service) bool { return s.Restarts >= 2 })
	if s := b.Status()["good"]; s.State != "running" || s.Restarts != 0 {
		t.Errorf("one who pings: %s", box.Describe(s))
	}
}

// EXTEND_TIMEOUT_USEC= moves the deadline of a start and of a stop, but never
// beyond the container's budget.
func TestExtendTimeout(t *testing.T) {
	t.Parallel()
	need(t, "systemd-notify", "systemd")
	slow := `for i in $(seq 10); do systemd-notify EXTEND_TIMEOUT_USEC=2000000; sleep 0.15; done; `
	b := services(t,
		`late: {`+script(slow+`systemd-notify --ready; trap 'for i in $(seq 10); do systemd-notify EXTEND_TIMEOUT_USEC=2000000; sleep 0.15; done; exit 0' TERM; while :; do sleep 0.02; done`)+`, ready: {notify: true, timeout: 1s}, stop: {timeout: 1s}}`,
		`never: {`+script(`sleep infinity`)+`, ready: {notify: true, timeout: 300ms}, restart: {delay: 1s, limit: 0}}`)
	s := b.AwaitThat("never", "was too late", func(s control.Service) bool { return s.State == "backoff" })
	if reason(s) != "not ready within 300ms" {
		t.Errorf("reason %q", reason(s))
	}
	if s = b.Await("late", "running"); s.Restarts != 0 {
		t.Errorf("a start that was extended: %s", box.Describe(s))
	}
	b.Must("stop", "late")
	if s = b.Status()["late"]; s.LastExit == nil || s.LastExit.Code == nil || *s.LastExit.Code != 0 {
		t.Errorf("a stop that was extended: %s", box.Describe(s))
	}
}

// ERRNO= and EXIT_STATUS= say why, whether they are heard before the exit or
// after it.
func TestReportedFailure(t *testing.T) {
	t.Parallel()
	need(t, "systemd-notify", "systemd")
	b := services(t,
		`port: {`+script(`systemd-notify --no-block ERRNO=98; exit 1`)+`, ready: {notify: true}, restart: no}`,
		`late: {`+script(`systemd-notify EXIT_STATUS=23 ERRNO=2; sleep infinity`)+`, ready: {notify: true, timeout: 300ms}, restart: {delay: 1h, limit: 0}}`)
	for name, why := range map[string]string{
		"port": "exit 1: it reported errno 98 (address already in use)",
		"late": "not ready within 300ms: it reported errno 2 (no such file or directory) and exit status 23",
	} {
		b.AwaitThat(name, "says why", func(s control.Service) bool {
			return reason(s) == why
		})
	}
}

// RELOADING=1 is no end of anything, and READY=1 is the end of it.
func TestReloading(t *testing.T) {
	t.Parallel()
	need(t, "systemd-notify", "systemd")
	b := services(t, `worker: {`+script(`
trap 'systemd-notify RELOADING=1 STATUS=reloading MONOTONIC_USEC=$(awk "{printf \"%d\", \$1*1000000}" /proc/uptime); systemd-notify --ready STATUS=reloaded' HUP
systemd-notify --ready
while :; do sleep 0.02; done`)+`, ready: {notify: true}}`)
	s := b.Await("worker", "running")
	b.Must("signal", "HUP", "worker")
	now := b.AwaitThat("worker", "has reloaded", func(s control.Service) bool { return s.StatusText != nil && *s.StatusText == "reloaded" })
	if now.State != "running" || *now.PID != *s.PID || !now.Since.Equal(*s.Since) {
		t.Errorf("after a reload: %s", box.Describe(now))
	}
}

// A stranger's message is nobody's: a service speaks for its own tree alone.
func TestMainPidOfAnother(t *testing.T) {
	t.Parallel()
	need(t, "systemd-notify", "systemd")
	b := services(t,
		`other: {command: [sleep, infinity]}`,
		`liar: {`+script(`systemd-notify --ready MAINPID=1; trap 'exit 0' TERM; while :; do sleep 0.02; done`)+`, ready: {notify: true}}`)
	s := b.Await("liar", "running")
	if *s.PID == 1 {
		t.Error("a service passes PID 1 off as its own")
	}
	b.Must("stop", "liar")
	if s := b.Status()["other"]; s.State != "running" {
		t.Errorf("the other: %s", box.Describe(s))
	}
}

// A message that comes after the stop does not bring the service back.
func TestReadyAfterStop(t *testing.T) {
	t.Parallel()
	need(t, "systemd-notify", "systemd")
	b := services(t, `late: {`+script(`
trap 'systemd-notify --ready; echo said it; sleep 0.3; systemd-notify --ready; exit 0' TERM
echo waits
while :; do sleep 0.02; done`)+`, enabled: false, ready: {notify: true, timeout: 60s}}`)
	waiting := make(chan box.Result, 1)
	go func() {
		r, err := b.Exec(box.Service, nil, []string{"rlminit", "start", "late"})
		if err != nil {
			r.Err = err.Error()
		}
		waiting <- r
	}()
	b.Await("late", "starting")
	logged(b, "late", "waits")
	b.Must("stop", "late")
	logged(b, "late", "said it")
	if s := b.Status()["late"]; s.State != "stopped" || s.PID != nil {
		t.Errorf("after the stop: %s", box.Describe(s))
	}
	for line := range strings.Lines(b.Must("events", "--json")) {
		if strings.Contains(line, `"to":"running"`) {
			t.Errorf("it was taken to be running: %s", line)
		}
	}
	select {
	case r := <-waiting:
		if r.Code != 17 || !strings.Contains(r.Err, "late was stopped before it was ready") {
			t.Errorf("who waited for the start got %s", r)
		}
	case <-time.After(long):
		t.Error("who waited for the start still waits")
	}
}
