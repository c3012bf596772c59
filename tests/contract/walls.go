package contract

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/control"
	"rlminit/isolate"
	"rlminit/tests/box"
)

// What a gateway tries on another one, each for real. The script ends with 0 where
// it was done. VICTIM is the pid of the other's process, THERE its directory, PORT
// its own port, OTHER a port where something listens that is nobody's of these.
type try struct {
	name    string
	script  string
	profile bool // done at the level profile
	strict  bool
	since   int // Landlock's ABI that holds it; before, it may be done
}

const (
	held = false
	done = true
)

// call is a system call by its number, done if it does not fail with EPERM,
// EACCES or, where the number is denied in another way, ENOSYS.
func call(number int, args string) string {
	return fmt.Sprintf(`perl -e '$! = 0; syscall(%d%s); exit($! == 1 || $! == 13 || $! == 38)'`, number, args)
}

var tries = []try{
	// files
	{"read a file of its own", `cat "$PROFILE_DIR/profile.yaml"`, done, done, 1},
	{"write a file of its own", `echo x >"$PROFILE_DIR/new" && rm "$PROFILE_DIR/new"`, done, done, 1},
	{"write to its TMPDIR", `mktemp`, done, done, 1},
	{"run a program of the image", `sh -c 'ls /usr >/dev/null'`, done, done, 1},
	{"run a program of its own", `cp /bin/true "$PROFILE_DIR/true" && "$PROFILE_DIR/true" && rm "$PROFILE_DIR/true"`, done, done, 1},
	{"use /dev/null", `echo x >/dev/null`, done, done, 1},
	{"read another's file", `cat "$THERE/secret"`, held, held, 1},
	{"write another's file", `echo x >>"$THERE/secret"`, held, held, 1},
	{"truncate another's file", `perl -e 'exit(!truncate($ARGV[0], 100))' "$THERE/secret"`, held, held, 3},
	{"list another's directory", `ls "$THERE"`, held, held, 1},
	{"change the mode of another's file", `chmod 640 "$THERE/secret"`, done, done, 1},
	{"make a file there", `touch "$THERE/new"`, held, held, 1},
	{"remove another's file", `rm -f "$THERE/removable" && ! test -e "$THERE/removable"`, held, held, 1},
	{"move another's directory", `mv "$THERE" "$THERE-moved" && mv "$THERE-moved" "$THERE"`, held, held, 1},
	{"link to another's file and read it", `ln -sf "$THERE/secret" "$PROFILE_DIR/link"; cat "$PROFILE_DIR/link"`, held, held, 1},
	{"hard link to another's file", `ln -f "$THERE/secret" "$PROFILE_DIR/hard"`, held, held, 1},
	{"read by way of /proc/PID/root", `cat "/proc/$VICTIM/root$THERE/secret"`, held, held, 1},
	{"read by way of /proc/PID/cwd", `cat "/proc/$VICTIM/cwd/secret"`, held, held, 1},
	{"list all profiles", `ls "$VOLUME/profiles"`, held, held, 1},
	{"make a profile by hand", `mkdir "$VOLUME/profiles/mallory"`, held, held, 1},
	{"list the volume", `ls "$VOLUME"`, held, held, 1},
	{"read another's log", `cat "$VOLUME/logs/gateways/bob/current"`, held, held, 1},
	{"read the log of boots", `cat "$VOLUME/logs/container-boot.log"`, held, held, 1},
	{"write another's log", `echo x >>"$VOLUME/logs/gateways/bob/current"`, held, held, 1},
	{"read another's status file", `cat /run/rlminit/services/gateway-bob/status.json`, held, held, 1},
	{"put a service into the directory", `mkdir /run/rlminit/services/mallory`, held, held, 1},
	{"read another's secret", `cat /run/rlminit/services/gateway-bob/credentials/KEY`, held, held, 1},
	{"read its own secret", `grep -q precious "$CREDENTIALS_DIRECTORY/KEY"`, done, done, 1},
	{"write to /tmp", `echo x >/tmp/isolation-test && rm /tmp/isolation-test`, held, held, 1},
	{"read another's TMPDIR", `ls "$(readlink /run/rlminit/tmp)/gateway-bob"`, held, held, 1},
	{"write to /var/tmp", `echo x >/var/tmp/isolation-test && rm /var/tmp/isolation-test`, held, held, 1},
	{"write to /dev/shm", `echo x >/dev/shm/isolation-test && rm /dev/shm/isolation-test`, held, held, 1},
	{"write to the image", `touch /usr/local/isolation-test`, held, held, 1},

	// processes
	{"read another's environment", `cat "/proc/$VICTIM/environ" | grep -q .`, held, held, 1},
	{"read another's memory map", `cat "/proc/$VICTIM/maps" | grep -q .`, held, held, 1},
	{"see the numbers of another's descriptors", `ls "/proc/$VICTIM/fd/"`, done, done, 1},
	{"see where they lead", `readlink "/proc/$VICTIM/fd/1"`, held, held, 1},
	{"raise another's OOM score", `echo 900 >"/proc/$VICTIM/oom_score_adj"`, held, held, 1},
	{"signal another", `kill -0 "$VICTIM"`, held, held, 6},
	{"stop another", `kill -STOP "$VICTIM" && kill -CONT "$VICTIM"`, held, held, 6},
	{"signal the supervisor", `kill -0 "$SUPERVISOR"`, held, held, 6},
	{"signal PID 1", `kill -0 1`, held, held, 1},
	{"signal a child of its own", `sleep 9 & kill "$!"`, done, done, 1},
	{"trace another", call(unix.SYS_PTRACE, `, 0x4206, $ENV{VICTIM}+0, 0, 0`), held, held, 1},
	{"trace the supervisor", call(unix.SYS_PTRACE, `, 0x4206, $ENV{SUPERVISOR}+0, 0, 0`), held, held, 1},
	{"read another's memory", call(unix.SYS_PROCESS_VM_READV, `, $ENV{VICTIM}+0, pack("QQ", 4096, 8), 1, pack("QQ", 4096, 8), 1, 0`), held, held, 1},
	{"take a descriptor of another", `perl -e '$p = syscall(434, $ENV{VICTIM}+0, 0); exit($p < 0 || syscall(438, $p, 0, 0) < 0)'`, held, held, 1},
	{"see another's command line", `tr '\0' ' ' <"/proc/$VICTIM/cmdline" | grep -q .`, done, done, 1},
	{"lower another's limits", `prlimit --pid "$VICTIM" --nofile=0:0`, done, held, 1},
	{"renice another", `renice -n 19 -p "$VICTIM"`, done, done, 1},
	{"move another to one processor", `taskset -p 1 "$VICTIM"`, done, done, 1},

	// the control socket, and other sockets
	{"see its own status", `ask GET "/v1/services/gateway-$PROFILE"`, done, done, 1},
	{"stop another by the control socket", `ask POST /v1/services/gateway-bob/stop`, held, held, 1},
	{"listen on its own port", `perl -MIO::Socket::INET -e 'exit(!IO::Socket::INET->new(Listen=>1, LocalAddr=>"127.0.0.1", LocalPort=>$ENV{PORT}))'`, done, done, 1},
	{"listen on another's port", `perl -MIO::Socket::INET -e 'exit(!IO::Socket::INET->new(Listen=>1, LocalAddr=>"127.0.0.1", LocalPort=>$ENV{PORT}+1))'`, done, held, 4},
	{"connect to another's port", `perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr=>"127.0.0.1", PeerPort=>$ENV{PORT}+1); exit($! == 13)'`, done, held, 4},
	{"speak to an abstract socket", `perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack("Sa*", AF_UNIX, "\0rlminit-test")); exit($! == 1)'`, held, held, 6},

	// the kernel
	{"make a user namespace", call(unix.SYS_UNSHARE, `, 0x10000000`), done, held, 1},
	{"make a user namespace by clone", `perl -e '$p = syscall(` + fmt.Sprint(unix.SYS_CLONE) + `, 0x10000011, 0, 0, 0, 0); exit(0) if !$p; exit($p < 0)'`, done, held, 1},
	{"ask by clone3", call(unix.SYS_CLONE3, `, 0, 0`), done, held, 1},
	{"set up io_uring", call(unix.SYS_IO_URING_SETUP, `, 1, 0`), done, held, 1},
	{"use userfaultfd", call(unix.SYS_USERFAULTFD, `, 1`), done, held, 1},
	{"use keys", call(unix.SYS_KEYCTL, `, 0, -3, 0`), done, held, 1},
	{"watch performance", call(unix.SYS_PERF_EVENT_OPEN, `, 0, 0, 0, 0, 0`), done, held, 1},
	{"type into a terminal", call(unix.SYS_IOCTL, `, 0, 0x5412, 0`), done, held, 1},
	{"open an exotic socket", call(unix.SYS_SOCKET, fmt.Sprintf(`, %d, 5, 0`, unix.AF_ALG)), done, held, 1},
	{"use multipath TCP", `perl -e '$! = 0; syscall(` + fmt.Sprint(unix.SYS_SOCKET) + `, 2, 1, 262); exit($! == 1)'`, done, held, 1},
	{"compare processes", call(unix.SYS_KCMP, `, 0, 0, 9, 0, 0`), done, held, 1},
}

