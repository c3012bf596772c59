package config

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"rlminit/service"
)

// vars are a container's variables.
type vars map[string]string

func (v vars) lookup(name string) (string, bool) {
	s, ok := v[name]
	return s, ok
}

func (v vars) environ() []string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(v)) {
		list = append(list, k+"="+v[k])
	}
	return list
}

// bundle is a configuration of rlminit.yaml and pairs of name and text in
// services.d.
func bundle(text string, more ...string) Bundle {
	b := Bundle{Path: "/etc/rlminit/rlminit.yaml", Files: []File{{"rlminit.yaml", []byte(text)}}}
	for i := 0; i < len(more); i += 2 {
		b.Files = append(b.Files, File{"services.d/" + more[i] + ".yaml", []byte(more[i+1])})
	}
	return b
}

// parsed is a configuration that has to be right.
func parsed(t *testing.T, env vars, text string, more ...string) *Config {
	t.Helper()
	c, faults := Parse(bundle(text, more...), env.lookup)
	if len(faults) > 0 {
		t.Fatalf("%s\nis refused: %v", text, faults)
	}
	return c
}

const designExample = `version: 1
user: app                    # name, uid or uid:gid
home: "${DATA_DIR:-/data}"
stop_timeout: 9s             # the whole container's budget; docker stop gives 10 s, Kubernetes 30 s
inherit_env: ["*"]           # which of the container's variables children see; globs, "!SECRET_*" excludes
environment: {}              # for every child
env_file: []                 # a leading ? makes one optional
main:
  command: [agent]           # run for no arguments, and with arguments whose first is no executable
  user: app                  # root and no_new_privs: false are possible here, for gosu and sudo entrypoints
gateway:                     # every profile's gateway
  marker: profile.yaml
  template: /etc/rlminit/skel           # copied into a new profile
  state_file: gateway_state.json        # ours alone
  import_state: ""                      # such an application's file, read once where state_file is missing
  initial_state: running                # of a profile just created
  found_state: stopped                  # of one found on the volume without any record
  remove_at_boot: [gateway.pid]
  ports: 9200-9799
  command: [agent, gateway, --profile, "${PROFILE}", --port, "${PORT}"]
  default: {command: [agent, gateway]}
services:                    # or one file each in services.d
  dashboard: {command: [agent, dashboard], enabled: "${DASHBOARD:-false}"}
`

func TestExampleOfTheDesign(t *testing.T) {
	c := parsed(t, vars{"DATA_DIR": "/srv", "DASHBOARD": "1"}, designExample)
	if c.User != "app" || c.Home != "/srv" || c.StopTimeout != 9*time.Second || !slices.Equal(c.InheritEnv, []string{"*"}) {
		t.Errorf("%+v", c)
	}
	g := *c.Gateway
	g.defaultNode = g.defaultNode.At("")
	if g.Marker != "profile.yaml" || g.Kinds[""].Template != "/etc/rlminit/skel" || g.StateFile != "gateway_state.json" || g.ImportState != "" ||
		g.Kinds[""].InitialState != service.Running || g.FoundState != service.Stopped || !slices.Equal(g.RemoveAtBoot, []string{"gateway.pid"}) ||
		g.Ports != (Range{9200, 9799}) || g.Ports.Size() != 600 || !g.HasDefault {
		t.Errorf("gateway: %+v", g)
	}
	if d := c.Services["dashboard"]; !d.Enabled || !slices.Equal(d.Command, []string{"agent", "dashboard"}) {
		t.Errorf("dashboard: %+v", d)
	}
	if c := parsed(t, nil, designExample); c.Home != "/data" || c.Services["dashboard"].Enabled {
		t.Errorf("without variables: %+v", c)
	}
}

