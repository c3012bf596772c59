package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
	"rlminit/tests/contract"
)

// where is a place that allows less than a container usually does.
type where struct {
	options []string
	user    box.User
	says    []string // what cannot be had there: each once, in one line
	nothing bool     // the volume cannot be written to
}

// filtered writes a seccomp profile that refuses system calls, and perhaps clone
// with CLONE_PIDFD, and returns the option that names it. The engine's client
// reads it.
func filtered(t *testing.T, errno int, pidfds bool, calls ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "seccomp.json")
	rules := fmt.Sprintf(`{"names":["%s"],"action":"SCMP_ACT_ERRNO","errnoRet":%d}`, strings.Join(calls, `","`), errno)
	if pidfds {
		rules += fmt.Sprintf(`,{"names":["clone"],"action":"SCMP_ACT_ERRNO","errnoRet":%d,"args":[{"index":0,"value":%d,"valueTwo":%[2]d,"op":"SCMP_CMP_MASKED_EQ"}]}`,
			unix.EPERM, unix.CLONE_PIDFD)
	}
	profile := fmt.Sprintf(`{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[%s]}`, rules)
	if err := os.WriteFile(file, []byte(profile), 0o644); err != nil {
		t.Fatal(err)
	}
	return "seccomp=" + file
}

func places(t *testing.T) map[string]where {
	someone := box.User{UID: 12345, GID: 0}
	const (
		ignored  = "is ignored: rlminit was started as uid"
		untagged = "setgroups is not allowed"
	)
	two := []string{"--cap-drop", "ALL", "--cap-add", "SETUID", "--cap-add", "SETGID"}
	pidfd := []string{"pidfd_open", "pidfd_send_signal", "pidfd_getfd"}
	oldCalls := append(slices.Clone(pidfd), "clone3", "openat2", "close_range", "faccessat2", "statx", "renameat2")
	return map[string]where{
		"a uid without an entry": {options: []string{"--user", "12345:0", "--tmpfs", "/data:uid=12345"}, user: someone, says: []string{ignored, untagged}},
		"somebody else's volume": {options: []string{"--user", "12345:0"}, user: someone, says: []string{ignored, untagged, "cannot write /data: owned by uid 1000, services run as 12345; as root: chown -R 12345:0 /data, or use docker run --user 1000:1000"}, nothing: true},
		"read-only":              {options: []string{"--read-only", "--tmpfs", "/run", "--tmpfs", "/data:uid=1000,gid=1000"}},
		"nothing writable":       {options: []string{"--read-only"}, says: []string{"cannot write /data: read-only file system"}, nothing: true},
		"run is noexec":          {options: []string{"--tmpfs", "/run:noexec,mode=0755"}},
		"a user without any":     {options: []string{"--cap-drop", "ALL", "--user", "1000:1000"}, says: []string{ignored, untagged}},
		"two capabilities":       {options: two, says: []string{"no CAP_SETPCAP", "no CAP_KILL"}},
		"two, read-only":         {options: append(slices.Clone(two), "--read-only", "--tmpfs", "/data:uid=1000,gid=1000"), says: []string{"no CAP_SETPCAP", "no CAP_KILL"}},
		"no-new-privileges":      {options: []string{"--security-opt", "no-new-privileges"}},
		"below another init":     {options: []string{"--init"}},
		"the host's pids":        {options: []string{"--pid", "host"}},
		"64 descriptors":         {options: []string{"--ulimit", "nofile=64:64"}},
		"pidfd is not permitted": {options: []string{"--security-opt", filtered(t, int(unix.EPERM), true, pidfd...)}, says: []string{"pidfd is refused"}},
		"an old filter":          {options: []string{"--security-opt", filtered(t, int(unix.ENOSYS), true, oldCalls...)}, says: []string{"pidfd is refused"}},
		"only calls are refused": {options: []string{"--security-opt", filtered(t, int(unix.ENOSYS), false, oldCalls...)}},
	}
}

// lacks are the lines in which PID 1 says what it does without.
var lacks = regexp.MustCompile(`(?m)^rlminit: .*(ignored|not allowed|cannot write /data|no CAP_|refused|no /proc).*$`)