// heldByUser are the tries that a user of each profile's own is enough to hold, at no
// isolation at all.
var heldByUser = []string{
	"read another's file", "write another's file", "truncate another's file", "list another's directory", "change the mode of another's file", "make a file there",
	"remove another's file", "move another's directory", "link to another's file and read it", "hard link to another's file",
	"read by way of /proc/PID/root", "read by way of /proc/PID/cwd", "list all profiles", "make a profile by hand",
	"read another's log", "read the log of boots", "write another's log", "put a service into the directory", "read another's secret",
	"read another's TMPDIR", "write to the image", "read another's environment", "read another's memory map",
	"see the numbers of another's descriptors", "see where they lead", "raise another's OOM score", "signal another", "stop another",
	"signal the supervisor", "signal PID 1", "trace another", "trace the supervisor", "read another's memory",
	"take a descriptor of another", "lower another's limits", "renice another", "move another to one processor",
	"stop another by the control socket",
}

// WallsHold: what one gateway can do to another, at each level.
func WallsHold(t *testing.T, start New) {
	if isolate.Capable().Landlock == 0 {
		t.Skip("this kernel offers no Landlock")
	}
	without := map[string]bool{} // what can be done where there are no walls
	for _, level := range []isolate.Level{isolate.None, isolate.Profile, isolate.Strict} {
		t.Run(string(level), func(t *testing.T) { walls(t, start, level, "", without) })
	}
	t.Run("none, with users of their own", func(t *testing.T) { walls(t, start, isolate.None, "user: auto", without) })
}

