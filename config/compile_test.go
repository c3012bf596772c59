package config

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/cgroup"
	"rlminit/wire"
)

// dockerRoot is root as Docker starts it.
func dockerRoot(env vars) Host {
	const capabilities = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_CHOWN | 1<<unix.CAP_NET_BIND_SERVICE
	return Host{Capabilities: capabilities, Environ: env.environ(), Accounts: ParseAccounts(passwd, group)}
}

func TestCompile(t *testing.T) {
	env := vars{"PATH": "/bin", "HOME": "/root", "RLMINIT_X": "y"}
	c := parsed(t, env, `version: 1
user: app
environment: {LANG: C}
main: {command: [agent], working_dir: /srv, stop: {signal: INT, timeout: 3s}, signal_group: true, exits: {success: [3]}}
parent_death: TERM
warn_on_reap: true
verbose: 2
services:
  plain: {command: [plain]}
  same: {command: [same], user: app}
  web:
    command: [web]
    user: www
    groups: [video]
    umask: "077"
    limits: {nofile: "10:20", core: 0}
    sandbox: {capabilities: [net_bind_service]}
    stop: {timeout: 7s}
  bind: {command: [bind], sandbox: {capabilities: [NET_BIND_SERVICE], no_new_privs: false}}
`)
	got, err := Compile(c, dockerRoot(env), nil)
	if err != nil {
		t.Fatal(err)
	}
	app := wire.Identity{UID: 1000, GID: 1000, Groups: []uint32{29, 44}, Name: "app", Home: "/data"}
	www := wire.Identity{UID: 33, GID: 33, Groups: []uint32{29, 44}, Name: "www", Home: "/var/www"}
	environ := func(home, name string) []string {
		return []string{"HOME=" + home, "PATH=/bin", "RLMINIT_HOME=/data", "USER=" + name, "LOGNAME=" + name, "LANG=C"}
	}
	bind := []uint32{unix.CAP_NET_BIND_SERVICE}
	want := wire.Policy{
		Version: wire.Version, User: app, Supervisor: app, TagLow: 50000, TagHigh: 59999, StopNanos: int64(9 * time.Second), Volume: "/data", Profiles: wire.Profiles{Why: "there are no profiles here: the configuration has no gateway section"},
		Main: &wire.Program{
			Name: "main", Argv: []string{"agent"}, Env: environ("/data", "app"), Dir: "/srv", Identity: app, NoNewPrivs: true,
			Umask: 0o022, StopSignal: 2, StopNanos: int64(3 * time.Second),
		},
		Privileged: []wire.Program{
			{
				Name: "bind", Argv: []string{"bind"}, Env: environ("/data", "app"), Identity: app, Capabilities: bind,
				Umask: 0o022, StopSignal: 15, StopNanos: int64(5 * time.Second),
			},
			{
				Name: "web", Argv: []string{"web"}, Env: environ("/var/www", "www"), Identity: www, Capabilities: bind, NoNewPrivs: true,
				Umask: 0o077, StopSignal: 15, StopNanos: int64(7 * time.Second),
				Rlimits: []wire.Rlimit{{Resource: unix.RLIMIT_CORE}, {Resource: unix.RLIMIT_NOFILE, Soft: 10, Hard: 20}},
			},
		},
		SignalGroup: true, Success: []uint32{3}, ParentDeath: 15, WarnOnReap: true, Verbosity: 2,
		Enclosed: true, Opened: []string{"/data/profiles", "/data/.rlminit-sessions"},
	}
	if !reflect.DeepEqual(got.Policy, want) {
		t.Errorf("got  %+v\nmain %+v\nwant %+v\nmain %+v", got.Policy, got.Policy.Main, want, want.Main)
	}
	if len(got.Notes) > 0 {
		t.Errorf("notes: %q", got.Notes)
	}
}