// TestWhere: in each place profiles and services run, are stopped and started,
// and the container ends in time; what cannot be had is said once, and strict
// makes it a refusal.
func TestWhere(t *testing.T) {
	t.Parallel()
	for name, c := range places(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.user == (box.User{}) {
				c.user = box.Service
			}
			spec := box.Spec{
				Config: contract.Services(`sleeper: {command: [sleep, infinity]}`,
					`deaf: {command: [nasty, deaf], stop: {timeout: 300ms}}`, `env: {type: oneshot, command: [env]}`),
				Docker: c.options,
			}
			b := startImage(t, built.based, spec)
			healthy(b, c.user)
			lives(t, b, c)
			if c.user.UID == 12345 {
				b.FailsAs(box.Root, 5, "you are uid 0, rlminit runs as uid 12345; use docker exec -u 12345", "status")
				b.FailsAs(box.Stranger, 5, "you are uid 10000, rlminit runs as uid 12345; use docker exec -u 12345", "status")
				b.FailsAs(box.Stranger, 5, "you are uid 10000, services run as 12345", "exec", "--", "id")
			}
			began := time.Now()
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}
			if code, err := b.Ended(time.Second); err != nil || code != 0 || time.Since(began) > 9500*time.Millisecond {
				t.Errorf("exit code %d, %v, after %s", code, err, time.Since(began))
			}
			said := lacks.FindAllString(b.Printed(), -1)
			said = slices.DeleteFunc(said, func(line string) bool {
				return strings.Contains(line, "cannot write a log") || strings.Contains(line, "cannot write logs")
			})
			for _, want := range c.says {
				found := slices.DeleteFunc(slices.Clone(said), func(line string) bool { return !strings.Contains(line, want) })
				if len(found) != 1 {
					t.Errorf("%q is said %d times in %q", want, len(found), said)
				}
			}
			if len(said) != len(c.says) {
				t.Errorf("it says %q, want %q", said, c.says)
			}

			spec.Env = []string{"RLMINIT_STRICT=true"}
			b = startImage(t, built.based, spec)
			if len(c.says) == 0 {
				healthy(b, c.user)
				return
			}
			code, err := b.Ended(answerTimeout)
			if out := b.Printed(); err != nil || code != 78 || !strings.Contains(out, "strict is set") {
				t.Errorf("strict: exit code %d, %v, printed %q", code, err, out)
			}
		})
	}
}

func healthy(b *box.Box, user box.User) {
	b.Helper()
	box.Eventually(b, answerTimeout, "rlminit answers", func() (bool, any) {
		r, err := b.Exec(user, nil, []string{"rlminit", "health"})
		return err == nil && r.Code == 0, fmt.Sprint(r, err)
	})
}

// lives goes through the life of a profile and of services.
func lives(t *testing.T, b *box.Box, c where) {
	t.Helper()
	must := func(args ...string) string {
		t.Helper()
		r := b.As(c.user, append([]string{"rlminit"}, args...)...)
		if r.Code != 0 {
			t.Fatalf("%s: %s", args, r)
		}
		return r.Out
	}
	names := []string{"sleeper", "deaf", "alice"}
	if c.nothing {
		names = names[:2]
		if r := b.As(c.user, "rlminit", "profile", "create", "alice"); r.Code != 1 || !strings.Contains(r.Err, "cannot write /data") {
			t.Errorf("create: %s", r)
		}
	} else {
		must("profile", "create", "alice")
	}
	for _, name := range names {
		must("wait", name, "--for", "running", "--timeout", "20s")
	}
	if c.nothing {
		unrecorded(b, c, names)
	} else {
		must(append([]string{"restart"}, names...)...)
		must(append([]string{"stop"}, names...)...)
		must(append([]string{"start"}, names...)...)
	}
	must("wait", "env", "--for", "stopped", "--timeout", "20s")
	home, user := "/data", "app"
	if c.user.UID == 12345 {
		user = "12345"
	}
	for _, want := range []string{"HOME=" + home, "USER=" + user} {
		if out := must("logs", "env"); !strings.Contains(out, want+"\n") {
			t.Errorf("no %s in %q", want, out)
		}
	}
}