// attack is the gateway of both: bob is the victim, alice makes every attempt.
const attack = `exec 2>/dev/null
trap 'exit 0' TERM
if [ "$PROFILE" = bob ]; then
	cd "$PROFILE_DIR" && echo precious >secret && echo x >removable
	exec perl -MSocket -e '$^F = 99; socket(S, AF_UNIX, SOCK_STREAM, 0); bind(S, pack("Sa*", AF_UNIX, "\0rlminit-test")); listen(S, 5);
		exec {"sleep"} "the-victim", "99999"'
fi
find() { for p in /proc/[0-9]*; do tr '\0' ' ' <"$p/cmdline" | grep -q "^$1" && basename "$p" && return; done; }
until VICTIM=$(find the-victim); [ -n "$VICTIM" ]; do sleep 0.05; done
SUPERVISOR=$(find 'rlminit supervise')
THERE=$(dirname "$PROFILE_DIR")/bob
export VICTIM SUPERVISOR THERE
ask() { perl -MIO::Socket::UNIX -e '
	$s = IO::Socket::UNIX->new(Peer => "/run/rlminit/control.sock") or exit 1;
	print $s "$ARGV[0] $ARGV[1] HTTP/1.0\r\nHost: x\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}";
	exit(<$s> !~ m{^HTTP/1.\S+ 2})' "$@"; }
attempt() { if ( eval "$2" ) >/dev/null </dev/null; then echo "done: $1"; else echo "held: $1"; fi; }
`