func TestServiceOfTheDesign(t *testing.T) {
	c := parsed(t, nil, `version: 1
services:
  db: {command: [db]}
  web:
    command: [prog, arg]         # an argv, never a shell string
    user: www
    group: www
    groups: [audio]
    working_dir: /srv
    umask: "022"
    environment: {}
    env_file: []
    type: daemon
    enabled: true
    requires: [db]
    wants: []
    after: []
    restart: {policy: always, delay: 100ms, factor: 2, max_delay: 30s, jitter: 0.1, reset_after: 10s, limit: 8, window: 60s, retry_failed: 10m}
    exits: {success: [0], fatal: [78], restart: [75]}
    ready:  {notify: true, timeout: 30s}
    health: {http: "http://127.0.0.1:8080/", interval: 10s, timeout: 3s, retries: 3, start_period: 0s, action: restart}
    watchdog: 30s
    stop: {signal: TERM, timeout: 5s, kill: group}
    sockets: [{listen: "tcp:127.0.0.1:8080", name: http}]
    log: {file: true, max_size: 1MB, max_files: 10, tee: auto, timestamps: true, redact: []}
    limits: {nofile: 1024, nproc: 100, core: 0, memory: 1GiB, pids: 100, cpu: 2}
    sandbox: {capabilities: [], no_new_privs: true}
`)
	want := service.Default("web")
	want.Restart.Policy = service.RestartAlways
	got := c.Services["web"]
	if !reflect.DeepEqual(got.Restart, want.Restart) || !reflect.DeepEqual(got.Exits, want.Exits) || got.Stop != want.Stop || !reflect.DeepEqual(got.Log, want.Log) {
		t.Errorf("the defaults of the design are not ours: %+v", got)
	}
}

func TestIssueKeys(t *testing.T) {
	c := parsed(t, vars{"HERMES_UID": "1500", "UNUSED": ""}, `version: 1
home: /data
strict: true
access: {read: all}
tags: 60000-60999
main:
  command: [agent]
  user: root
  no_new_privs: false
  subcommands: [setup, doctor]
  routes:
    - {args: [gateway, run], unless: {arg: --no-supervise, env: AGENT_NO_SUPERVISE}, start: default, then: wait}
    - {args: [doctor], profiles: off}
  exit_on: web
  restart: {delay: 1s}
remap: {uid: ["${UNUSED:-}", "${HERMES_UID:-}"], gid: ["${HERMES_GID:-}"]}
own: [., {path: /data/profiles}, {path: cache/, deep: true}]
dirs: [logs, {path: /data/secrets, mode: "0700", owner: www}]
seed: [{from: /usr/share/agent/config, to: config, mode: 0640}]
boot:
  - {name: migrate, command: [agent, migrate], timeout: 30s, on_failure: continue, environment: {A: b}}
  - {command: [agent, check]}
services: {web: {command: [web]}}
gateway: {command: [agent], default: {}}
`)
	main := Main{
		Definition: c.Main.Definition, Subcommands: []string{"setup", "doctor"}, ExitOn: "web",
		Routes: []Route{
			{Args: []string{"gateway", "run"}, UnlessArg: "--no-supervise", UnlessEnv: "AGENT_NO_SUPERVISE", Start: "default", Wait: true},
			{Args: []string{"doctor"}, ProfilesOff: true},
		},
	}
	if !reflect.DeepEqual(c.Main, main) {
		t.Errorf("main: %+v\nwant %+v", c.Main, main)
	}
	if c.Main.User != "root" || c.Main.Sandbox.NoNewPrivs || c.Main.Restart.Policy != service.RestartOnFailure || c.Main.Restart.Delay != time.Second {
		t.Errorf("main: %+v", c.Main)
	}
	if c.UID != 1500 || c.GID != 0 || !c.Strict || !c.ReadAll || c.Tags != (Range{60000, 60999}) {
		t.Errorf("%+v", c)
	}
	if want := []Owned{{"/data", false}, {"/data/profiles", false}, {"/data/cache", true}}; !slices.Equal(c.Own, want) {
		t.Errorf("own: %+v", c.Own)
	}
	if want := []Dir{{"/data/logs", 0o750, ""}, {"/data/secrets", 0o700, "www"}}; !slices.Equal(c.Dirs, want) {
		t.Errorf("dirs: %v", c.Dirs)
	}
	if want := []Seed{{"/usr/share/agent/config", "/data/config", 0o640}}; !slices.Equal(c.Seed, want) {
		t.Errorf("seed: %v", c.Seed)
	}
	want := []Step{
		{Name: "migrate", Command: []string{"agent", "migrate"}, Environment: map[string]service.Value{"A": {Text: "b"}}, Timeout: 30 * time.Second, Continue: true},
		{Name: "boot[1]", Command: []string{"agent", "check"}, Timeout: 5 * time.Minute},
	}
	if !reflect.DeepEqual(c.Boot, want) {
		t.Errorf("boot: %+v", c.Boot)
	}
}