// unrecorded: where nothing can be recorded a command is refused, and nothing is
// done; a stop is carried out, for this container alone, and says so.
func unrecorded(b *box.Box, c where, names []string) {
	b.Helper()
	pid := func() string {
		return regexp.MustCompile(`"pid": *[0-9]+`).FindString(b.As(c.user, "rlminit", "status", "sleeper", "--json").Out)
	}
	before := pid()
	for _, verb := range []string{"restart", "start"} {
		if r := b.As(c.user, append([]string{"rlminit", verb}, names...)...); r.Code != 1 || !strings.Contains(r.Err, "nothing was done") {
			b.Errorf("%s: %s", verb, r)
		}
	}
	if now := pid(); now != before || now == "" {
		b.Errorf("sleeper had %s, and after refused commands %s", before, now)
	}
	if r := b.As(c.user, append([]string{"rlminit", "stop"}, names...)...); r.Code != 1 || r.Err == "" {
		b.Errorf("stop: %s", r)
	}
	if r := b.As(c.user, "rlminit", "wait", "sleeper", "--for", "stopped", "--timeout", "20s"); r.Code != 0 {
		b.Errorf("wait: %s", r)
	}
}

// TestRootWithoutCapabilities: root that cannot become the configured user does
// not start, and names what is missing.
func TestRootWithoutCapabilities(t *testing.T) {
	t.Parallel()
	b := startImage(t, built.based, box.Spec{Config: contract.Config(), Docker: []string{"--cap-drop", "ALL"}})
	code, err := b.Ended(answerTimeout)
	if out := b.Printed(); err != nil || code != 78 || !strings.Contains(out, "CAP_SETUID") || !strings.Contains(out, "--cap-add SETUID") {
		t.Errorf("exit code %d, %v, printed %q", code, err, out)
	}
}

// TestFewPIDs: where the runtime could not have its threads, one line says so.
func TestFewPIDs(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"5", "8", "14", "20", "40", "63"} {
		spec := box.Spec{Config: contract.Config(), Main: []string{"sleep", "0.2"}, Docker: []string{"--pids-limit", limit, "--network", "none"}}
		b := startImage(t, built.based, spec)
		code, err := b.Ended(answerTimeout)
		want := "rlminit: cannot start: the pids limit of this container is " + limit + ", and rlminit needs 64; raise --pids-limit\n"
		if out := b.Printed(); err != nil || code != 1 || out != want {
			t.Errorf("exit code %d, %v, printed %q", code, err, out)
		}
	}
	spec := box.Spec{Config: contract.Config(), Main: []string{"sleep", "0.2"}, Docker: []string{"--pids-limit", "64", "--network", "none"}}
	b := startImage(t, built.based, spec)
	if code, err := b.Ended(answerTimeout); err != nil || code != 0 || strings.Contains(b.Printed(), "runtime:") {
		t.Errorf("with 64: exit code %d, %v, printed %q", code, err, b.Printed())
	}
}

// TestNoRuntimeDirectory: where rlminit can be reached nowhere, it says so.
func TestNoRuntimeDirectory(t *testing.T) {
	t.Parallel()
	b := startImage(t, built.based, box.Spec{Config: contract.Config(), Docker: []string{"--read-only", "--ipc", "none"}})
	code, err := b.Ended(answerTimeout)
	if out := b.Printed(); err != nil || code != 1 || !strings.Contains(out, "rlminit: cannot use the runtime directory /run/rlminit: read-only file system; mount a tmpfs there") {
		t.Errorf("exit code %d, %v, printed %q", code, err, out)
	}
}

// TestSharedPIDNamespace: in a PID namespace that others live in too, nothing
// but its own processes is touched, however it ends.
func TestSharedPIDNamespace(t *testing.T) {
	t.Parallel()
	neighbour := startImage(t, built.pure, box.Spec{Main: []string{"bash", "-c", "sleep 1111 & (setsid sleep 2222 &) ; nasty deaf"}})
	others := func() string {
		return neighbour.Shell(box.Root, "pgrep -x sleep | sort -n; pgrep -x nasty; echo")
	}
	var before string
	box.Eventually(t, answerTimeout, "the neighbour runs", func() (bool, any) {
		before = others()
		return strings.Count(before, "\n") == 4, before
	})
	namespace := []string{"--pid", "container:" + neighbour.Place.(*Place).name}
	for name, end := range map[string]unix.Signal{"TERM": unix.SIGTERM, "QUIT": unix.SIGQUIT} {
		t.Run(name, func(t *testing.T) {
			b := startImage(t, built.based, box.Spec{
				Config: contract.Services(`stray: {command: [nasty, stray]}`, `deaf: {command: [nasty, deaf], stop: {timeout: 1s}}`),
				Docker: namespace,
			})
			awaitAnswer(b)
			b.Must("profile", "create", "alice")
			b.Await("gateway-alice", "running")
			b.Await("stray", "running")
			b.Await("deaf", "running")
			if err := b.Signal(int(end)); err != nil {
				t.Fatal(err)
			}
			if code, err := b.Ended(12 * time.Second); err != nil || code != 0 {
				t.Errorf("exit code %d, %v", code, err)
			}
			if after := others(); after != before {
				t.Errorf("the neighbour's processes were %q and are %q", before, after)
			}
		})
	}
}