func walls(t *testing.T, start New, level isolate.Level, users string, without map[string]bool) {
	b := start(t, box.Spec{Config: fmt.Sprintf(`version: 1
user: "1000:1000"
gateway:
  %s
  initial_state: stopped
  command: [bash, "${PROFILE_DIR}/attack"]
  environment: {VOLUME: "${RLMINIT_HOME}"}
  isolation: %s
  secrets: {KEY: {file: "${RLMINIT_HOME}/key"}}
  stop: {timeout: 1s}
`, users, level)})
	script := attack
	for _, a := range tries {
		script += fmt.Sprintf("attempt %s %s\n", quote(a.name), quote(a.script))
	}
	script += "echo through\nsleep 99999 & wait\n"
	b.Write(box.Service, b.Home()+"/key", "precious\n")
	if users != "" && !separable(b) {
		return
	}
	for _, name := range []string{"bob", "alice"} {
		b.Must("profile", "create", name)
		r, err := b.Exec(box.Service, strings.NewReader(script), []string{"rlminit", "file", "write", "--profile", name, "attack"})
		if err != nil || r.Code != 0 {
			t.Fatalf("%v, %s", err, r)
		}
		b.Must("start", name)
	}
	box.Eventually(b, 2*long, "all was tried", func() (bool, any) {
		r := b.Run("logs", "alice", "-n", "1000")
		return strings.Contains(r.Out, "out through"), r
	})
	said := b.Must("logs", "alice", "-n", "1000")
	abi, open := isolate.Capable().Landlock, 0
	for _, a := range tries {
		was := strings.Contains(said, "out done: "+a.name+"\n")
		if !was && !strings.Contains(said, "out held: "+a.name+"\n") {
			t.Errorf("%s: nothing is said of it", a.name)
		}
		want := a.profile
		if level == isolate.Strict {
			want = a.strict
		}
		switch {
		case users != "":
			if was && slices.Contains(heldByUser, a.name) {
				t.Errorf("%s: done, though each has a user of its own", a.name)
			}
		case level == isolate.None:
			without[a.name] = was
			if was && !a.strict {
				open++
			}
		case was && !want && abi < a.since: // documented
		case want && !was && !without[a.name] && !a.strict: // the container's engine denies it to all
		case was != want:
			t.Errorf("%s: done is %v at the level %s", a.name, was, level)
		}
	}
	// Or else nothing was attempted in earnest.
	if level == isolate.None && users == "" && open < 20 {
		t.Errorf("only %d of the attempts work without walls:\n%s", open, said)
	}
	b.Await("gateway-bob", "running")
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// TemporaryFilesAreOnesOwn: whatever a plain service makes in /tmp, an isolated gateway
// starts and has a directory for its temporary files, which goes with it and is empty
// at the next start.
func TemporaryFilesAreOnesOwn(t *testing.T, start New) {
	if isolate.Capable().Landlock == 0 {
		t.Skip("this kernel offers no Landlock")
	}
	for _, users := range []string{"", "auto"} {
		t.Run(users, func(t *testing.T) { temporaryFiles(t, start, users) })
	}
}

func temporaryFiles(t *testing.T, start New, users string) {
	config := `version: 1
user: "1000:1000"
services:
  plain:
    command:
      - bash
      - -c
      - |
        top=$$(readlink /run/rlminit/tmp)
        for name in alice bob; do
          for uid in "" -1000 $$(seq -f -%.0f 50000 50005); do
            mkdir "/tmp/rlminit-gateway-$$name$$uid" "$$top/gateway-$$name$$uid" && echo made "$$top"
            mv "$$top/gateway-$$name$$uid" "$$top/other" && echo moved
          done
        done 2>/dev/null
        echo tried; exec sleep infinity
gateway:
  command: [bash, -c, 'echo x >"$$TMPDIR/file-$$$$" && ls "$$TMPDIR" | wc -l >"$$PROFILE_DIR/seen"; echo "$$TMPDIR" >"$$PROFILE_DIR/where"; exec sleep infinity']
  isolation: profile
`
	if users != "" {
		config += "  user: " + users + "\n"
	}
	b := start(t, box.Spec{Config: config})
	tried := func() {
		b.Await("plain", "running")
		box.Eventually(b, 20*time.Second, "the plain service has tried", func() (bool, any) {
			log := b.Must("logs", "plain")
			return strings.Contains(log, "tried"), log
		})
	}
	file := func(name string) string {
		path := b.Home() + "/profiles/alice/" + name
		return strings.TrimSpace(b.Shell(box.Root, "for i in $(seq 200); do [ -s "+path+" ] && break; sleep 0.1; done; cat "+path+"; rm "+path))
	}
	tried()
	t.Cleanup(func() { b.As(box.Root, "bash", "-c", "rmdir /tmp/rlminit-gateway-{alice,bob}{,-1000,-5000[0-5]}") })
	b.Must("profile", "create", "alice")
	b.Await("gateway-alice", "running")
	where, seen := file("where"), file("seen")
	if !strings.HasPrefix(where, "/tmp/rlminit-") || seen != "1" {
		t.Fatalf("it has %q, and saw %s files", where, seen)
	}
	b.Must("restart", "plain") // which may meet the gateway's, and change nothing of it
	tried()
	b.Must("restart", "alice")
	if again, seen := file("where"), file("seen"); again != where || seen != "2" {
		t.Errorf("started again it has %q, and saw %s files", again, seen)
	}
	if log := b.Must("logs", "plain"); strings.Contains(log, "moved") || strings.Contains(log, "made /tmp/") {
		t.Errorf("the plain service: %s", log)
	}
	b.Must("profile", "create", "bob")
	b.Must("profile", "delete", "--purge", "bob")
	box.Eventually(b, 20*time.Second, "nothing is left of bob's", func() (bool, any) {
		left := b.Shell(box.Root, "ls "+where[:strings.LastIndexByte(where, '/')])
		return !strings.Contains(left, "bob"), left
	})
	b.Must("shutdown")
	b.Again()
	b.Await("gateway-alice", "running")
	if now, seen := file("where"), file("seen"); now == where || seen != "1" {
		t.Errorf("after the next start it has %q, and saw %s files", now, seen)
	}
	box.Eventually(b, 20*time.Second, "nothing is left of the last start's", func() (bool, any) {
		left := b.Shell(box.Root, "ls -d /tmp/rlminit-* 2>/dev/null || true") // others' come and go meanwhile
		return !strings.Contains(left, where[:strings.LastIndexByte(where, '/')]), left
	})
}

// JobsAreIsolated: a job has the walls of its profile's gateway, or those that it
// asks for beyond them, and never fewer.
func JobsAreIsolated(t *testing.T, start New) {
	if isolate.Capable().Landlock == 0 {
		t.Skip("this kernel offers no Landlock")
	}
	b := start(t, box.Spec{Config: `version: 1
user: "1000:1000"
gateway:
  command: [sleep, infinity]
  isolation: profile
`})
	for _, name := range []string{"bob", "alice"} {
		b.Must("profile", "create", name)
	}
	b.Write(box.Service, b.Home()+"/profiles/bob/secret", "precious\n")
	there := b.Home() + "/profiles/bob/secret"
	for _, c := range []struct {
		args      []string
		code      int
		isolation string
	}{
		{[]string{"--", "cat", there}, 0, "none"},
		{[]string{"--isolation", "profile", "--", "cat", there}, 1, "profile"},
		{[]string{"--profile", "bob", "--", "cat", there}, 0, "profile"},
		{[]string{"--profile", "alice", "--", "cat", there}, 1, "profile"},
		{[]string{"--profile", "alice", "--", "bash", "-c", `touch "$HOME/x" && mktemp && [ "$HOME" = "$PROFILE_DIR" ]`}, 0, "profile"},
		{[]string{"--profile", "alice", "--isolation", "strict", "--", "bash", "-c", call(unix.SYS_UNSHARE, ", 0x10000000")}, 1, "strict"},
		{[]string{"--profile", "alice", "--isolation", "none", "--", "true"}, 10, ""},
	} {
		got, code := ran(b, c.args...)
		if code != c.code || c.isolation != "" && got.Isolation != c.isolation {
			t.Errorf("%q: exit code %d, %+v", c.args, code, got)
		}
	}
}

// SecretsAreNotShown: what was given as a secret is where its service finds it and
// nowhere else, and what is one by its name is shown by nobody.
func SecretsAreNotShown(t *testing.T, start New) {
	const given, named = "precious-4711", "precious-0815"
	b := start(t, box.Spec{Config: `version: 1
user: "1000:1000"
gateway:
  exits: {fatal: [78]}
  command: [bash, -c, '[ "$PROFILE" != teller ] || { echo "token $API_TOKEN is refused"; exit 78; }; grep -c precious "$CREDENTIALS_DIRECTORY/KEY"; printenv KEY; echo through; exec sleep infinity']
`})
	b.Write(box.Service, b.Home()+"/given", given)
	b.Must("profile", "create", "alice", "--secret", "KEY=@"+b.Home()+"/given", "--env", "API_TOKEN="+named)
	b.Shell(box.Service, "rm "+b.Home()+"/given")
	logged(b, "alice", "out 1")
	logged(b, "alice", "out through")
	b.Must("profile", "set", "alice", "--env", "OTHER=x", "--restart")
	b.Must("restart", "alice")
	b.Run("run", "--profile", "alice", "--", "true")
	for _, args := range [][]string{
		{"profile", "show", "alice"},
		{"profile", "show", "alice", "--json"},
		{"profile", "list"},
		{"profile", "list", "--json"},
		{"status"},
		{"status", "alice", "--json"},
		{"events"},
		{"events", "--json"},
		{"logs", "alice"},
		{"reload", "--dry-run"},
		{"job", "list", "--json"},
		{"run", "--profile", "alice", "--dry-run", "--json", "--", "true"},
		{"operations", "--json"},
		{"profile", "create", "alice", "--env", "API_TOKEN=" + named},
	} {
		if r := b.Run(args...); strings.Contains(r.Out+r.Err, "precious") {
			t.Errorf("rlminit %q shows a secret: %s", args, r)
		}
	}
	if strings.Contains(b.Printed(), "precious") {
		t.Error("the container's own output shows a secret")
	}
	if r := b.Run("profile", "create", "bob", "--secret", "KEY="+given); r.Code != 2 || strings.Contains(r.Err, given) {
		t.Errorf("a secret on the command line: %s", r)
	}
	// service.yaml and profile.yaml say what its environment is, to its user alone.
	found := b.Shell(box.Root, `grep -rl precious `+b.Home()+` /run/rlminit | sort; find `+b.Home()+`/.rlminit/secrets -type f -perm /077`)
	want := []string{
		b.Home() + "/.rlminit/secrets/alice/1/KEY", b.Home() + "/profiles/alice/profile.yaml",
		b.Home() + "/.rlminit/revisions/1.json", // which a rollback needs
		"/run/rlminit/services/gateway-alice/credentials/KEY", "/run/rlminit/services/gateway-alice/service.yaml",
	}
	if got := strings.Fields(found); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("secrets are in %q", got)
	}
	b.Must("profile", "delete", "alice", "--purge")
	box.Eventually(b, long, "nothing is left", func() (bool, any) {
		r := b.As(box.Root, "bash", "-c", "grep -rl precious "+b.Home()+" /run/rlminit")
		return r.Out == "", r
	})
	// What a service says of its secrets is in its log, and nowhere else.
	b.Run("profile", "create", "teller", "--env", "API_TOKEN="+named)
	refused := func() {
		b.AwaitThat("gateway-teller", "has failed, and its last lines are known", func(s control.Service) bool { return s.State == "failed" && len(s.LastLines) > 0 })
	}
	refused()
	for _, args := range [][]string{{"status", "teller"}, {"status", "teller", "--json"}, {"show", "teller"}, {"events", "--json"}, {"operations", "--json"}, {"start", "teller"}} {
		if r := b.Run(args...); strings.Contains(r.Out+r.Err, named) {
			t.Errorf("rlminit %q shows what a service said of a secret: %s", args, r)
		}
	}
	refused() // once more: the last of these may have seen it run
	if out := b.Must("status", "teller", "--json"); !strings.Contains(out, "token *** is refused") {
		t.Errorf("the last line is not shown: %s", out)
	}
}

