package service

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/isolate"
)

// vars is a lookup in a few variables.
func vars(name string) (string, bool) {
	v, ok := map[string]string{"HOME": "/root", "ON": "yes", "COUNT": "7", "EMPTY": "", "SECRET": "p$ss"}[name]
	return v, ok
}

// decode reads a service.yaml that has to be right.
func decode(t *testing.T, text string) *Definition {
	t.Helper()
	d, faults := Decode("service.yaml", "web", []byte(text), vars)
	if len(faults) > 0 {
		t.Fatalf("%s\nis refused: %v", text, faults)
	}
	return d
}

func TestDefaults(t *testing.T) {
	got := decode(t, "command: [agent]\n")
	want := &Definition{
		Name: "web", Command: []string{"agent"}, Umask: 0o022, Type: Daemon, Enabled: true,
		Restart: Restart{
			Policy: "always", Delay: 100 * time.Millisecond, Factor: 2, MaxDelay: 30 * time.Second, Jitter: 0.1,
			ResetAfter: 10 * time.Second, Limit: 8, Window: 60 * time.Second, RetryFailed: 10 * time.Minute,
		},
		Exits:   Exits{Success: []int{0}, Fatal: []int{78}, Restart: []int{75}},
		Stop:    Stop{Signal: unix.SIGTERM, Timeout: 5 * time.Second, Kill: KillGroup},
		Log:     Log{File: true, MaxSize: 1_000_000, MaxFiles: 10, Tee: TeeAuto, Timestamps: true},
		Sandbox: Sandbox{NoNewPrivs: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestEveryField reads a service as the design shows it.
func TestEveryField(t *testing.T) {
	got := decode(t, `
command: [prog, arg, "${HOME}", "$$1", "$1", "", 5]
user: app
group: staff
groups: [audio, 44]
working_dir: /srv/
umask: 027
environment: {A: "1", PORT: 8080, DEBUG: true, EMPTY: "", SECRET: "${SECRET}", TOKEN: {file: /run/secrets/token}}
env_file: [/etc/app.env, "?/etc/app.local.env"]
type: oneshot
enabled: "${ON:-false}"
control: true
requires: [db, db]
wants: [cache]
after: [gateway-alice]
restart: {policy: on-failure, delay: 200ms, factor: 1.5, max_delay: 1m, jitter: 0.5, reset_after: 20s, limit: "${COUNT}", window: 2m, retry_failed: 0}
exits: {success: [0, 3], fatal: [64, 78], restart: []}
ready: {http: "http://127.0.0.1:8080/ready", timeout: 20s}
health: {exec: [curl, -f, localhost], interval: 5s, timeout: 1s, retries: 2, start_period: 1m, action: none}
watchdog: 30s
stop: {signal: SIGINT, timeout: 8s, kill: main}
sockets: [{listen: "tcp:127.0.0.1:8080", name: http}, {listen: "unix:/run/web.sock"}, {listen: "udp6:[::1]:53", name: dns}]
log: {file: off, max_size: 64KiB, max_age: 24h, max_files: 3, compress: yes, tee: on, timestamps: no}
limits: {nofile: 1024, nproc: "100:200", core: {soft: 0, hard: unlimited}, stack: 8MiB, cpu_time: 60, memory: 512MiB, pids: 64, cpu: 0.5}
sandbox: {capabilities: [net_bind_service, CAP_CHOWN]}
isolation: {level: strict, read: [/srv/x/, /srv/x], write: [/b, /a], exec: [/opt/x], connect: [443, "9000-9001"], bind: any}
secrets: {TOKEN: {file: /run/secrets/token}}
`)
	want := &Definition{
		Name:    "web",
		Command: []string{"prog", "arg", "/root", "$1", "$1", "", "5"},
		User:    "app", Group: "staff", Groups: []string{"audio", "44"}, WorkingDir: "/srv", Umask: 0o027,
		Environment: map[string]Value{
			"A": {Text: "1"}, "PORT": {Text: "8080"}, "DEBUG": {Text: "true"}, "EMPTY": {}, "SECRET": {Text: "p$ss"},
			"TOKEN": {File: "/run/secrets/token"},
		},
		EnvFile: []string{"/etc/app.env", "?/etc/app.local.env"},
		Type:    Oneshot, Enabled: true, Control: ControlAll,
		Requires: []string{"db"}, Wants: []string{"cache"}, After: []string{"gateway-alice"},
		Restart: Restart{
			Policy: RestartOnFailure, Delay: 200 * time.Millisecond, Factor: 1.5, MaxDelay: time.Minute, Jitter: 0.5,
			ResetAfter: 20 * time.Second, Limit: 7, Window: 2 * time.Minute,
		},
		Exits: Exits{Success: []int{0, 3}, Fatal: []int{64, 78}},
		Ready: &Probe{HTTP: "http://127.0.0.1:8080/ready", Timeout: 20 * time.Second},
		Health: &Health{
			Probe:    Probe{Exec: []string{"curl", "-f", "localhost"}, Timeout: time.Second},
			Interval: 5 * time.Second, Retries: 2, StartPeriod: time.Minute, Action: HealthNone,
		},
		Watchdog: 30 * time.Second,
		Stop:     Stop{Signal: unix.SIGINT, Timeout: 8 * time.Second, Kill: KillMain},
		Sockets: []Socket{
			{"tcp", "127.0.0.1:8080", "http"}, {"unix", "/run/web.sock", "web"}, {"udp6", "[::1]:53", "dns"},
		},
		Log: Log{MaxSize: 65536, MaxAge: 24 * time.Hour, MaxFiles: 3, Compress: true, Tee: TeeOn},
		Limits: Limits{
			Rlimits: map[int]Rlimit{
				unix.RLIMIT_NOFILE: {1024, 1024}, unix.RLIMIT_NPROC: {100, 200}, unix.RLIMIT_CORE: {0, Unlimited},
				unix.RLIMIT_STACK: {8 << 20, 8 << 20}, unix.RLIMIT_CPU: {60, 60},
			},
			Memory: 512 << 20, Pids: 64, CPU: 0.5,
		},
		Sandbox: Sandbox{Capabilities: []string{"CAP_CHOWN", "CAP_NET_BIND_SERVICE"}, NoNewPrivs: true},
		Isolation: Isolation{
			Level: isolate.Strict, Read: []string{"/srv/x"}, Write: []string{"/a", "/b"}, Exec: []string{"/opt/x"},
			Connect: &isolate.Ports{Ranges: []isolate.Range{{Low: 443, High: 443}, {Low: 9000, High: 9001}}}, Bind: &isolate.Ports{Any: true},
		},
		Secrets: map[string]string{"TOKEN": "/run/secrets/token"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := decode(t, "command: [x]\nsandbox: {no_new_privs: false}\n"); got.Sandbox.NoNewPrivs {
		t.Error("no_new_privs cannot be taken away")
	}
}

func TestWordsForMappings(t *testing.T) {
	d := decode(t, "command: [a]\nrestart: always\nready: {notify: true}\nhealth: {tcp: \":80\"}\nexits: {success: [0, 75, 78]}\nlog:\n")
	if d.Restart.Policy != RestartAlways || d.Restart.Delay != 100*time.Millisecond {
		t.Errorf("restart: %+v", d.Restart)
	}
	if !reflect.DeepEqual(*d.Ready, Probe{Notify: true, Timeout: 30 * time.Second}) {
		t.Errorf("ready: %+v", d.Ready)
	}
	want := Health{
		Probe: Probe{TCP: "127.0.0.1:80", Timeout: 3 * time.Second}, Interval: 10 * time.Second, Retries: 3, Action: HealthRestart,
	}
	if !reflect.DeepEqual(*d.Health, want) {
		t.Errorf("health: %+v", d.Health)
	}
	if !reflect.DeepEqual(d.Exits, Exits{Success: []int{0, 75, 78}}) {
		t.Errorf("a code named in one class stays in another: %+v", d.Exits)
	}
}

// TestFaults holds every message against its exact words. Each text follows
// "command: [a]" on line 1, unless it has a command of its own.
func TestFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"command: agent serve", `2: command: "agent serve" is a string; write [agent, serve]`},
		{"command: a | b > c", `2: command: "a | b > c" is a string; write [sh, -c, "a | b > c"]`},
		{"command: ''", `2: command: is empty; write [prog, arg]`},
		{"command: []", `2: command: is empty; write [prog, arg]`},
		{"command: ['', x]", `2: command[0]: the program's name is empty; write [prog, arg]`},
		{"command: [a, [b]]", `2: command[1]: is a list; write a single value`},
		{"command: [a, ~]", `2: command[1]: is empty; write "" for an empty string`},
		{"command: {a: b}", `2: command: is a mapping; write a list, [a, b]`},
		{"command: 5", `2: command: "5" is a string; write [5]`},
		{"command: [a, \"${NO}\"]", "2: command[1]: ${NO} is not set; set NO, or write ${NO:-default}"},
		{"command: [\"a\\0b\"]", "2: command[0]: holds a NUL byte, which no argument, path or variable can hold"},
		{"type: x", "1: command is missing; write command: [prog, arg]\n2: type: \"x\" is refused; write daemon or oneshot"},

		{"enviroment: {}", `2: unknown key "enviroment"; did you mean "environment"?`},
		{"environment: [A=b]", "2: environment: is a list; write a mapping, NAME: value"},
		{"environment: A=b", `2: environment: "A=b" is a string; write a mapping, key: value`},
		{"environment: {A: }", `2: environment.A: is empty; write "" for an empty string`},
		{"environment: {A: [b]}", `2: environment.A: is a list; write a single value`},
		{"environment: {'A=B': c}", `2: environment.A=B: a variable's name cannot hold "=" or NUL`},
		{"environment: {'A B': c}", `2: environment."A B": a variable's name cannot hold a space`},
		{"environment: {'': c}", `2: environment."": a variable has no name; write NAME: value`},
		{"environment: {NOTIFY_SOCKET: c}", `2: environment.NOTIFY_SOCKET: is set by rlminit itself; take it out`},
		{"environment: {A: {file: x}}", `2: environment.A.file: "x" is no absolute path; write /x`},
		{"environment: {A: {}}", `2: environment.A: file is missing; write a value, or {file: /run/secrets/name}`},
		{"environment: {A: {flie: /x}}", "2: environment.A: unknown key \"flie\"; did you mean \"file\"?\n2: environment.A: file is missing; write a value, or {file: /run/secrets/name}"},
		{"env_file: app.env", `2: env_file: "app.env" is a string; write [app.env]`},
		{"env_file: [app.env]", `2: env_file[0]: "app.env" is no absolute path; write one, such as ${RLMINIT_HOME}/app.env on the volume`},
		{"env_file: [.env]", `2: env_file[0]: ".env" is no absolute path; write one, such as ${RLMINIT_HOME}/.env on the volume`},
		{"env_file: [./conf/../.env]", `2: env_file[0]: "./conf/../.env" is no absolute path; write one, such as ${RLMINIT_HOME}/.env on the volume`},
		{"env_file: ['?app.env']", `2: env_file[0]: "?app.env" is no absolute path; write one, such as ?${RLMINIT_HOME}/app.env on the volume`},

		{"user: root", `2: user: "root" is refused: only main may run as root; name another user`},
		{"user: 0", `2: user: "0" is refused: only main may run as root; name another user`},
		{"user: '0:5'", `2: user: "0:5" is refused: only main may run as root; name another user`},
		{"user: '00'", `2: user: "00" is refused: only main may run as root; name another user`},
		{"user: 'a b'", `2: user: "a b" is no user; write a name, a uid or uid:gid`},
		{"user: '5:'", `2: user: "5:" is no user; write a name, a uid or uid:gid`},
		{"user: 4294967295", `2: user: "4294967295" is no user; write a name, a uid or uid:gid`},
		{"group: -1", `2: group: "-1" is no user or group; write a name or a number`},
		{"groups: [99999999999]", `2: groups[0]: "99999999999" is no uid or gid; write a number up to 4294967294`},
		{"working_dir: srv", `2: working_dir: "srv" is no absolute path; write /srv`},
		{"umask: 8", `2: umask: "8" is no umask; write octal digits such as "022"`},
		{"umask: 1777", `2: umask: "1777" is no umask; write octal digits such as "022"`},
		{"enabled: maybe", `2: enabled: "maybe" is no boolean; write true or false`},
		{"type: onshot", `2: type: "onshot" is refused; did you mean "oneshot"?`},

		{"requires: db", `2: requires: "db" is a string; write [db]`},
		{"requires: [../x]", `2: requires[0]: "../x" is refused; write 1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit`},
		{"after: [web]", `2: after: a service cannot depend on itself; take "web" out`},

		{"restart: allways", `2: restart: "allways" is refused; did you mean "always"?`},
		{"restart: [always]", `2: restart: is a list; write a single value`},
		{"restart: {delay: 5}", `2: restart.delay: "5" has no unit; write 5s`},
		{"restart: {factor: 0.5}", `2: restart.factor: "0.5" is refused; write a number from 1 to 100`},
		{"restart: {jitter: 2}", `2: restart.jitter: "2" is refused; write a number from 0 to 1`},
		{"restart: {limit: -1}", `2: restart.limit: "-1" is refused; write a whole number from 0 to 1000000`},
		{"restart: {window: 0}", `2: restart.window: "0" is too short; write 1ms or more`},
		{"restart: {delay: 5s, max_delay: 1s}", `2: restart: max_delay (1s) is below delay (5s); write 5s or more`},
		{"restart: {delay: 0, limit: 0}", `2: restart: without a delay or a limit the service would restart without a pause; write a delay of 100ms or so, or a limit`},
		{"restart: {polcy: no}", `2: restart: unknown key "polcy"; did you mean "policy"?`},

		{"exits: {fatal: [256]}", `2: exits.fatal[0]: "256" is refused; write a whole number from 0 to 255`},
		{"exits: {fatal: [x]}", `2: exits.fatal[0]: "x" is refused; write a whole number from 0 to 255`},
		{"exits: {fatal: 5}", `2: exits.fatal: 5 is a number; write [5]`},
		{"exits: {fatal: [5], restart: [5]}", `2: exits.restart[0]: 5 is in fatal too; leave it in one`},

		{"ready: true", `2: ready: true is a boolean; write a mapping, key: value`},
		{"ready: {timeout: 5s}", `2: ready: names no kind; write notify: true, tcp: ADDR, http: URL or exec: [argv]`},
		{"ready: {notify: true, exec: [a]}", `2: ready: names more than one kind; write one of notify: true, tcp: ADDR, http: URL or exec: [argv]`},
		{"ready: {notify: false}", `2: ready: notify is off and no other kind is named; write notify: true, tcp: ADDR, http: URL or exec: [argv], or leave ready out`},
		{"ready: {tcp: 8080}", `2: ready.tcp: "8080" has no host; write 127.0.0.1:8080`},
		{"ready: {tcp: localhost}", `2: ready.tcp: "localhost" is no address; write 127.0.0.1:8080`},
		{"ready: {tcp: 'a:0'}", `2: ready.tcp: "a:0" is no address; write 127.0.0.1:8080`},
		{"ready: {http: '127.0.0.1:80'}", `2: ready.http: "127.0.0.1:80" is no URL; write http://127.0.0.1:8080/health`},
		{"ready: {http: 'ftp://x/'}", `2: ready.http: "ftp://x/" is no URL; write http://127.0.0.1:8080/health`},
		{"ready: {http: 'http://x:99999/'}", `2: ready.http: "http://x:99999/" has no valid port; write http://127.0.0.1:8080/health`},
		{"ready: {exec: curl localhost}", `2: ready.exec: "curl localhost" is a string; write [curl, localhost]`},
		{"ready: {notify: true, timeout: 0}", `2: ready.timeout: "0" is too short; write 1ms or more`},
		{"health: {notify: true}", `2: health.notify: notify is no health probe; write watchdog: 30s for a service that reports by itself`},
		{"health: {tcp: ':80', retries: 0}", `2: health.retries: "0" is refused; write a whole number from 1 to 1000000`},
		{"health: {tcp: ':80', action: stop}", `2: health.action: "stop" is refused; write restart or none`},
		{"watchdog: 30", `2: watchdog: "30" has no unit; write 30s`},

		{"stop: {signal: KILLL}", `2: stop.signal: "KILLL" is no signal; write TERM, INT, QUIT or a number from 1 to 64`},
		{"stop: {signal: 0}", `2: stop.signal: "0" is no signal; write TERM, INT, QUIT or a number from 1 to 64`},
		{"stop: {signal: 65}", `2: stop.signal: "65" is no signal; write TERM, INT, QUIT or a number from 1 to 64`},
		{"stop: {signal: STOP}", `2: stop.signal: "STOP" ends no process; write TERM, INT or QUIT`},
		{"stop: {timeout: 0}", `2: stop.timeout: "0" is too short; write 1ms or more`},
		{"stop: {kill: all}", `2: stop.kill: "all" is refused; write group or main`},

		{"sockets: [{listen: 'tcp:8080'}]", `2: sockets[0].listen: "8080" is no address and port; write "tcp:127.0.0.1:8080"`},
		{"sockets: [{listen: 'tpc:127.0.0.1:80'}]", `2: sockets[0].listen: "tpc:127.0.0.1:80" is no socket; write "tcp:127.0.0.1:8080", "udp:127.0.0.1:53" or "unix:/run/app.sock"; did you mean "tcp"?`},
		{"sockets: [{listen: 'tcp:example.org:80'}]", `2: sockets[0].listen: "example.org" is no IP address; write 127.0.0.1 or [::1]`},
		{"sockets: [{listen: 'tcp4:[::1]:80'}]", `2: sockets[0].listen: "::1" is no address of tcp4; write tcp:…`},
		{"sockets: [{listen: 'unix:x.sock'}]", `2: sockets[0].listen: "x.sock" is no absolute path; write "unix:/run/app.sock"`},
		{"sockets: [{listen: 'unix:/" + strings.Repeat("x", 107) + "'}]", `2: sockets[0].listen: the path has 108 bytes; a socket's has at most 107`},
		{"sockets: [{name: x}]", `2: sockets[0]: listen is missing; write {listen: "tcp:127.0.0.1:8080"}`},
		{"sockets: [{listen: 'tcp::80', name: 'a:b'}]", `2: sockets[0].name: "a:b" is no name; write up to 255 letters and digits, without ":"`},
		{"sockets: [{listen: 'tcp::80'}, {listen: 'tcp::80'}]", `2: sockets[1]: "tcp::80" is used by two sockets; take one out`},
		{"sockets: ['tcp::80']", `2: sockets[0]: "tcp::80" is a string; write a mapping, key: value`},

		{"log: {max_size: 1m}", `2: log.max_size: "1m" is ambiguous; write 1MiB (powers of 1024) or 1MB (of 1000)`},
		{"log: {redact: secrets}", `2: log.redact: "secrets" is a string; write [secrets]`},
		{"log:\n  redact:\n  - '('", `4: log.redact[0]: "(" is no regular expression: missing closing ): ` + "`(`" + `; write secrets, or one of RE2, such as sk-([a-z0-9]+)`},
		{"log: {redact: ['x*']}", `2: log.redact[0]: "x*" can match an empty text, in which nothing is to be masked; write + for *`},
		{"log: {forward: tcp:a:1}", `2: log.forward: "tcp:a:1" is no mapping; write {to: tcp:a:1}`},
		{"log: {forward: {format: json}}", `2: log.forward: to is missing; write {to: tcp:127.0.0.1:6514}, unix:/dev/log or stdout`},
		{"log: {forward: {to: udp:a:1}}", `2: log.forward.to: "udp:a:1" is no destination; write stdout, unix:/run/vector.sock or tcp:127.0.0.1:6514`},
		{"log: {forward: {to: unix:log}}", `2: log.forward.to: "unix:log" is no destination; write stdout, unix:/run/vector.sock or tcp:127.0.0.1:6514`},
		{"log: {forward: {to: 'tcp:a:b'}}", `2: log.forward.to: "a:b" is no HOST:PORT; write stdout, unix:/run/vector.sock or tcp:127.0.0.1:6514`},
		{"log: {forward: {to: stdout, format: jsn}}", `2: log.forward.format: "jsn" is refused; did you mean "json"?`},
		{"log: {tee: maybe}", `2: log.tee: "maybe" is refused; write auto, on or off`},
		{"limits: {nofiles: 5}", `2: limits: unknown key "nofiles"; did you mean "nofile"?`},
		{"limits: {nofile: many}", `2: limits.nofile: "many" is no limit; write 1024, "soft:hard" or unlimited`},
		{"limits: {nofile: -1}", `2: limits.nofile: "-1" is no limit; write 1024, "soft:hard" or unlimited`},
		{"limits: {nofile: '20:10'}", `2: limits.nofile: soft (20) is above hard (10); write soft first, and not above hard`},
		{"limits: {nofile: {soft: 20}}", `2: limits.nofile: needs both; write {soft: 1024, hard: 4096}, or one number for both`},
		{"limits: {stack: 1m}", `2: limits.stack: "1m" is no limit; write 64MiB, "soft:hard" or unlimited`},
		{"limits: {memory: 0}", `2: limits.memory: "0" is too small; write 1 or more`},
		{"limits: {cpu: 0}", `2: limits.cpu: "0" is refused; write a number from 0.001 to 1e+06`},
		{"sandbox: {capabilities: [FLY]}", `2: sandbox.capabilities[0]: "FLY" is no capability`},
		{"sandbox: {capabilities: [SYS_ADMN]}", `2: sandbox.capabilities[0]: "SYS_ADMN" is no capability; did you mean "CAP_SYS_ADMIN"?`},
		{"port: 0", `2: port: "0" is refused; write a whole number from 1 to 65535`},
		{"profile: ../x", `2: profile: "../x" is refused; write 1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit`},
	} {
		first := "command: [a]\n"
		if strings.HasPrefix(c.text, "command") || strings.Contains(c.want, "command is missing") {
			first = "# no command here\n"
		}
		_, faults := Decode("f", "web", []byte(first+c.text+"\n"), vars)
		want := "f:" + strings.ReplaceAll(c.want, "\n", "\nf:")
		if got := faults.Error(); got != want {
			t.Errorf("%s\n got %s\nwant %s", c.text, got, want)
		}
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	_, faults := Decode("service.yaml", "web", []byte("command: run it\ntype: onshot\n\nrestart: {delay: 5}\nrestart: no\nreqires: []\n"), vars)
	want := `service.yaml:1: command: "run it" is a string; write [run, it]
service.yaml:2: type: "onshot" is refused; did you mean "oneshot"?
service.yaml:4: restart.delay: "5" has no unit; write 5s
service.yaml:5: key "restart" is here twice; the first is on line 4
service.yaml:6: unknown key "reqires"; did you mean "requires"?`
	if got := faults.Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestOneshotForEver(t *testing.T) {
	_, faults := Decode("f", "web", []byte("command: [a]\ntype: oneshot\nrestart: always\n"), vars)
	want := "f:3: restart: always would run a oneshot for ever; write on-failure or no"
	if got := faults.Error(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "0", "web-1", "a_b", strings.Repeat("a", 64), "gateway-alice", "gateway-" + strings.Repeat("a", 64)} {
		if fault := CheckName(name); fault != "" {
			t.Errorf("%q: %s", name, fault)
		}
	}
	for _, name := range []string{
		"", "-x", "_x", "A", "../x", "a/b", "a\n", "a\x00", "a b", "é", strings.Repeat("a", 65), "gateway-", "gateway-" + strings.Repeat("a", 65),
	} {
		if CheckName(name) == "" {
			t.Errorf("%q is taken", name)
		}
		if _, faults := Decode("f", name, []byte("command: [a]\n"), nil); len(faults) == 0 {
			t.Errorf("a service.yaml is read for %q", name)
		}
	}
}

func TestSignals(t *testing.T) {
	for text, want := range map[string]unix.Signal{
		"TERM": 15, "SIGTERM": 15, "sigterm": 15, "15": 15, "HUP": 1, "WINCH": 28, "RTMIN": 34, "SIGRTMIN+3": 37, "RTMAX-1": 63, "RTMAX": 64,
	} {
		if got, ok := ParseSignal(text); got != want || !ok {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "SIG", "0", "-1", "65", "RTMIN-1", "RTMAX+1", "RTMIN3", "TERM ", "SIGSIGTERM"} {
		if got, ok := ParseSignal(text); ok {
			t.Errorf("%q is signal %d", text, got)
		}
	}
	for s := unix.Signal(1); s <= 64; s++ {
		if got, ok := ParseSignal(SignalName(s)); got != s || !ok {
			t.Errorf("signal %d is written %s and read %d", s, SignalName(s), got)
		}
	}
}
