package source

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"rlminit/beside/move"
)

// tree writes files, "PATH\n" and the text each, into a new directory.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if filepath.Base(name) == "run" || filepath.Base(name) == "finish" || strings.Contains(name, "cont-init.d") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// result is what an import came to.
type result struct {
	dir  string
	top  map[string]any
	text string
	left string // with the directory taken away
}

// read imports a path below dir, by recognition.
func read(t testing.TB, dir, path string) result {
	t.Helper()
	full := filepath.Join(dir, path)
	files, err := move.NewTree("", []string{full})
	if err != nil {
		t.Fatal(err)
	}
	return readFrom(t, dir, files, full)
}

func readFrom(t testing.TB, dir string, files *move.Tree, full string) result {
	t.Helper()
	s, err := Recognise(files, []string{full})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := s.Read(files, []string{full})
	if err != nil {
		t.Fatal(err)
	}
	plan.ChooseUser("")
	text, err := plan.Settle()
	if err != nil {
		t.Fatal(err)
	}
	r := result{dir: dir, text: string(text)}
	if err := yaml.Unmarshal(text, &r.top); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var left []string
	for _, l := range plan.Left() {
		left = append(left, strings.ReplaceAll(l.String(), dir+"/", ""))
	}
	r.left = strings.Join(left, "\n")
	return r
}

// holds looks up a place, such as services.web.command, as YAML on one line.
func (r result) holds(t *testing.T, place, want string) {
	t.Helper()
	var at any = r.top
	for _, key := range strings.Split(place, "/") {
		m, is := at.(map[string]any)
		if !is {
			at = nil
			break
		}
		at = m[key]
	}
	var wanted any
	if err := yaml.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(at, wanted) {
		t.Errorf("%s is\n%#v\nwant\n%#v", place, at, wanted)
	}
}

// names checks that lines about what was left out begin so, each in order of place.
func (r result) names(t *testing.T, starts ...string) {
	t.Helper()
	for _, s := range starts {
		if !strings.Contains("\n"+r.left, "\n"+s) {
			t.Errorf("no line begins with %q in\n%s", s, r.left)
		}
	}
}

func (r result) silent(t *testing.T, about ...string) {
	t.Helper()
	for _, s := range about {
		if strings.Contains(r.left, s) {
			t.Errorf("%q is named in\n%s", s, r.left)
		}
	}
}