// SecretsGoWithTheirProfile: a profile has its secrets at once under another name, and
// whoever takes a name has nothing of what another has left under it.
func SecretsGoWithTheirProfile(t *testing.T, start New) {
	b := start(t, box.Spec{Config: `version: 1
user: "1000:1000"
gateway:
  command: [bash, -c, 'echo "$PROFILE has $(cat "$${CREDENTIALS_DIRECTORY-/nowhere}"/* 2>&1)."; exec sleep infinity']
`})
	kept := b.Home() + "/.rlminit/secrets/"
	has := func(profile, secret string) {
		t.Helper()
		if secret == "" {
			logged(b, profile, profile+" has cat: ") // which finds nothing
		} else {
			logged(b, profile, profile+" has "+secret+".")
		}
		r := b.As(box.Root, "bash", "-c", "cat /run/rlminit/services/gateway-"+profile+"/credentials/*")
		if r.Out != secret {
			t.Errorf("%s was given %s, want %q", profile, r, secret)
		}
	}
	keeps := func(want ...string) {
		t.Helper()
		if got := strings.Fields(b.Shell(box.Root, "ls "+kept)); !slices.Equal(got, want) {
			t.Errorf("secrets are kept of %q, want %q", got, want)
		}
	}
	again := func() {
		t.Helper()
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
		b.Again()
	}
	b.Write(box.Service, b.Home()+"/given", "k1-secret")
	b.Must("profile", "create", "k1", "--secret", "TOK=@"+b.Home()+"/given")
	has("k1", "k1-secret")
	b.Must("profile", "rename", "k1", "k2")
	has("k2", "k1-secret")
	b.Must("profile", "create", "other")
	b.Must("profile", "rename", "other", "k1")
	has("k1", "")
	keeps("k2")
	// What a disk that failed has left under names is given to nobody.
	b.Must("profile", "create", "gone")
	b.Must("profile", "delete", "gone")
	for _, name := range []string{"m1", "m2", "m3"} {
		b.Shell(box.Root, "cp -r "+kept+"k2 "+kept+name)
	}
	b.Must("profile", "restore", "gone", "--as", "m1")
	has("m1", "")
	b.Must("profile", "rename", "k1", "m2")
	has("m2", "")
	keeps("k2", "m3")
	again()
	for name, secret := range map[string]string{"k2": "k1-secret", "m1": "", "m2": ""} {
		b.Await("gateway-"+name, "running")
		has(name, secret)
	}
	keeps("k2") // m3 had a copy of these
	// What a set declares follows too.
	path, hash := planned(b, "version: 1\nprofiles: {d1: {secrets: {TOK: {file: given}}}}\n", "--scope", "profile/d1")
	exits(b, 9, "apply", path, "--approve", hash, "--steady", "0")
	has("d1", "k1-secret")
	b.Must("profile", "rename", "d1", "d2")
	has("d2", "k1-secret")
	// The trash brings them back, and nobody else has them.
	if out := b.Must("profile", "delete", "d2", "k2"); strings.Count(out, "; secrets kept until a purge: TOK\n") != 2 {
		t.Errorf("delete says %q", out)
	}
	b.Must("profile", "create", "d2")
	has("d2", "")
	b.Must("profile", "delete", "d2", "--purge")
	again()
	if out := b.Must("profile", "restore", "d2", "--as", "d3"); !strings.Contains(out, "; secrets restored: TOK\n") {
		t.Errorf("restore says %q", out)
	}
	has("d3", "k1-secret")
	if r := b.Run("profile", "export", "d3", "-o", b.Home()+"/d3.tar"); !strings.Contains(r.Err, "not in the archive: TOK") {
		t.Errorf("export: %s", r)
	}
	if out := b.Must("profile", "import", b.Home()+"/d3.tar", "--as", "d4"); !strings.Contains(out, "; secrets missing, which no archive has: TOK; give them with rlminit profile set d4 --secret TOK=FILE\n") {
		t.Errorf("import says %q", out)
	}
	b.Must("profile", "delete", "d3", "--forget-secrets")
	if out := b.Must("profile", "restore", "d3"); !strings.Contains(out, "; secrets missing, which were forgotten: TOK;") {
		t.Errorf("restore says %q", out)
	}
	has("d3", "")
	b.Must("profile", "purge", "k2")
	if left := b.Shell(box.Root, "find "+kept+" -type f"); left != "" {
		t.Errorf("what is left is %q", left)
	}
	secretsAreForgotten(b)
}