// TestFaults holds every message against its exact words. "version: 1" is line 1
// of each text.
func TestFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"metrics: {listen: 9100}", `rlminit.yaml:2: metrics.listen: "9100" is no socket; write "tcp:127.0.0.1:8080" or "unix:/run/app.sock"`},
		{"metrics: {listen: 'unixgram:/x'}", `rlminit.yaml:2: metrics.listen: "unixgram:/x" is no socket; write "tcp:127.0.0.1:8080" or "unix:/run/app.sock"`},
		{"hooks: [{on: broken, command: [a]}]", `rlminit.yaml:2: hooks[0].on: "broken" is refused; write ready, running, starting, waiting, stopping, stopped, backoff, failed, exited, unhealthy, healthy, ill, well, flapping, job-failed or outdated`},
		{"hooks: [{on: [broken], command: [a]}]", `rlminit.yaml:2: hooks[0].on[0]: "broken" is refused; write ready, running, starting, waiting, stopping, stopped, backoff, failed, exited, unhealthy, healthy, ill, well, flapping, job-failed or outdated`},
		{"hooks: [{on: {memory: 80}, command: [a]}]", `rlminit.yaml:2: hooks[0].on.memory: "80" has no unit; write 80%`},
		{"hooks: [{on: [{cpu: 0%}], command: [a]}]", `rlminit.yaml:2: hooks[0].on[0].cpu: "0%" is refused; write 1% to 100%`},
		{"hooks: [{on: [{disk: 101%}], command: [a]}]", `rlminit.yaml:2: hooks[0].on[0].disk: "101%" is refused; write 1% to 100%`},
		{"hooks: [{on: [{memory: 1.5%}], command: [a]}]", `rlminit.yaml:2: hooks[0].on[0].memory: "1.5%" is refused; write 1% to 100%`},
		{"hooks: [{on: [{for: 5m}], command: [a]}]", `rlminit.yaml:2: hooks[0].on[0]: names no memory, cpu or disk; write {memory: 80%, for: 5m}`},
		{"hooks: [{on: [{memroy: 80%}], command: [a]}]", `rlminit.yaml:2: hooks[0].on[0]: unknown key "memroy"; did you mean "memory"?`},
		{"hooks: [{on: [{memory: 80%, for: 25h}], command: [a]}]", `rlminit.yaml:2: hooks[0].on[0].for: 25h0m0s is too long; write at most 24h`},
		{"hooks: [{on: [failed, {disk: 80%}], services: [web], command: [a]}]", `rlminit.yaml:2: hooks[0].on: a service has no disk; take disk, or services, out`},
		{"hooks: [{name: A b, on: failed, command: [a]}]", `rlminit.yaml:2: hooks[0].name: "A b" is refused; write 1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit`},
		{"hooks: [{name: hook-2, on: failed, command: [a]}, {on: failed, command: [a]}]", `rlminit.yaml:2: hooks[1]: another hook is called "hook-2"; give this one another name`},
		{"hooks: [{on: [], command: [a]}]", `rlminit.yaml:2: hooks[0].on: is empty; write on: [failed]`},
		{"hooks: [{command: [a]}]", `rlminit.yaml:2: hooks[0]: on is missing; write on: [failed]`},
		{"gateway: {command: [a], ready: {notify: true}, default: {ready: null}}", `rlminit.yaml:2: gateway.default.ready: is empty, which changes nothing; write none to switch off what the kind says, another probe, such as {tcp: "127.0.0.1:${PORT}"}, or take it out`},
		// As in the design.
		{"\n\n\nservices:\n  web:\n    command: agent serve\n", `rlminit.yaml:7: services.web.command: "agent serve" is a string; write [agent, serve]`},
		{"\n\n\nservices:\n  web:\n    command: [agent, serve]\n\n    enviroment: {A: b}\n", `rlminit.yaml:9: services.web: unknown key "enviroment"; did you mean "environment"?`},

		{"vesion: 1", `rlminit.yaml:2: unknown key "vesion"; did you mean "version"?`},
		{"user: 'a b'", `rlminit.yaml:2: user: "a b" is no user; write a name, a uid or uid:gid`},
		{"home: data", `rlminit.yaml:2: home: "data" is no absolute path; write /data`},
		{"home: /", `rlminit.yaml:2: home: the root directory cannot be the volume; write /data`},
		{"home: '${X}'", `rlminit.yaml:2: home: ${X} is not set; set X, or write ${X:-default}`},
		{"stop_timeout: 9", `rlminit.yaml:2: stop_timeout: "9" has no unit; write 9s`},
		{"stop_timeout: 0", `rlminit.yaml:2: stop_timeout: "0" is too short; write 1ms or more`},
		{"inherit_env: '*'", `rlminit.yaml:2: inherit_env: "*" is a string; write ["*"]`},
		{"inherit_env: ['A=b']", `rlminit.yaml:2: inherit_env: "A=b" is no pattern; write the names of variables, such as LANG, APP_* or !SECRET_*`},
		{"environment: {LISTEN_FDS: 3}", `rlminit.yaml:2: environment.LISTEN_FDS: is set by rlminit itself; take it out`},
		{"access: {read: everyone}", `rlminit.yaml:2: access.read: "everyone" is refused; write all or none`},
		{"tags: 5", ""},
		{"tags: 10-5", `rlminit.yaml:2: tags: "10-5" ends before it begins; write 5-10`},
		{"tags: 0-5", `rlminit.yaml:2: tags: "0-5" is no range; write two numbers from 1 to 4294967294, such as 50000-59999`},
		{"gateway: []", "rlminit.yaml:2: gateway: is a list; write a mapping, key: value\nrlminit.yaml:2: gateway: command is missing; write command: [prog, arg]"},
		{"gateway: {comand: [a]}", "rlminit.yaml:2: gateway: unknown key \"comand\"; did you mean \"command\"?\nrlminit.yaml:2: gateway: command is missing; write command: [prog, arg]"},
		{"gateway: {command: [a], ports: 9200-99999}", `rlminit.yaml:2: gateway.ports: "9200-99999" is no range; write two numbers from 1 to 65535, such as 9200-9799`},
		{"gateway: {command: [a], marker: ../x}", `rlminit.yaml:2: gateway.marker: "../x" is no file name; write a name without /`},
		{"gateway: {command: [a], import_state: gateway_state.json}", `rlminit.yaml:2: gateway: import_state and state_file are both "gateway_state.json"; rlminit needs a file of its own, so give state_file another name`},
		{"gateway: {command: [a], marker: SOUL.md, state_file: profile.yaml}", `rlminit.yaml:2: gateway.state_file: "profile.yaml" is a file of rlminit itself; give this one another name`},
		{"gateway: {command: [a], initial_state: on}", `rlminit.yaml:2: gateway.initial_state: "on" is refused; write running or stopped`},
		{"gateway: {command: [a], remove_at_boot: [../x, /y, ok.pid]}", "rlminit.yaml:2: gateway.remove_at_boot[0]: \"../x\" is no path below the profile's directory; write a name such as gateway.pid\nrlminit.yaml:2: gateway.remove_at_boot[1]: \"/y\" is no path below the profile's directory; write a name such as gateway.pid"},
		{"gateway: {command: [a], remove_at_boot: [profile.yaml]}", `rlminit.yaml:2: gateway.remove_at_boot: "profile.yaml" cannot be removed at boot; take it out`},
		{"gateway: {command: [a], remove_at_boot: ['*']}", `rlminit.yaml:2: gateway.remove_at_boot: "*" is "profile.yaml" too, which cannot be removed at boot; take it out`},
		{"gateway: {command: [a], remove_at_boot: ['*.pid', 'a/[x', 'ok/[x]']}", `rlminit.yaml:2: gateway.remove_at_boot[1]: "a/[x" is no pattern; write one such as *.pid or run/[a-z]*.lock`},
		{"gateway: {command: [a], template: '/x/${PROFILE}'}", `rlminit.yaml:2: gateway.template: ${PROFILE} is not set; set PROFILE, or write ${PROFILE:-default}`},
		{"gateway: {command: [a], user: www}", `rlminit.yaml:2: gateway.user: "www" is refused; write auto`},
		{"gateway:\n  command: [a]\n  sandbox: {capabilities: [CHOWN]}", `rlminit.yaml:4: gateway.sandbox: gateways run without privilege, for profiles may change what they run; take it out`},
		{"gateway: {command: [a], requires: [db]}", `rlminit.yaml:2: gateway.requires: no service "db"`},
		{"gateway: {command: [a], default: {comand: [b]}}", `rlminit.yaml:2: gateway.default: unknown key "comand"; did you mean "command"?`},
		{"gateway: {command: [a, '${PORTT}']}", "rlminit.yaml:2: gateway.command[1]: ${PORTT} is not set; set PORTT, or write ${PORTT:-default}"},
		{"services: [web]", `rlminit.yaml:2: services: is a list; write a mapping, key: value`},
		{"services: {Web: {command: [a]}}", `rlminit.yaml:2: services.Web: the name "Web" is refused; write 1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit`},
		{"services: {gateway-a: {command: [a]}}", `rlminit.yaml:2: services.gateway-a: the name "gateway-a" is refused: names that begin with gateway- are those of profiles`},
		{"services: {all: {command: [a]}}", `rlminit.yaml:2: services.all: the name is reserved; choose another`},
		{"services: {web: }", `rlminit.yaml:2: services.web: command is missing; write command: [prog, arg]`},
		{"services: {web: {command: [a], user: root}}", `rlminit.yaml:2: services.web.user: "root" is refused: only main may run as root; name another user`},
		{"services: {web: {command: [a], port: 80}}", `rlminit.yaml:2: services.web: unknown key "port"; the keys here are ` + serviceKeys},
		{"services:\n  web:\n    command: [a]\n    requires: [databse]\n  database: {command: [b]}", `rlminit.yaml:5: services.web.requires: no service "databse"; did you mean "database"?`},
		{"services:\n  a: {command: [x], requires: [b]}\n  b: {command: [x], after: [a]}", `rlminit.yaml:3: services.a.requires: the services wait for each other: a → b → a; take one of them out`},
		{"main: {command: agent run}", `rlminit.yaml:2: main.command: "agent run" is a string; write [agent, run]`},
		{"main: {exit_on: wbe}\nservices: {web: {command: [a]}}", `rlminit.yaml:2: main.exit_on: no service "wbe"; did you mean "web"?`},
		{"main: {requires: [a]}", `rlminit.yaml:2: main: unknown key "requires"; the keys here are command, env_file, environment, exit_on, exits, group, groups, limits, no_new_privs, restart, routes, sandbox, signal_group, stop, subcommands, umask, user, working_dir`},
		{"main: {routes: [{start: x, then: wait}]}", `rlminit.yaml:2: main.routes[0]: args is missing; write args: [word] for the arguments that the route is for, [] for none, or program: true`},
		{"environment: {1FOO: x}", `rlminit.yaml:2: environment.1FOO: begins with a digit, and no shell takes such a variable; use another name`},
		{"main: {routes: [{args: [], program: true}]}", `rlminit.yaml:2: main.routes[0]: args and program: true exclude each other; take one of them out`},
		{"main: {routes: [{program: true, then: wait}]}", `rlminit.yaml:2: main.routes[0]: then: wait runs no command, and program: true is for one; take one of them out`},
		{"services: {x: {command: [x]}}\nmain: {routes: [{args: [], start: x, alone: true}]}", `rlminit.yaml:3: main.routes[0]: alone starts nothing else, and waits for nothing; take out alone, or start and then`},
		{"main: {routes: [{args: [], start: x}]}", `rlminit.yaml:2: main.routes: no service "x"`},
		{"main: {routes: [{args: [x], then: wait}]}", `rlminit.yaml:2: main.routes[0]: then: wait has nothing to wait for; add start: NAME`},
		{"remap: {uid: ['0']}", `rlminit.yaml:2: remap.uid[0]: "0" is refused; write digits from 1 to 65534`},
		{"remap: {uid: [a1], gid: [65535]}", "rlminit.yaml:2: remap.uid[0]: \"a1\" is refused; write digits from 1 to 65534\nrlminit.yaml:2: remap.gid[0]: \"65535\" is refused; write digits from 1 to 65534"},
		{"own: [/etc]", `rlminit.yaml:2: own[0]: "/etc" is not on the volume; write a path below /data`},
		{"own: [a/../../etc]", `rlminit.yaml:2: own[0]: "a/../../etc" is not on the volume; write a path below /data`},
		{"own: [/database]", `rlminit.yaml:2: own[0]: "/database" is not on the volume; write a path below /data`},
		{"dirs: [{mode: '0750'}]", `rlminit.yaml:2: dirs[0]: path is missing; write {path: logs, mode: "0750"}`},
		{"dirs: [{path: x, mode: 999}]", `rlminit.yaml:2: dirs[0].mode: "999" is no mode; write octal digits such as "0640"`},
		{"seed: [{from: x}]", "rlminit.yaml:2: seed[0].from: \"x\" is no absolute path; write /x\nrlminit.yaml:2: seed[0]: from and to are both needed; write {from: /usr/share/app/config, to: config}"},
		{"boot: [{name: x}]", `rlminit.yaml:2: boot[0]: command is missing; write command: [prog, arg]`},
		{"boot: [{command: [x], on_failure: ignore}]", `rlminit.yaml:2: boot[0].on_failure: "ignore" is refused; write stop or continue`},
		{"---\nversion: 1", `rlminit.yaml:2: a second document begins here; a file holds one, so remove the "---"`},
	} {
		_, faults := Parse(bundle("version: 1\n"+c.text+"\n"), nil)
		if got := faults.Error(); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

const serviceKeys = "after, command, control, deadline, enabled, env_file, environment, exits, group, groups, health, isolation, limits, log, ready, " +
	"requires, restart, sandbox, schedule, schedules, secrets, sockets, stop, type, umask, user, wants, watchdog, working_dir"

func TestVersion(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "rlminit.yaml:1: version is missing; write version: 1",
		"user: app\n":               "rlminit.yaml:1: version is missing; write version: 1",
		"version: 2\n":              `rlminit.yaml:1: version: "2" is refused; write 1`,
		"[]":                        "rlminit.yaml:1: is a list; write a mapping, key: value",
		"version: 1\n\tuser: app\n": "rlminit.yaml:2: not YAML: found a tab character that violates indentation; indent with spaces, not tabs",
	} {
		_, faults := Parse(bundle(text), nil)
		if got := faults.Error(); got != want {
			t.Errorf("%q\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestServicesDirectory(t *testing.T) {
	c := parsed(t, nil, "version: 1\nservices: {db: {command: [db]}}\n", "web", "command: [web, \"${RLMINIT_HOME}\"]\nrequires: [db]\n")
	if got := c.Services["web"].Command; !slices.Equal(got, []string{"web", "/data"}) {
		t.Errorf("web: %q", got)
	}
	_, faults := Parse(bundle("version: 1\nservices: {db: {command: [db]}}\n",
		"db", "command: [x]\n", "main", "command: [x]\n", "web", "\ncomand: [x]\nrequires: [dd]\n", "Bad", "command: [x]\n"), nil)
	want := `services.d/Bad.yaml:1: the name "Bad" is refused; write 1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit
services.d/db.yaml:1: service "db" is defined twice; the first is at rlminit.yaml:2
services.d/main.yaml:1: the name is reserved; choose another
services.d/web.yaml:1: command is missing; write command: [prog, arg]
services.d/web.yaml:2: unknown key "comand"; did you mean "command"?
services.d/web.yaml:3: requires: no service "dd"; did you mean "db"?`
	if got := faults.Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPrecedence(t *testing.T) {
	const text = "version: 1\nuser: app\nhome: /yaml\nstop_timeout: 1s\nservices: {x: {command: [x, '${RLMINIT_HOME}']}}\n"
	b := bundle(text)
	env := vars{"RLMINIT_HOME": "/variable", "RLMINIT_STOP_TIMEOUT": "2s", "RLMINIT_PROFILES": "off", "RLMINIT_STRICT": "1", "RLMINIT_USER": "7:8"}
	check := func(home string, timeout time.Duration, profiles, strict bool, user string) {
		t.Helper()
		c, faults := Parse(b, env.lookup)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		if c.Home != home || c.StopTimeout != timeout || c.Profiles != profiles || c.Strict != strict || c.User != user {
			t.Errorf("%+v", c)
		}
		if got := c.Services["x"].Command[1]; got != home {
			t.Errorf("RLMINIT_HOME expands to %s", got)
		}
	}
	check("/variable", 2*time.Second, false, true, "7:8")
	b.Flags = map[string]string{"home": "/flag/", "stop_timeout": "3s", "profiles": "on", "strict": "false", "user": "bob"}
	check("/flag", 3*time.Second, true, false, "bob")
	b.Flags, env = nil, vars{"RLMINIT_HOME": "", "RLMINIT_STOP_TIMEOUT": ""}
	check("/yaml", time.Second, true, false, "app")
}

func TestBadVariables(t *testing.T) {
	env := vars{
		"RLMINIT_HOME": "data", "RLMINIT_STOP_TIMEOUT": "9", "RLMINIT_PROFILES": "maybe", "RLMINIT_UID": "0", "PGID": "x", "RLMINIT_USER": "a b",
	}
	_, faults := Parse(bundle("version: 1\n"), env.lookup)
	var got []string
	for _, f := range faults {
		got = append(got, f.Error())
	}
	slices.Sort(got)
	want := []string{
		`PGID: "x" is refused; write digits from 1 to 65534`,
		`RLMINIT_HOME: "data" is no absolute path; write /data`,
		`RLMINIT_PROFILES: "maybe" is refused; write on or off`,
		`RLMINIT_STOP_TIMEOUT: "9" has no unit; write 9s`,
		`RLMINIT_UID: "0" is refused; write digits from 1 to 65534`,
		`RLMINIT_USER: "a b" is no user; write a name, a uid or uid:gid`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	b := bundle("version: 1\n")
	b.Flags = map[string]string{"stop_timeout": "soon", "home": "/"}
	_, faults = Parse(b, nil)
	const flags = "--home: the root directory cannot be the volume; write /data\n--stop-timeout: \"soon\" is no duration; write 9s, 1m30s or 100ms"
	if faults.Error() != flags {
		t.Errorf("%v", faults)
	}
}

// FuzzParse: no rlminit.yaml makes the parser panic, and every fault has a line.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		designExample, "version: 1\nservices: {a: {command: [x], requires: [b]}, b: {command: [x], after: [a]}}\n",
		"version: 1\nmain: {routes: [{args: [x], start: y, then: wait}], exit_on: z}\n", "version: 1\nremap: {uid: ['5']}\nown: [x]\n",
		"version: 1\nboot: [{command: [x]}]\ndirs: [a, {path: b}]\nseed: [{from: /a, to: b}]\n", "gateway: &x [*x]\n", "services:\n  : \n",
		"version: 1\nhome: /\ntags: 1-2\naccess: {read: all}\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b := bundle(string(data), "web", string(data))
		c, faults := Parse(b, vars{"A": "b"}.lookup)
		for _, fault := range faults {
			if fault.Line < 1 || fault.File == "" {
				t.Errorf("a fault without a line: %q", fault.Error())
			}
		}
		if len(faults) == 0 && c.Gateway != nil {
			c.ProfileDefinition(Profile{Name: "alice", Dir: "/data/profiles/alice"}, "profile.yaml", data)
		}
	})
}

// TestShippedConfiguration reads what the image holds.
func TestShippedConfiguration(t *testing.T) {
	data, err := os.ReadFile("../rootfs/etc/rlminit/rlminit.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := parsed(t, nil, string(data))
	if c.User == "" || c.Gateway == nil {
		t.Errorf("%+v", c)
	}
}