func TestSupervisord(t *testing.T) {
	dir := tree(t, map[string]string{
		"etc/supervisor/supervisord.conf": `; the main file
[unix_http_server]
file=/run/supervisor.sock   ; where
[supervisord]
nodaemon=true
user=www
environment=A="1",B='two words'
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[include]
files = conf.d/*.conf /elsewhere/*.conf
`,
		"etc/supervisor/conf.d/a.conf": `[program:Web]
command=/usr/bin/web --dir "%(here)s/x y" --home %(ENV_HOME)s --rate 100%% # why
 --more %(program_name)s
process_name=%(program_name)s_%(process_num)02d
numprocs=2
priority=10
stopsignal=quit
stopwaitsecs=3
stopasgroup=true
autorestart=true
directory=/srv
umask=027
environment=K="a,b;c",
  L=2
stdout_logfile=/var/log/web.log
stdout_logfile_maxbytes=2MB
stdout_logfile_backups=3
[program:late]
command=sleep 10
user=root
autostart=false
exitcodes=0,2
startsecs=5
startretries=7
novel=1
[program:zero]
command=x
numprocs=0
[program:unset]
command=sh -c "kill $$; echo ${X}"
autorestart=no
stopsignal=STOP
stdout_logfile=/dev/fd/1
[eventlistener:mail]
command=x
events=PROCESS_STATE
[fcgi-program:f]
command=x
socket=tcp://localhost:9000
[group:back]
programs=late,gone
priority=1
`,
	})
	r := read(t, dir, "etc/supervisor/supervisord.conf")
	r.holds(t, "user", "www")
	r.holds(t, "environment", `{A: "1", B: two words}`)
	r.holds(t, "services/web_00/command", `[/usr/bin/web, --dir, /etc/supervisor/conf.d/x y, --home, '${HOME:-}', --rate, 100%, --more, Web]`)
	r.holds(t, "services/web_01/environment", `{SUPERVISOR_ENABLED: "1", SUPERVISOR_PROCESS_NAME: Web_01, SUPERVISOR_GROUP_NAME: Web, K: "a,b;c", L: "2"}`)
	r.holds(t, "services/web_01/stop", `{timeout: 3s, signal: QUIT}`)
	r.holds(t, "services/web_01/log", `{max_size: 2MiB, max_files: 3}`)
	r.holds(t, "services/web_01/umask", `"027"`)
	r.holds(t, "services/late/enabled", "false")
	r.holds(t, "services/late/exits", "{success: [0, 2], fatal: [], restart: []}")
	r.holds(t, "services/late/restart", "{policy: on-failure, delay: 1.25s, factor: 1, jitter: 0, reset_after: 5s, limit: 8, window: 40s, retry_failed: 0}")
	r.holds(t, "services/unset/restart", `"no"`)
	r.holds(t, "services/unset/command", `[sh, -c, "kill $$$$; echo $${X}"]`)
	r.holds(t, "services/unset/after", "[web_00, web_01]")
	r.names(t,
		"etc/supervisor/supervisord.conf:2: [unix_http_server]: ", "etc/supervisor/supervisord.conf:11: include /elsewhere/*.conf: no file",
		"etc/supervisor/conf.d/a.conf:1: Web_00: it is called web_00 here", "etc/supervisor/conf.d/a.conf:15: stdout_logfile: ", "etc/supervisor/conf.d/a.conf:25: novel: ",
		"etc/supervisor/conf.d/a.conf:20: user=root: ", "etc/supervisor/conf.d/a.conf:28: [program:zero]: ", "etc/supervisor/conf.d/a.conf:29: stop: ", "etc/supervisor/conf.d/a.conf:34: [eventlistener:mail]: ",
		"etc/supervisor/conf.d/a.conf:37: [fcgi-program:f]: ", "etc/supervisor/conf.d/a.conf:41: [group:back]: there is no program gone")
	r.silent(t, "rpcinterface", "nodaemon", "/dev/fd/1")
}

// What supervisord heeds only in the background, expands, keeps and gives to each program.
func TestSupervisordItself(t *testing.T) {
	dir := tree(t, map[string]string{"supervisord.conf": `[supervisord]
nodaemon=true
umask=077
directory=/srv
environment=RATE="100%%%%",STAGE="of $x"
[program:slow]
command=/slow %(ENV_STAGE)s %(ENV_OWN)s %(ENV_HOSTNAME)s
environment=OWN="%(ENV_STAGE)s 5%%",SUPERVISOR_ENABLED="mine"
priority=1
stopwaitsecs=60
autorestart=true
[program:first]
command=/first
priority=9
stdout_logfile=/dev/stdout
stdout_logfile_maxbytes=0
redirect_stderr=true
[program:grows]
command=/grows
directory=/x
user=www
priority=900
stdout_logfile=/var/log/grows
stdout_logfile_maxbytes=0
stderr_logfile_backups=2
[group:both]
programs=first,slow
priority=5
`})
	r := read(t, dir, "supervisord.conf")
	r.holds(t, "environment", `{RATE: 100%, STAGE: of $$x}`)
	r.holds(t, "stop_timeout", "61s")
	r.holds(t, "services/slow/command", "[/slow, of, $$x, of, $$x, 5%, '${HOSTNAME:-}']")
	r.holds(t, "services/slow/environment", `{SUPERVISOR_ENABLED: mine, SUPERVISOR_PROCESS_NAME: slow, SUPERVISOR_GROUP_NAME: both, OWN: of $$x 5%}`)
	r.holds(t, "services/slow/exits", "{fatal: []}")
	r.holds(t, "services/slow/after", "")
	r.holds(t, "services/slow/umask", "")
	r.holds(t, "services/slow/working_dir", "/")
	r.holds(t, "services/slow/log", "{max_size: 50MiB, max_files: 10}")
	r.holds(t, "services/first/after", "")
	r.holds(t, "services/first/log", "")
	r.holds(t, "services/grows/after", "[first, slow]")
	r.holds(t, "services/grows/working_dir", "/x")
	r.names(t, "supervisord.conf:3: umask: supervisord heeds it only when it goes into the background", "supervisord.conf:4: directory: ", "supervisord.conf:6: HOME: ",
		"supervisord.conf:6: stop.timeout 60s: ", "supervisord.conf:24: stdout_logfile_maxbytes: ")
	if strings.Count(r.left, ": HOME: ") != 1 || strings.Contains(r.left, "17: stdout_logfile") {
		t.Errorf("%s", r.left)
	}
	r = read(t, tree(t, map[string]string{"supervisord.conf": "[supervisord]\nenvironment=A=\"100%%\",HOME=/x\n[program:a]\ncommand=a\n"}), "supervisord.conf")
	r.holds(t, "environment", "{A: 100%, HOME: /x}")
	if !strings.Contains(r.left, "supervisord.conf:2: environment: supervisord expands this text twice") || strings.Contains(r.left, ": HOME: ") {
		t.Errorf("%s", r.left)
	}
}