// secretsAreForgotten: rollback names the secret that it brings back, one that was forgotten
// is in no file and no rollback brings it back, and a purge leaves none in revisions.
func secretsAreForgotten(b *box.Box) {
	b.Helper()
	set := func(value string) (revision string) {
		b.Helper()
		b.Write(box.Service, b.Home()+"/given", value)
		var as struct{ Revision int }
		decode(b, b.Must("profile", "set", "f1", "--secret", "TOK="+b.Home()+"/given", "--json"), &as)
		return fmt.Sprint(as.Revision)
	}
	b.Must("profile", "create", "f1", "--stopped")
	first, second := set("old-value-1"), set("old-value-2")
	if r := b.Run("rollback", first, "--steady", "0"); r.Code != 9 || !strings.Contains(r.Out+r.Err, "secrets brought back: TOK") {
		b.Errorf("rollback: %s", r)
	}
	if out := b.Must("profile", "secret", "list", "f1"); !strings.Contains(out, "TOK") || strings.Contains(out, "old-value") {
		b.Errorf("list: %s", out)
	}
	found := func() string {
		return b.Shell(box.Root, "rm -f "+b.Home()+"/given; grep -rl old-value "+b.Home()+" || true")
	}
	b.Must("profile", "secret", "forget", "f1", "TOK")
	if left := found(); left != "" {
		b.Errorf("a forgotten secret is in %s", left)
	}
	b.Fails(17, "forgotten on purpose: TOK", "rollback", second)
	set("old-value-3")
	b.Must("profile", "delete", "f1", "--purge")
	if left := found(); left != "" {
		b.Errorf("a purged secret is in %s", left)
	}
	b.Fails(4, "no such secret", "profile", "secret", "forget", "f1", "TOK")
}
