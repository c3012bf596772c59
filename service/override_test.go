package service

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// gateway is what profiles override in these tests.
func gateway(t *testing.T) *Definition {
	t.Helper()
	return decode(t, `
command: [agent, gateway]
environment: {A: "1", B: "2"}
restart: {policy: always, delay: 1s, limit: 4}
ready: {http: "http://127.0.0.1:8080/", timeout: 7s}
limits: {nofile: "100:200", memory: 100MB, pids: 50, cpu: 2}
`)
}

func TestOverride(t *testing.T) {
	base := gateway(t)
	got, faults := Override(base, "profile.yaml", []byte(`
command: [other, "${HOME}"]
environment: {B: "3", C: {file: /run/secrets/c}}
restart: {limit: 2}
ready: {tcp: ":9000"}
health: {exec: [check]}
stop: {timeout: 20s}
log: {tee: off}
limits: {nofile: "50:200", memory: 50MB, pids: 50, nproc: 10}
`), vars)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	want := gateway(t)
	want.Command = []string{"other", "/root"}
	want.Environment = map[string]Value{"A": {Text: "1"}, "B": {Text: "3"}, "C": {File: "/run/secrets/c"}}
	want.Restart.Limit = 2
	want.Ready = &Probe{TCP: "127.0.0.1:9000", Timeout: 7 * time.Second}
	want.Health = &Health{
		Probe: Probe{Exec: []string{"check"}, Timeout: 3 * time.Second}, Interval: 10 * time.Second, Retries: 3, Action: HealthRestart,
	}
	want.Stop.Timeout = 20 * time.Second
	want.Log.Tee = TeeOff
	want.Limits = Limits{
		Rlimits: map[int]Rlimit{unix.RLIMIT_NOFILE: {50, 200}, unix.RLIMIT_NPROC: {10, 10}},
		Memory:  50_000_000, Pids: 50, CPU: 2,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !reflect.DeepEqual(base, gateway(t)) {
		t.Errorf("the template was changed: %+v", base)
	}
}

// `none` for a key switches off what the kind says.
func TestNone(t *testing.T) {
	base := gateway(t)
	base.Requires, base.Wants, base.After, base.EnvFile = []string{"db"}, []string{"a"}, []string{"b"}, []string{"/etc/env"}
	base.Health = &Health{Probe: Probe{TCP: "127.0.0.1:1"}}
	base.Schedules = map[string]Recurring{"nightly": {Command: []string{"a"}}, "hourly": {Command: []string{"b"}}}
	base.Log.MaxFiles, base.Stop.Timeout = 3, time.Hour
	text := "schedules: {nightly: none}\n"
	got, faults := Override(base, "p", []byte(text), vars)
	if _, there := got.Schedules["nightly"]; len(faults) > 0 || there || len(got.Schedules) != 1 || len(base.Schedules) != 2 {
		t.Errorf("%v %v", faults, got.Schedules)
	}
	want := Default(base.Name)
	want.Command, want.Limits = base.Command, base.Limits
	want.Restart = base.Restart
	want.Restart.Policy = RestartNo
	text = ""
	for key, off := range own {
		if off != nil {
			text += key + ": none\n"
		}
	}
	got, faults = Override(base, "p", []byte(text), vars)
	if len(faults) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", faults, got, want)
	}
}

// A profile adds to what is masked, and takes nothing away.
func TestOverrideOfRedact(t *testing.T) {
	base := gateway(t)
	base.Log.Redact = []string{"secrets", "a+"}
	for text, want := range map[string][]string{
		"log: {redact: []}":                 {"secrets", "a+"},
		"log: {redact: [b+, secrets]}":      {"secrets", "a+", "b+"},
		"log: {redact: ['x{3}'], tee: off}": {"secrets", "a+", "x{3}"},
		"log: {max_files: 2}":               {"secrets", "a+"},
	} {
		got, faults := Override(base, "p", []byte(text), nil)
		if len(faults) > 0 || !slices.Equal(got.Log.Redact, want) {
			t.Errorf("%s: %q, %v", text, got.Log.Redact, faults)
		}
	}
	if want := []string{"secrets", "a+"}; !slices.Equal(base.Log.Redact, want) {
		t.Errorf("the template was changed: %q", base.Log.Redact)
	}
}

func TestEmptyOverride(t *testing.T) {
	for _, text := range []string{"", "# nothing yet\n", "{}", "---\n", "environment:\n", "environment: {}\n"} {
		got, faults := Override(gateway(t), "profile.yaml", []byte(text), nil)
		if len(faults) > 0 || !reflect.DeepEqual(got, gateway(t)) {
			t.Errorf("%q: %v", text, faults)
		}
	}
}