// TestNoProc: without /proc services run, and what is lost is said.
func TestNoProc(t *testing.T) {
	t.Parallel()
	script := `rlminit wait sleeper --for running --timeout 20s && rlminit profile create alice && rlminit restart alice sleeper &&
		rlminit stop alice && rlminit status && exit 42`
	b := startImage(t, built.based, box.Spec{
		Config: contract.Services(`sleeper: {command: [sleep, infinity]}`) + "boot: [{name: first, command: [echo, a boot step]}]\n",
		Docker: []string{"--cap-add", "SYS_ADMIN", "--security-opt", "apparmor=unconfined", "--entrypoint", "nasty"},
		Main:   []string{"unproc", "rlminit", "init", "--", "bash", "-c", untilAnswers + script},
	})
	code, err := b.Ended(60 * time.Second)
	out := b.Printed()
	if err != nil || code != 42 || strings.Count(out, "rlminit: no /proc: ") != 1 || !strings.Contains(out, "a boot step") {
		t.Errorf("exit code %d, %v, printed %q", code, err, out)
	}
}

// untilAnswers begins a script of the main command, which starts beside the
// supervisor.
const untilAnswers = `until rlminit health 2>/dev/null; do sleep 0.1; done; `

// TestClosedDescriptors: whatever of stdin, stdout and stderr is closed, all
// runs, and nothing else takes their numbers.
func TestClosedDescriptors(t *testing.T) {
	t.Parallel()
	for _, closed := range []string{"<&-", ">&-", "2>&-", "<&- >&- 2>&-"} {
		t.Run(closed, func(t *testing.T) {
			t.Parallel()
			b := startImage(t, built.based, box.Spec{
				Config: contract.Services(`sleeper: {command: [sleep, infinity]}`) + "boot: [{name: first, command: [touch, /data/booted]}]\n",
				Docker: []string{"--entrypoint", "bash"},
				Main:   []string{"-c", "exec rlminit init -- bash -c 'test -e /data/booted || exit 1; nasty self >/data/self; nasty sleep' " + closed},
			})
			awaitAnswer(b)
			b.Must("profile", "create", "alice")
			b.Await("gateway-alice", "running")
			b.Await("sleeper", "running")
			for _, p := range b.Processes() {
				if p.PID != 1 && p.Name == "sleep" {
					for fd := range 3 {
						if p.Descriptors[fd] == "" {
							t.Errorf("pid %d: descriptor %d is closed", p.PID, fd)
						}
					}
					if len(p.Descriptors) != 3 {
						t.Errorf("pid %d: %v", p.PID, p.Descriptors)
					}
				}
			}
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestPause: a container that was paused for longer than its supervisor may be
// silent goes on as if nothing had been.
func TestPause(t *testing.T) {
	t.Parallel()
	b := start(t, box.Spec{Config: contract.Config()})
	b.Must("profile", "create", "alice")
	service, supervisor := b.Await("gateway-alice", "running"), b.Supervisor()
	name := b.Place.(*Place).name
	if _, err := must(nil, "pause", name); err != nil {
		t.Fatal(err)
	}
	<-time.After(12 * time.Second) // it is the time that is tested
	if _, err := must(nil, "unpause", name); err != nil {
		t.Fatal(err)
	}
	// As long again as it takes to be replaced for silence.
	began := time.Now()
	box.Eventually(b, 20*time.Second, "seven seconds passed", func() (bool, any) {
		b.Must("health")
		return time.Since(began) > 7*time.Second, nil
	})
	if now := b.Supervisor(); now.PID != supervisor.PID {
		t.Errorf("the supervisor was %d and is %d", supervisor.PID, now.PID)
	}
	if now := b.Status()["gateway-alice"]; now.PID == nil || *now.PID != *service.PID || now.State != "running" {
		t.Errorf("alice: %s", box.Describe(now))
	}
}

// TestCgroup tells which version of cgroup all these tests ran on.
func TestCgroup(t *testing.T) {
	version, err := must(nil, "info", "--format", "{{.CgroupVersion}}")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("figure: this engine has cgroup v%s", version)
}
