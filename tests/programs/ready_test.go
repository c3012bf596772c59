package programs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"rlminit/control"
	"rlminit/tests/box"
	"rlminit/tests/ns"
)

// A service is ready when its probe passes, and no sooner.
func TestReadyByProbe(t *testing.T) {
	t.Parallel()
	for kind, probe := range map[string]string{
		"tcp":  `tcp: "127.0.0.1:8070"`,
		"http": `http: "http://127.0.0.1:8070/healthz"`,
		"exec": `exec: [gateway, call, "http://127.0.0.1:8070/healthz"]`,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := services(t, `web: {`+script(`until [ -e "$RLMINIT_HOME/go" ]; do sleep 0.02; done; exec gateway --port 8070`)+
				`, environment: {RLMINIT_HOME: "${RLMINIT_HOME}"}, ready: {`+probe+`, timeout: 60s}}`)
			s := b.AwaitThat("web", "is starting, and alive", func(s control.Service) bool { return s.State == "starting" && s.PID != nil })
			if s.Ready == nil || *s.Ready {
				t.Errorf("before it listens: %s", box.Describe(s))
			}
			b.Fails(7, "web", "wait", "web", "--for", "running", "--timeout", "300ms")
			b.Fails(1, "", "health", "--level", "ready", "web")
			b.Shell(box.Service, `>"`+b.Home()+`/go"`)
			b.Must("wait", "web", "--for", "running", "--timeout", "20s")
			if s = b.Status()["web"]; s.State != "running" || s.Ready == nil || !*s.Ready {
				t.Errorf("when it listens: %s", box.Describe(s))
			}
			b.Must("health", "--level", "ready", "web")
		})
	}
}

// One that is not ready in time is ended, and the reason has what its probe
// said last.
func TestNotReadyInTime(t *testing.T) {
	t.Parallel()
	const more = `timeout: 300ms}, stop: {timeout: 1s}, restart: {delay: 1h, max_delay: 1h, jitter: 0}`
	b := services(t,
		`tcp: {command: [sleep, infinity], ready: {tcp: "127.0.0.1:1", `+more+`}`,
		`exec: {command: [sleep, infinity], ready: {exec: ["false"], `+more+`}`,
		`slow: {command: [sleep, infinity], ready: {exec: [sleep, "4242"], `+more+`}`,
		`http: {command: [gateway, --port, "8071"], ready: {http: "http://127.0.0.1:8071/no-such-path", `+more+`}`)
	for name, want := range map[string]string{
		"tcp": "refused", "exec": "exited with code 1", "http": "404", "slow": "",
	} {
		s := b.Await(name, "backoff")
		if !strings.HasPrefix(reason(s), "not ready within 300ms") || !strings.Contains(reason(s), want) {
			t.Errorf("%s: reason %q, want %q", name, reason(s), want)
		}
	}
	box.Eventually(b, long, "no probe is left", func() (bool, any) { left := named(b, "sleep"); return len(left) == 0, left })
}

// A probe's program is the service's: its user, its tag, its environment, its
// directory; and it is no child of tier 2.
func TestProbeIsConfined(t *testing.T) {
	t.Parallel()
	b := services(t, `web: {command: [sleep, infinity], environment: {WHO: web, HOME: "${RLMINIT_HOME}"}, working_dir: "${RLMINIT_HOME}", ready: {exec: [bash, -c, 'echo "$WHO $PWD $(id -u) $PPID $(id -G)" >seen']}}`)
	s := b.Await("web", "running")
	var tag string
	for _, p := range b.Processes() {
		if p.PID == *s.PID {
			tag = fmt.Sprint(p.Groups)
			for _, group := range p.Groups {
				if group >= 50000 {
					tag = fmt.Sprint(group)
				}
			}
		}
	}
	fields := strings.Fields(b.Shell(box.Service, `cat "`+b.Home()+`/seen"`))
	if len(fields) < 5 || fields[0] != "web" || fields[1] != b.Home() || fields[3] != "1" {
		t.Errorf("the probe saw %q", fields)
	}
	if ns.Privileged() && (fields[2] != "1000" || !slices.Contains(fields[4:], tag)) {
		t.Errorf("the probe saw %q, the service's tag is %s", fields, tag)
	}
}

// An unhealthy service is restarted with the reason in its status, or, with
// action: none, only said to be unhealthy.
func TestHealth(t *testing.T) {
	t.Parallel()
	const check = `interval: 100ms, timeout: 1s, retries: 2`
	b := services(t,
		`restarts: {command: [gateway, --port, "8072"], ready: {notify: true}, restart: {delay: 500ms, factor: 1, jitter: 0}, health: {http: "http://127.0.0.1:8072/healthz", `+check+`}}`,
		`stays: {command: [gateway, --port, "8073"], ready: {notify: true}, health: {exec: [gateway, call, "http://127.0.0.1:8073/healthz"], `+check+`, action: none}}`)
	healthy := func(name string, want bool) control.Service {
		return b.AwaitThat(name, fmt.Sprintf("is healthy: %t", want), func(s control.Service) bool {
			return s.State == "running" && s.Healthy != nil && *s.Healthy == want
		})
	}
	first := healthy("restarts", true)
	b.Call(8072, "/fault/unhealthy", "")
	s := b.AwaitThat("restarts", "says why", func(s control.Service) bool { return s.State == "backoff" })
	if !strings.HasPrefix(reason(s), "unhealthy: ") || !strings.Contains(reason(s), "503") {
		t.Errorf("reason %q", reason(s))
	}
	if s = healthy("restarts", true); *s.PID == *first.PID || s.Restarts != 1 {
		t.Errorf("after the restart: %s", box.Describe(s))
	}

	first = healthy("stays", true)
	b.Must("health", "--level", "ready", "stays")
	b.Call(8073, "/fault/unhealthy", "")
	s = healthy("stays", false)
	if *s.PID != *first.PID || s.Restarts != 0 || !strings.HasPrefix(reason(s), "unhealthy: ") {
		t.Errorf("with action: none: %s", box.Describe(s))
	}
	b.Fails(1, "stays: unhealthy", "health", "--level", "ready", "stays")

	// One that hangs is alive and does not answer.
	pid := *healthy("restarts", true).PID
	b.Call(8072, "/fault/hang", "")
	s = b.AwaitThat("restarts", "says why", func(s control.Service) bool { return s.State == "backoff" })
	if !strings.HasPrefix(reason(s), "unhealthy: ") {
		t.Errorf("hung: reason %q", reason(s))
	}
	another(b, "restarts", pid)
}