func TestOverrideGrantsNothing(t *testing.T) {
	const no = "a profile may not set it; it belongs in rlminit.yaml"
	for _, c := range []struct{ text, want string }{
		{"user: root", "p:1: user: " + no},
		{"user: app", "p:1: user: " + no},
		{"group: x", "p:1: group: " + no},
		{"groups: [root]", "p:1: groups: " + no},
		{"sandbox: {no_new_privs: false}", "p:1: sandbox: " + no},
		{"control: true", "p:1: control: " + no},
		{"enabled: false\nsandbox: {}", "p:1: enabled: " + no + "\np:2: sandbox: " + no},
		{"sockets: []", "p:1: sockets: " + no},
		{"env_file: none\nschedule: {cron: '@daily'}", "p:2: schedule: " + no},
		{"working_dir: /", "p:1: working_dir: " + no},
		{"umask: 0", "p:1: umask: " + no},
		{"watchdog: 1s", "p:1: watchdog: " + no},
		{"secrets: {a: {file: /etc/shadow}}", "p:1: secrets: " + no},
		{"exits: {success: [1]}", "p:1: exits: " + no},
		{"type: oneshot", "p:1: type: " + no},
		{"log: {redact: ['a{300}']}", "p:1: log.redact: the patterns are too costly together (302 steps, a profile may add 256); repeat less, + for {20,}"},
		{"log:\n  forward: {to: stdout}", "p:2: log.forward: a profile may not say where its log goes; it belongs in rlminit.yaml, under gateway"},
		{"comand: [a]", `p:1: unknown key "comand"; did you mean "command"?`},
		{"port: 80", `p:1: unknown key "port"; the keys here are after, command, env_file, environment, health, isolation, kind, limits, log, ready, requires, restart, schedules, stop, wants`},
		{"a", `p:1: "a" is a string; write a mapping, key: value`},
		{"[a]", `p:1: is a list; write a mapping, key: value`},
		{"command: rm -rf", `p:1: command: "rm -rf" is a string; write [rm, -rf]`},
		{"ready: null", `p:1: ready: is empty, which changes nothing; write none to switch off what the kind says, another probe, such as {tcp: "127.0.0.1:${PORT}"}, or take it out`},
		{"ready: {}", `p:1: ready: is empty, which changes nothing; write none to switch off what the kind says, another probe, such as {tcp: "127.0.0.1:${PORT}"}, or take it out`},
		{"health: ~", `p:1: health: is empty, which changes nothing; write none to switch off what the kind says, another probe, or take it out`},
		{"restart:\n  limit:\nstop: {}", "p:2: restart.limit: is empty, which changes nothing; write a value, or take it out\np:3: stop: is empty, which changes nothing; write none to switch off what the kind says, or take it out"},
		{"command: none", "p:1: command: is none, and a gateway needs one; take it out for the kind's"},
		{"stop: {timeout: 100h}", "p:1: stop.timeout: 100h0m0s is above 1m0s, which is the most that a profile may ask for"},
		{"requires: {}", "p:1: requires: is empty, which changes nothing; write none to switch off what the kind says, or take it out"},
		{"schedules: {nightly: {cron: '@daily'}}", "p:1: schedules.nightly: command is missing; write command: [prog, arg]"},
		{"schedules: {nightly: {command: [a]}}", "p:1: schedules.nightly: cron is missing; write cron: \"0 3 * * *\""},
		{"schedules: {nightly: null}", `p:1: schedules.nightly: is empty; write {cron: "0 3 * * *", command: [prog, arg]}, or none`},
		{"command:", "p:1: command: is empty, which changes nothing; write a value, or take it out"},
		{"limits: {nofile: 150}", "p:1: limits.nofile: 150 is above 100; a profile may only lower limits"},
		{"limits: {nofile: '100:201'}", "p:1: limits.nofile: 201 is above 200; a profile may only lower limits"},
		{"limits: {nofile: unlimited}", "p:1: limits.nofile: unlimited is above 200; a profile may only lower limits"},
		{"limits:\n  memory: 101MB", "p:2: limits.memory: 101000000 is above 100000000; a profile may only lower limits"},
		{"limits: {pids: 51}", "p:1: limits.pids: 51 is above 50; a profile may only lower limits"},
		{"limits: {cpu: 2.5}", "p:1: limits.cpu: 2.5 is above 2; a profile may only lower limits"},
		{"environment: {NOTIFY_SOCKET: /x}", "p:1: environment.NOTIFY_SOCKET: is set by rlminit itself; take it out"},
		{"environment: {X: '${HIDDEN}'}", "p:1: environment.X: ${HIDDEN} is not set; set HIDDEN, or write ${HIDDEN:-default}"},
	} {
		_, faults := Override(gateway(t), "p", []byte(c.text+"\n"), vars)
		if got := faults.Error(); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}