func TestProcfile(t *testing.T) {
	dir := tree(t, map[string]string{
		"app/Procfile": "# processes\nweb: bundle exec puma -p $PORT\nworker: python work.py 'two words'\nrelease: ./migrate\nno process\nall: sleep 1\n",
		"app/.env":     "A=1\n",
	})
	r := read(t, dir, "app")
	r.holds(t, "services/web/command", "[sh, -c, bundle exec puma -p $$PORT]")
	r.holds(t, "services/web/environment", `{PORT: "5000"}`)
	r.holds(t, "services/worker/command", "[python, work.py, two words]")
	r.holds(t, "services/worker/environment", `{PORT: "5100"}`)
	r.holds(t, "services/worker/env_file", "['?"+dir+"/app/.env']")
	r.names(t, "app/Procfile:5: no process: ", "app/Procfile:6: all: it is called service-all here", "app/Procfile:4: .env: ")
	if !strings.Contains(r.text, "name: release\n    command: [./migrate]") {
		t.Errorf("no boot command in\n%s", r.text)
	}
}

func TestCompose(t *testing.T) {
	dir := tree(t, map[string]string{
		"compose.yaml": `include: [other.yaml, other.yaml, ../outside.yaml]
x-common: &common
  restart: unless-stopped
services:
  web:
    <<: *common
    image: web:1
    entrypoint: [/web, $HOME, "${A:-b}", "${C?no}", "${D-d}"]
    command: serve --price $$5
    environment: {ONE: 1, NONE: null, T: "${T:-x}"}
    depends_on:
      db: {condition: service_healthy, required: true}
      migrate: {condition: service_completed_successfully}
      cache: {condition: service_started, required: false}
      plain: {condition: service_started}
    ports: ["80:80"]
    strange: 1
    user: root
    deploy: {replicas: 3, resources: {limits: {cpus: "0.5", memory: 64M, pids: 9}}}
    stop_signal: SIGQUIT
    stop_grace_period: 1m30s
    ulimits: {nofile: {soft: 10, hard: 20}, core: -1}
  db:
    image: postgres
    command: [postgres]
    user: "70:70"
    healthcheck: {test: ["CMD-SHELL", "pg_isready -U $$U"], interval: 5s, retries: 4, start_period: 10s}
    logging: {options: {max-size: 10m, max-file: "3"}}
  migrate: {extends: {file: base.yaml, service: job}, restart: always}
  plain: {image: nginx}
  cache: {command: redis-server, restart: "on-failure:3", profiles: [extra]}
volumes: {data: {}}
bogus: 1
`,
		"base.yaml":  "services:\n  job: {command: /migrate}\n",
		"other.yaml": "services:\n  beside: {command: sleep 1}\n  web: {command: no}\n",
		".env":       "A=1\n",
	})
	r := read(t, dir, ".")
	r.holds(t, "services/web/command", "[/web, '${HOME:-}', '${A:-b}', '${C:-}', '${D:-d}', serve, --price, $$5]")
	r.holds(t, "services/web/environment", `{ONE: "1", T: '${T:-x}'}`)
	r.holds(t, "services/web/requires", "[db, migrate]")
	r.holds(t, "services/web/wants", "[cache]")
	r.holds(t, "services/web/restart", "{policy: always, max_delay: 60s, limit: 0}")
	r.holds(t, "services/web/stop", "{signal: QUIT, timeout: 90s, kill: main}")
	r.holds(t, "services/web/limits", "{cpu: 0.5, memory: 64MiB, pids: 9, core: unlimited, nofile: \"10:20\"}")
	r.holds(t, "services/db/health", `{exec: [sh, -c, "pg_isready -U $$U"], interval: 5s, retries: 4, start_period: 10s, timeout: 30s, action: none}`)
	r.holds(t, "services/db/ready", `{exec: [sh, -c, "pg_isready -U $$U"], timeout: 60s}`)
	r.holds(t, "services/db/log", "{max_files: 2, max_size: 10MiB}")
	r.holds(t, "services/migrate/type", "oneshot")
	r.holds(t, "services/migrate/command", "[/migrate]")
	r.holds(t, "services/cache/enabled", "false")
	r.holds(t, "services/cache/restart", "{policy: on-failure, max_delay: 60s, limit: 3, window: 24h, retry_failed: 0}")
	r.holds(t, "services/beside/command", "[sleep, \"1\"]")
	r.names(t, "compose.yaml:1: include other.yaml: it is included already", "compose.yaml:1: include: ", "compose.yaml:8: entrypoint: Compose refuses", "compose.yaml:11: depends_on plain: ",
		"compose.yaml:16: ports: ", "compose.yaml:17: strange: ", "compose.yaml:18: user: ", "compose.yaml:19: replicas: ", "compose.yaml:29: restart: ", "compose.yaml:30: plain: it is left out: its command is in nginx",
		"compose.yaml:32: volumes: ", "compose.yaml:33: bogus: ", ".env: .env: ", "other.yaml:3: web: ")
}