func TestCompileArguments(t *testing.T) {
	c := parsed(t, nil, "version: 1\nuser: app\nmain: {command: [agent]}\n")
	got, err := Compile(c, dockerRoot(vars{"PATH": "/bin:/usr/bin"}), []string{"sh", "-c", "exit 42"})
	if err != nil || !slices.Equal(got.Policy.Main.Argv, []string{"sh", "-c", "exit 42"}) {
		t.Errorf("%+v, %v", got.Policy.Main, err)
	}
	got, err = Compile(c, dockerRoot(nil), []string{"--tui"})
	if err != nil || !slices.Equal(got.Policy.Main.Argv, []string{"agent", "--tui"}) {
		t.Errorf("%+v, %v", got.Policy.Main, err)
	}
	got, err = Compile(parsed(t, nil, "version: 1\nuser: app\n"), dockerRoot(nil), nil)
	if err != nil || got.Policy.Main != nil {
		t.Errorf("%+v, %v", got.Policy.Main, err)
	}
}

func TestMainAsRoot(t *testing.T) {
	c := parsed(t, nil, "version: 1\nuser: app\nmain: {command: [entrypoint], user: root, no_new_privs: false}\n")
	got, err := Compile(c, dockerRoot(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := got.Policy.Main
	if m.Identity.UID != 0 || m.NoNewPrivs || !slices.Contains(m.Env, "HOME=/root") || !slices.Contains(m.Env, "USER=root") {
		t.Errorf("%+v", m)
	}
	if want := []uint32{unix.CAP_CHOWN, unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_NET_BIND_SERVICE}; !slices.Equal(m.Capabilities, want) {
		t.Errorf("gosu could not drop: capabilities %v, want %v", m.Capabilities, want)
	}
}

func TestRemappedIdentity(t *testing.T) {
	c := parsed(t, vars{"RLMINIT_UID": "1500", "PGID": "1600"}, "version: 1\nuser: app\n")
	got, err := Identify(c, dockerRoot(nil))
	want := wire.Identity{UID: 1500, GID: 1600, Groups: []uint32{29, 44}, Name: "app", Home: "/data"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	c = parsed(t, vars{"RLMINIT_UID": "1500"}, "version: 1\nuser: 12345:0\n")
	got, err = Identify(c, dockerRoot(nil))
	want = wire.Identity{UID: 1500, GID: 0, Name: "1500", Home: "/data"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// A limit that nothing enforces is not kept silent about.
func TestLimitsThatAreNotInForce(t *testing.T) {
	const text = `version: 1
user: app
main: {command: [agent], limits: {pids: 20}}
gateway: {command: [agent], limits: {memory: 64MB}}
services: {web: {command: [web], limits: {cpu: 0.5}}, db: {command: [db], limits: {nofile: 20}}}
`
	got, err := Compile(parsed(t, vars{}, text), dockerRoot(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"limits of memory, pids, cpu are not in force for gateway, web, main: it takes a cgroup of its own, and PID 1 can make none here; see rlminit doctor, or limit the container"}
	if !slices.Equal(got.Notes, want) {
		t.Errorf("notes %q", got.Notes)
	}
	host := dockerRoot(nil)
	host.Leaves = cgroup.Leaves{Dir: "/sys/fs/cgroup/services", Controllers: []string{"memory", "pids"}}
	got, err = Compile(parsed(t, vars{}, text), host, nil)
	if err != nil {
		t.Fatal(err)
	}
	want = []string{"limits of cpu are not in force for web: the container's cgroup has no controller for it; see rlminit doctor, or limit the container"}
	if !slices.Equal(got.Notes, want) || got.Policy.Main.Bounds != (wire.Bounds{Pids: 20}) {
		t.Errorf("with cgroups: notes %q, main %+v", got.Notes, got.Policy.Main.Bounds)
	}
	strict := parsed(t, vars{}, text+"strict: true\n")
	if _, err := Compile(strict, dockerRoot(nil), nil); err == nil || !strings.Contains(err.Error(), "not in force") {
		t.Errorf("with strict: %v", err)
	}
}

func TestStartedAsAnotherUser(t *testing.T) {
	c := parsed(t, vars{"RLMINIT_UID": "77"}, `version: 1
user: app
home: /volume
services: {web: {command: [web], user: www, sandbox: {capabilities: [CHOWN]}}}
main: {command: [agent], user: root}
`)
	h := Host{UID: 12345, GID: 0, Groups: []uint32{0, 44}, Accounts: ParseAccounts(passwd, group)}
	got, err := Compile(c, h, nil)
	if err != nil {
		t.Fatal(err)
	}
	id := wire.Identity{UID: 12345, GID: 0, Groups: []uint32{44}, Name: "12345", Home: "/volume"}
	if p := got.Policy; !reflect.DeepEqual(p.User, id) || !reflect.DeepEqual(p.Main.Identity, id) || len(p.Privileged) > 0 {
		t.Errorf("%+v", p)
	}
	want := []string{
		"user app is ignored: rlminit was started as uid 12345",
		"the uid and gid that were asked for are ignored: rlminit was started as uid 12345",
		"services.web: its user and privileges are ignored: rlminit was started as uid 12345",
	}
	if !slices.Equal(got.Notes, want) {
		t.Errorf("notes %q", got.Notes)
	}
	h.UID = 33
	if id, _ := Identify(c, h); id.Name != "www" || id.Home != "/var/www" || id.UID != 33 {
		t.Errorf("of a user with an entry: %+v", id)
	}
	c.Strict = true
	_, err = Compile(c, h, nil)
	if want := "cannot start: user app is ignored: rlminit was started as uid 33; strict is set, so leave it out or make it possible"; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", `cannot start: running as root and no user is set; add "user: app" to /etc/rlminit/rlminit.yaml or use docker run --user`},
		{"user: ap", `cannot start: user "ap" is not in /etc/passwd; did you mean "app"?`},
		{"user: root", `cannot start: user "root" is root, and services never run as root; name another user in /etc/rlminit/rlminit.yaml`},
		{"user: 0:5", `cannot start: user "0:5" is root, and services never run as root; name another user in /etc/rlminit/rlminit.yaml`},
		{"user: app\nservices: {web: {command: [x], user: \"70\", groups: [\"59999\"]}}", "cannot start: services.web: gid 59999 of user 70 lies in tags (50000-59999), which services get one each; set tags to another range"},
		{"user: app\nmain: {command: [x], user: root, group: \"50000\"}", "cannot start: main: gid 50000 of user root lies in tags (50000-59999), which services get one each; set tags to another range"},
		{"user: 1000:50005", "cannot start: gid 50005 of user app lies in tags (50000-59999), which services get one each; set tags to another range"},
		{"user: app\nmain: {command: [x], user: nobody}", `cannot start: main: user "nobody" is not in /etc/passwd; add it there, or write a uid`},
		{"user: app\nservices: {web: {command: [x], user: toor}}", `cannot start: services.web: user "toor" is not in /etc/passwd; add it there, or write a uid`},
		{"user: app\nservices: {web: {command: [x], group: wwww}}", `cannot start: services.web: group "wwww" is not in /etc/group; add it there, or write a gid`},
		{
			"user: app\nservices: {web: {command: [x], sandbox: {capabilities: [SYS_ADMIN]}}}",
			"cannot start: services.web: CAP_SYS_ADMIN is not the container's to give; add --cap-add SYS_ADMIN",
		},
	} {
		_, err := Compile(parsed(t, nil, "version: 1\n"+c.text+"\n"), dockerRoot(nil), nil)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s\n got %v\nwant %s", c.text, err, c.want)
		}
	}
	// A second name for uid 0 is root too.
	h := dockerRoot(nil)
	h.Accounts.Users = append(h.Accounts.Users, User{Name: "toor", Home: "/"})
	_, err := Compile(parsed(t, nil, "version: 1\nuser: app\nservices: {web: {command: [x], user: toor}}\n"), h, nil)
	if want := `cannot start: services.web: user "toor" is root, and only main may run as root; name another user`; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	h.Capabilities = 1 << unix.CAP_SETGID
	_, err = Compile(parsed(t, nil, "version: 1\nuser: app\n"), h, nil)
	if want := "cannot start: becoming user app needs CAP_SETUID, which the container lacks; add --cap-add SETUID or use docker run --user 1000:1000"; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

// openDir is a temporary directory that other users may read.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != "/"; d = d[:max(strings.LastIndex(d, "/"), 1)] {
		if d == os.TempDir() {
			break
		}
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestRootReadsAsTheUser: compiling as root must not read for a user what that
// user could not: the path may be a link of his.
func TestRootReadsAsTheUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root could read too much")
	}
	dir := openDir(t)
	secret := write(t, dir, "shadow", "root only")
	open := write(t, dir, "open", "for all")
	if err := os.Chmod(secret, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, dir+"/token"); err != nil {
		t.Fatal(err)
	}
	host := dockerRoot(nil)
	compile := func(file string) (Compiled, error) {
		return Compile(parsed(t, nil, "version: 1\nuser: app\nmain: {command: [x], environment: {T: {file: "+file+"}}}\n"), host, nil)
	}
	if _, err := compile(dir + "/token"); err == nil || err.Error() != "cannot start: main.environment.T: cannot read "+dir+"/token: permission denied" {
		t.Errorf("%v", err)
	}
	got, err := compile(open)
	if err != nil || !slices.Contains(got.Policy.Main.Env, "T=for all") {
		t.Errorf("%+v, %v", got.Policy.Main, err)
	}
	if _, err := os.ReadFile(secret); err != nil {
		t.Errorf("the process lost its own rights: %v", err)
	}
}

// Everything that is wrong with the files of an environment is said at once, at
// the field that names the file.
func TestEnvironmentOfMain(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to read as another user")
	}
	dir := openDir(t)
	top := write(t, dir, "top.env", "A=1\nbad line\nB=2\nA B=3\n")
	own := write(t, dir, "own.env", "also bad\n")
	c := parsed(t, nil, fmt.Sprintf(`version: 1
user: app
env_file: [%s]
environment: {T: {file: %s/none}}
main: {command: [x], env_file: [%s]}
services: {web: {command: [x], user: nobody-here}, db: {command: [x], user: "1001", env_file: [%s]}}
`, top, dir, own, own))
	_, err := Compile(c, dockerRoot(nil), nil)
	if err == nil {
		t.Fatal("no error")
	}
	want := `cannot start: env_file: cannot read DIR/top.env:2: the line has no =; write NAME=value
cannot start: env_file: cannot read DIR/top.env:4: a variable's name cannot hold a space
cannot start: environment.T: cannot read DIR/none: no such file or directory
cannot start: main.env_file: cannot read DIR/own.env:1: the line has no =; write NAME=value
cannot start: services.db.env_file: cannot read DIR/own.env:1: the line has no =; write NAME=value
cannot start: services.web: user "nobody-here" is not in /etc/passwd; add it there, or write a uid`
	if got := strings.ReplaceAll(err.Error(), dir, "DIR"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// What is made when the volume is in order is what would have been made at once.
func TestEnvironments(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to read as another user")
	}
	for name, main := range map[string]string{"a command": "", "a service": ", restart: always, user: www"} {
		t.Run(name, func(t *testing.T) {
			dir := openDir(t)
			c := parsed(t, nil, fmt.Sprintf(`version: 1
user: app
env_file: [%s/made.env]
main: {command: [x]%s}
services: {db: {command: [y], user: "1001", environment: {TOKEN: {file: %s/token}}}}
`, dir, main, dir))
			host := dockerRoot(nil)
			host.Unprepared = true
			late, err := Compile(c, host, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := Environments(c, host, &late.Policy); err == nil || strings.Count(err.Error(), "\n") != 1 {
				t.Errorf("two files are missing: %v", err)
			}
			write(t, dir, "made.env", "MADE=now\n")
			write(t, dir, "token", "secret\n")
			if err := Environments(c, host, &late.Policy); err != nil {
				t.Fatal(err)
			}
			atOnce, err := Compile(c, dockerRoot(nil), nil)
			if err != nil || !reflect.DeepEqual(late, atOnce) {
				t.Errorf("%+v\nwant\n%+v, %v", late, atOnce, err)
			}
			if env := late.Policy.Privileged[0].Env; !slices.Contains(env, "MADE=now") {
				t.Errorf("%q", env)
			}
		})
	}
}

func TestThisHost(t *testing.T) {
	h, err := ThisHost()
	if err != nil || h.UID != uint32(os.Geteuid()) || len(h.Environ) != len(os.Environ()) {
		t.Errorf("%+v, %v", h, err)
	}
	t.Setenv("RLMINIT_TEST", "x=y")
	h, _ = ThisHost()
	if v, ok := h.Lookup("RLMINIT_TEST"); v != "x=y" || !ok {
		t.Errorf("%q %v", v, ok)
	}
}