// What the file does not say is the image's.
func TestComposeImages(t *testing.T) {
	dir := tree(t, map[string]string{
		"shop/compose.yaml": "services:\n  db: {image: postgres, environment: {A: mine}}\n  cache: {image: 'docker.io/library/redis:7', command: [redis-server, --save, '']}\n  web: {build: ., entrypoint: [/run]}\n  other: {image: nowhere, command: [x]}\n",
		"images.json": `[{"RepoTags": ["postgres:latest"], "Config": {"Entrypoint": ["entry.sh"], "Cmd": ["postgres", "$x"], "Env": ["A=theirs", "B=$y"], "WorkingDir": "/var", "StopSignal": "SIGINT",
  "Healthcheck": {"Test": ["CMD-SHELL", "pg_isready -U $U"], "Interval": 5000000000, "Retries": 4}}},
 {"RepoTags": ["redis:7"], "Config": {"Entrypoint": ["redis.sh"], "Cmd": ["redis-server"], "User": "999"}},
 {"RepoTags": ["shop-web:latest"], "Config": {"Entrypoint": ["/old"], "Cmd": ["ignored"], "User": "5:6"}}]`,
	})
	path := filepath.Join(dir, "shop/compose.yaml")
	files, err := move.NewTree("", []string{path})
	if err != nil {
		t.Fatal(err)
	}
	files.ReadImages(filepath.Join(dir, "images.json"))
	r := readFrom(t, dir, files, path)
	r.holds(t, "services/db/command", "[entry.sh, postgres, $$x]")
	r.holds(t, "services/db/environment", "{A: mine, B: $$y}")
	r.holds(t, "services/db/working_dir", "/var")
	r.holds(t, "services/db/stop", "{signal: INT, timeout: 10s, kill: main}")
	r.holds(t, "services/db/health", `{exec: [sh, -c, "pg_isready -U $$U"], interval: 5s, timeout: 30s, retries: 4, action: none}`)
	r.holds(t, "services/cache/command", `[redis.sh, redis-server, --save, ""]`)
	r.holds(t, "user", `"999"`)
	r.holds(t, "services/web/user", "5:6")
	r.holds(t, "services/web/command", "[/run]")
	r.names(t, "shop/compose.yaml:2: user: ", "shop/compose.yaml:5: entrypoint: ")
	if strings.Count(r.left, ": entrypoint: ") != 1 {
		t.Errorf("an entrypoint that is known is named:\n%s", r.left)
	}
	for _, bad := range []string{"{", "[]", "[{\"Config\": 3}]"} {
		if err := os.WriteFile(filepath.Join(dir, "images.json"), []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := Named("compose")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Read(files, []string{path}); err == nil || !strings.Contains(err.Error(), "images.json: ") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestSystemd(t *testing.T) {
	dir := tree(t, map[string]string{
		"lib/systemd/system/web.service": `[Unit]
Description=The web
After=network.target db.service gone.service
Requires=db.service
Before=late.service
[Service]
Type=notify
User=www
Group=web
EnvironmentFile=-/etc/default/web
ExecStartPre=-/usr/bin/test -e /x
ExecStartPre=+/bin/chown www /y
ExecStart=@/usr/bin/web webd --opt "$OPTS" $OPTS ${A}b 100%% $$5 \
  --name %n
ExecStop=/bin/kill -QUIT $MAINPID
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=2min 3s
RestartForceExitStatus=3 4
SuccessExitStatus=3 TEMPFAIL SIGKILL
WatchdogSec=20
LimitNOFILE=1K:infinity
ProtectSystem=strict
ReadWritePaths=/var/lib/web -/var/log/web
NoNewPrivileges=yes
AmbientCapabilities=CAP_NET_BIND_SERVICE
MemoryMax=1G
TasksMax=50
CPUQuota=150%
Frobnicate=yes
KillMode=mixed
[Install]
WantedBy=multi-user.target
Alias=www.service
`,
		"lib/systemd/system/web.service.d/10-more.conf": "[Service]\nEnvironment=\"ONE=two words\" TWO=$x\nUser=\nUser=site\n",
		"lib/systemd/system/db.service":                 "[Service]\nType=forking\nExecStart=/usr/bin/db\nPIDFile=/run/db.pid\n",
		"lib/systemd/system/late.service":               "[Service]\nUser=a\nType=oneshot\nExecStart=/bin/a\nExecStart=-/bin/b ; /bin/c\nRemainAfterExit=yes\n[Install]\nWantedBy=multi-user.target\n",
		"lib/systemd/system/inst@.service":              "[Service]\nUser=%i\nExecStart=/bin/inst --name %i\n[Install]\nWantedBy=multi-user.target\nDefaultInstance=main\n",
		"lib/systemd/system/sock.service":               "[Service]\nUser=a\nExecStart=/bin/sock\n",
		"lib/systemd/system/sock.socket":                "[Socket]\nListenStream=/run/s.sock\nListenStream=8080\nListenDatagram=127.0.0.1:53\nSocketMode=0600\nFileDescriptorName=s\n[Install]\nWantedBy=sockets.target\n",
		"lib/systemd/system/clean.service":              "[Service]\nUser=a\nExecStart=/bin/clean\nTimeoutStopSec=infinity\n",
		"lib/systemd/system/clean.timer":                "[Timer]\nOnCalendar=Mon..Fri *-*-* 03:05:00\nPersistent=yes\nRandomizedDelaySec=5m\nOnBootSec=1h\n",
		"etc/systemd/system/db.service":                 "[Service]\nUser=pg\nExecStart=/usr/bin/db -F\n",
		"etc/systemd/system/masked.service":             "",
		"etc/systemd/system/x.mount":                    "[Mount]\nWhat=/x\n",
	})
	if err := os.MkdirAll(filepath.Join(dir, "etc/systemd/system/multi-user.target.wants"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/lib/systemd/system/inst@.service", filepath.Join(dir, "etc/systemd/system/multi-user.target.wants/inst@alice.service")); err != nil {
		t.Fatal(err)
	}
	r := read(t, dir, ".")
	r.holds(t, "services/web/command", `[sh, -c, 'set -f; /usr/bin/test -e /x || :; exec /usr/bin/web --opt $$OPTS $$OPTS "$${A}"b 100% ''$$''5 --name web.service']`)
	r.holds(t, "services/web/user", "site")
	r.holds(t, "services/web/group", "web")
	r.holds(t, "services/web/environment", `{ONE: two words, TWO: $$x}`)
	r.holds(t, "services/web/env_file", "['?/etc/default/web']")
	r.holds(t, "services/web/ready", "{notify: true, timeout: 90s}")
	r.holds(t, "services/web/restart", "{policy: on-failure, delay: 123s, factor: 1, jitter: 0, reset_after: 24h, limit: 5, window: 10s, retry_failed: 0}")
	r.holds(t, "services/web/exits", "{restart: [3, 4], success: [0, 75], fatal: []}")
	r.holds(t, "services/web/stop", "{signal: QUIT, kill: main, timeout: 90s}")
	r.holds(t, "services/web/watchdog", "20s")
	r.holds(t, "services/web/limits", `{memory: 1GiB, pids: 50, cpu: 1.5, nofile: "1024:unlimited"}`)
	r.holds(t, "services/web/sandbox", "{capabilities: [NET_BIND_SERVICE]}")
	r.holds(t, "services/web/isolation", "{level: profile, write: [/var/lib/web, /var/log/web]}")
	r.holds(t, "services/web/requires", "[db]")
	r.holds(t, "services/db/command", "[/usr/bin/db, -F]")
	r.holds(t, "services/late/command", "[sh, -c, '/bin/a || exit; /bin/b || :; exec /bin/c']")
	r.holds(t, "services/late/after", "[web]")
	r.holds(t, "gateways/inst/command", "[/bin/inst, --name, '${PROFILE}']")
	r.holds(t, "services/sock/sockets", "[{listen: unix:/run/s.sock, name: s}, {listen: tcp:0.0.0.0:8080, name: s}, {listen: udp:127.0.0.1:53, name: s}]")
	r.holds(t, "services/clean/schedule", "{cron: 5 3 * * MON-FRI, catch_up: one, jitter: 300s}")
	r.holds(t, "services/clean/type", "oneshot")
	web := "lib/systemd/system/web.service:"
	r.names(t, web+"3: After gone.service: ", web+"10: EnvironmentFile: ", web+"12: ExecStartPre: + and !: ", web+"13: ExecStart: @: ", web+"16: ExecReload: ", web+"20: SuccessExitStatus: SIGKILL ",
		web+"30: Frobnicate: ", web+"34: Alias: ", "lib/systemd/system/db.service: db.service: a unit of that name", "etc/systemd/system/masked.service: masked.service: ", "etc/systemd/system/x.mount: x.mount: ",
		"etc/systemd/system/multi-user.target.wants/inst@alice.service: inst@alice.service: an instance is a profile", "lib/systemd/system/inst@.service:2: User: ", "lib/systemd/system/inst@.service:6: DefaultInstance: ",
		"lib/systemd/system/sock.socket:5: SocketMode: ", "lib/systemd/system/clean.timer:5: OnBootSec: ", "lib/systemd/system/clean.service:4: TimeoutStopSec: ")
	r.silent(t, "network.target", "ExecStop: ")
}

func TestS6(t *testing.T) {
	dir := tree(t, map[string]string{
		"etc/services.d/web/run":                         "#!/usr/bin/with-contenv bash\nexec s6-setuidgid www web\n",
		"etc/services.d/web/finish":                      "#!/bin/sh\nexec s6-svscanctl -t /var/run/s6/services\n",
		"etc/services.d/web/down":                        "",
		"etc/services.d/web/timeout-kill":                "2500\n",
		"etc/services.d/web/log/run":                     "#!/bin/sh\nexec s6-log n5 s9000 /var/log/web\n",
		"etc/services.d/web/mystery":                     "x",
		"etc/cont-init.d/01-a":                           "#!/usr/bin/with-contenv sh\nprintf x > /var/run/s6/container_environment/A\n",
		"etc/s6-overlay/s6-rc.d/user/contents.d/api":     "",
		"etc/s6-overlay/s6-rc.d/user/contents.d/lost":    "",
		"etc/s6-overlay/s6-rc.d/api/type":                "longrun\n",
		"etc/s6-overlay/s6-rc.d/api/run":                 "#!/command/execlineb -P\nfoo -d 3\n",
		"etc/s6-overlay/s6-rc.d/api/notification-fd":     "3\n",
		"etc/s6-overlay/s6-rc.d/api/dependencies.d/both": "",
		"etc/s6-overlay/s6-rc.d/both/type":               "bundle\n",
		"etc/s6-overlay/s6-rc.d/both/contents":           "one\ntwo\n",
		"etc/s6-overlay/s6-rc.d/one/type":                "oneshot\n",
		"etc/s6-overlay/s6-rc.d/one/up":                  "/etc/s6-overlay/scripts/one arg\n",
		"etc/s6-overlay/s6-rc.d/one/down":                "rm /x\n",
		"etc/s6-overlay/scripts/one":                     "#!/command/with-contenv sh\ns6-svc -d /run/service/x\n",
		"etc/s6-overlay/s6-rc.d/two/type":                "oneshot\n",
		"etc/s6-overlay/s6-rc.d/two/up":                  "if { test -e /x } mkdir /y\n",
		"etc/s6-overlay/s6-rc.d/two/dependencies.d/base": "",
		"etc/s6-overlay/s6-rc.d/idle/type":               "longrun\n",
		"etc/s6-overlay/s6-rc.d/idle/run":                "#!/bin/sh\nsleep 1\n",
		"etc/s6-overlay/s6-rc.d/bad/type":                "longrum\n",
	})
	r := read(t, dir, ".")
	r.holds(t, "user", "www")
	r.holds(t, "services/web/command", "[bash, /etc/services.d/web/run]")
	r.holds(t, "services/web/enabled", "false")
	r.holds(t, "services/web/stop", "{kill: main, timeout: 2.5s}")
	r.holds(t, "services/web/log", "{max_files: 5, max_size: 9000}")
	r.holds(t, "main", "{exit_on: web}")
	r.holds(t, "services/api/requires", "[one, two]")
	r.holds(t, "services/api/ready", "{exec: [test, -s, '${RLMINIT_HOME}/ready/api/fd'], timeout: 1h}")
	r.holds(t, "services/one/command", "[sh, /etc/s6-overlay/scripts/one, arg]")
	r.holds(t, "services/two/command", "[execlineb, -P, -c, 'if { test -e /x } mkdir /y']")
	r.holds(t, "services/idle/enabled", "false")
	r.names(t, "etc/services.d/web/run:2: s6-setuidgid: ", "etc/services.d/web/finish:1: finish: ", "etc/services.d/web/log/run:2: log: ", "etc/services.d/web/mystery:1: mystery: ",
		"etc/cont-init.d/01-a:2: /var/run/s6/container_environment: ", "etc/s6-overlay/s6-rc.d/user: user/lost: ", "etc/s6-overlay/s6-rc.d/one/down:1: down: ", "etc/s6-overlay/scripts/one:2: s6-svc: ",
		"etc/s6-overlay/s6-rc.d/two/up:1: execlineb: ", "etc/s6-overlay/s6-rc.d/api/run:1: execlineb: ", "etc/s6-overlay/s6-rc.d/bad/type:1: bad: ")
}

// What people have in run: other programs that change the user, and that say when it is ready.
func TestS6Words(t *testing.T) {
	files := map[string]string{
		"etc/s6-overlay/s6-rc.d/late/dependencies.d/legacy-services": "",
		"etc/s6-overlay/s6-rc.d/checked/data/check":                  "#!/usr/bin/env -S with-contenv bash\ncurl -s localhost\n",
		"etc/s6-overlay/user-bundles.d/user/contents.d/checked":      "",
		"etc/s6-overlay/s6-rc.d/user/contents.d/asked":               "",
		"etc/s6-overlay/user-bundles.d/user2/contents.d/late":        "",
		"etc/services.d/old/env/LOCAL":                               "x\n",
		"etc/services.d/old/timeout-kill":                            "60000\n",
	}
	for name, line := range map[string]string{
		"checked": "exec \\\n  s6-notifyoncheck -d -n 300 -w 1000 \\\n  s6-setuidgid abc app", "asked": "exec s6-notifyoncheck -d -3 4 -c \"nc -z localhost ${PORT}\" s6-setuidgid abc app",
		"simple": "exec s6-notifyoncheck -c'nc -z localhost 80' -d app", "silent": "exec app --port 3000", "unasked": "exec s6-notifyoncheck app",
		"applied": "exec s6-applyuidgid -u 12 -g 13 app", "variable": `exec su-exec "${PUID}:${PGID}" app`, "chpst": "exec chpst -e /env -u www:web app", "su": `exec su -s /bin/sh www -c "app"`,
		"setpriv": "exec setpriv --reuid=33 --regid 34 app", "sudo": "exec sudo -E -u www app", "late": "exec app",
	} {
		files["etc/s6-overlay/s6-rc.d/"+name+"/type"] = "longrun\n"
		files["etc/s6-overlay/s6-rc.d/"+name+"/run"] = "#!/command/with-contenv bash\n" + line + "\n"
		files["etc/s6-overlay/s6-rc.d/"+name+"/notification-fd"] = "3\n"
	}
	files["etc/services.d/old/run"] = "#!/bin/sh\nexec s6-envdir env sh -c 's6-svc -d /run/service/late'\n"
	r := read(t, tree(t, files), ".")
	r.holds(t, "services/checked/ready", "{exec: [bash, /etc/s6-overlay/s6-rc.d/checked/data/check], timeout: 1h}")
	r.holds(t, "services/asked/ready", "{exec: [sh, -c, 'nc -z localhost $${PORT}'], timeout: 1h}")
	r.holds(t, "services/simple/ready", "{exec: [nc, -z, localhost, '80'], timeout: 1h}")
	for name, user := range map[string]string{"applied": "'12'", "chpst": "www", "su": "www", "sudo": "www", "setpriv": "'33'", "variable": "", "asked": "", "checked": ""} {
		if user == "www" || name == "applied" || name == "setpriv" {
			r.holds(t, "services/"+name+"/user", user)
			r.names(t, "etc/s6-overlay/s6-rc.d/"+name+"/run:2: ")
		}
		if strings.Contains(r.left, "/"+name+"/run:1: root: ") {
			t.Errorf("%s is named as root in\n%s", name, r.left)
		}
	}
	r.holds(t, "user", "abc")
	r.holds(t, "services/silent/ready", "")
	r.holds(t, "services/unasked/ready", "")
	r.holds(t, "services/old/after", "[asked, checked]")
	r.holds(t, "services/late/after", "[asked, checked, old]")
	r.holds(t, "services/late/enabled", "")
	r.holds(t, "services/simple/enabled", "false")
	r.holds(t, "stop_timeout", "61s")
	r.names(t, "etc/s6-overlay/s6-rc.d/silent/notification-fd:1: notification-fd: run has no word", "etc/s6-overlay/s6-rc.d/unasked/run:2: s6-notifyoncheck: there is no data/check",
		"etc/s6-overlay/s6-rc.d/variable/run:2: su-exec: ", "etc/s6-overlay/s6-rc.d/asked/run:2: s6-notifyoncheck -c: ", "etc/services.d/old/run:2: s6-envdir: ", "etc/services.d/old/run:2: s6-svc: ",
		"etc/services.d/old/run:1: stop.timeout 60s: ")
}

func TestRecognise(t *testing.T) {
	dir := tree(t, map[string]string{
		"a/supervisord.conf": "[supervisord]\n", "b/web.service": "[Service]\n", "c/docker-compose.yml": "services: {}\n", "d/Procfile": "a: b\n", "e/web/run": "#!/bin/sh\n", "f/x.txt": "nothing",
	})
	for path, want := range map[string]string{"a": "supervisord", "a/supervisord.conf": "supervisord", "b": "systemd", "c/docker-compose.yml": "compose", "d": "procfile", "e": "s6", "e/web": "s6"} {
		full := filepath.Join(dir, path)
		files, err := move.NewTree("", []string{full})
		if err != nil {
			t.Fatal(err)
		}
		if s, err := Recognise(files, []string{full}); err != nil || s.Name != want {
			t.Errorf("%s: %v, %v; want %s", path, s, err, want)
		}
	}
	for _, paths := range [][]string{{"f"}, {"f/x.txt"}, {"a", "b"}} {
		for i := range paths {
			paths[i] = filepath.Join(dir, paths[i])
		}
		files, err := move.NewTree("", paths)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := Recognise(files, paths); err == nil {
			t.Errorf("%q is %s", paths, s.Name)
		}
	}
	if names := Names(); !slices.Equal(names, []string{"s6", "supervisord", "compose", "systemd", "procfile"}) {
		t.Errorf("%q", names)
	}
}
