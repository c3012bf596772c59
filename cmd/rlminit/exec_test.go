package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"rlminit/control"
)

const serviceUID = 61234

// execBox is a box whose service user is serviceUID, and whose profile alice
// has a directory of its own.
func execBox(t *testing.T, change func(*control.Environment)) (*box, string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	dir, err := os.MkdirTemp("", "cli-profile")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	e := control.Environment{
		Environment: []string{"PROFILE=alice", "PATH=/usr/bin:/bin", "HOME=" + dir, "TERM=dumb"},
		UID:         serviceUID, GID: serviceUID, Groups: []uint32{50007}, Dir: dir, Home: "/",
	}
	plain := e
	plain.Groups, plain.Dir = nil, ""
	plain.Environment = []string{"PATH=/usr/bin:/bin", "HOME=/"}
	if change != nil {
		change(&e)
	}
	b := newBox(t, map[string]any{"GET /v1/environment/alice": e, "GET /v1/environment": plain})
	if err := os.WriteFile(filepath.Join(b.dir, "user"), fmt.Appendf(nil, "%d:%d\n", serviceUID, serviceUID), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, serviceUID, serviceUID); err != nil {
		t.Fatal(err)
	}
	return b, dir
}

func TestExecDropsEverything(t *testing.T) {
	b, dir := execBox(t, nil)
	cmd := b.command("exec", "--profile", "alice", "--", "sh", "-c",
		`grep -E '^(Uid|Gid|Groups|Cap...|NoNewPrivs):' /proc/self/status; pwd; echo "$PROFILE $HOME $TERM [$SECRET]"; touch made`)
	cmd.Env = append(cmd.Env, "TERM=xterm", "SECRET=root's own")
	r := outcomeOf(t, cmd)
	uid := strings.Repeat("\t"+strconv.Itoa(serviceUID), 4)
	none := "\t0000000000000000\n"
	want := "Uid:" + uid + "\nGid:" + uid + "\nGroups:\t50007 \n" +
		"CapInh:" + none + "CapPrm:" + none + "CapEff:" + none + "CapBnd:" + none + "CapAmb:" + none +
		"NoNewPrivs:\t1\n" + dir + "\nalice " + dir + " xterm []\n"
	if r.code != 0 || r.out != want || r.err != "" {
		t.Errorf("exit %d, stderr %q, stdout:\n%swant:\n%s", r.code, r.err, r.out, want)
	}
	info, err := os.Stat(filepath.Join(dir, "made"))
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != serviceUID {
		t.Errorf("what it made belongs to uid %d", owner)
	}
}

func TestExecWithoutProfile(t *testing.T) {
	b, _ := execBox(t, nil)
	r := b.rlminit(t, "exec", "--", "sh", "-c", "id -u; id -G; pwd")
	if want := "61234\n61234\n/\n"; r.out != want || r.code != 0 {
		t.Errorf("exit %d, stderr %q, stdout %q, want %q", r.code, r.err, r.out, want)
	}
}

// What was closed is closed for the command too, and no /dev/null.
func TestExecLeavesClosed(t *testing.T) {
	b, _ := execBox(t, nil)
	sh := released(t, b)
	r := sh(`exec "$0" exec -- sh -c 'for fd in 0 1 2; do [ -e /proc/self/fd/$fd ] && echo $fd >&3; done; exit 5' 3>&1 "$@" <&- >&-`)
	if r.code != 5 || r.out != "2\n" {
		t.Errorf("exit %d, open is %q, stderr %q", r.code, r.out, r.err)
	}
}

// The supervisor runs as the service user: what it says must not make root's
// command run as somebody else.
func TestExecDoesNotBelieveAnIntruder(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*control.Environment)
		err    string
	}{
		"root":          {func(e *control.Environment) { e.UID = 0 }, "rlminit: cannot run as uid 0: "},
		"another user":  {func(e *control.Environment) { e.UID = 1 }, "rlminit: cannot run as uid 1: "},
		"another group": {func(e *control.Environment) { e.GID = 0 }, "rlminit: cannot run as gid 0: "},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := execBox(t, test.change)
			r := b.rlminit(t, "exec", "--profile", "alice", "--", "id")
			if r.code != 5 || r.out != "" || !strings.HasPrefix(r.err, test.err) {
				t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
			}
		})
	}
	t.Run("a group more", func(t *testing.T) {
		b, _ := execBox(t, func(e *control.Environment) { e.Groups = append(e.Groups, 0, 42) })
		r := b.rlminit(t, "exec", "--profile", "alice", "--", "id", "-G")
		if r.out != "61234 50007\n" || strings.Count(r.err, "is left out") != 2 {
			t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
		}
	})
}

// The service user needs nobody's help to run a command.
func TestExecAsTheServiceUser(t *testing.T) {
	b, dir := execBox(t, nil)
	as := func(uid uint32, args ...string) result {
		t.Helper()
		cmd := b.command(args...)
		// The test's own binary lies where only root may go.
		self, err := os.Open("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		defer self.Close()
		cmd.Path, cmd.ExtraFiles = "/proc/self/fd/3", []*os.File{self}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		cmd.Env = append(cmd.Env, "OWN=1")
		return outcomeOf(t, cmd)
	}
	if r := as(serviceUID, "exec", "--", "sh", "-c", `id -u; echo "$OWN"`); r.out != "61234\n1\n" || r.code != 0 {
		t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
	}
	if asked := b.requests(); len(asked) != 0 {
		t.Errorf("asked %q for a command that is run as it is", asked)
	}
	if r := as(serviceUID, "exec", "-p", "alice", "--", "sh", "-c", `echo "$PROFILE [$OWN]"; pwd`); r.out != "alice []\n"+dir+"\n" || r.code != 0 {
		t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
	}
	for _, args := range [][]string{{"exec", "-p", "alice", "--", "id"}, {"exec", "--", "id"}} {
		if r := as(12345, args...); r.code != 5 || r.out != "" || !strings.Contains(r.err, "permission denied: you are uid 12345, services run as 61234") {
			t.Errorf("another user: %q: exit %d, stdout %q, stderr %q", args, r.code, r.out, r.err)
		}
	}
}

func TestExecExitCodes(t *testing.T) {
	b, dir := execBox(t, nil)
	write := func(name, content string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("noexec", "#!/bin/sh\n", 0o644)
	write("noshebang", "echo from sh: $1\n", 0o755)
	write("crlf", "#!/bin/sh\r\n", 0o755)
	for _, test := range []struct {
		args     []string
		code     int
		out, err string
	}{
		{[]string{"sh", "-c", "exit 42"}, 42, "", ""},
		{[]string{"sh", "-c", "kill -TERM $$"}, -1, "", ""}, // execve: it is our own process that dies
		{[]string{"no-such-program"}, 127, "", "rlminit: cannot run \"no-such-program\": not found in PATH (/usr/bin:/bin)\n"},
		{[]string{"./missing"}, 127, "", "rlminit: cannot run \"./missing\": " + dir + "/missing: no such file or directory\n"},
		{[]string{"./noexec"}, 126, "", "rlminit: cannot run \"./noexec\": " + dir + "/noexec is not executable (permission denied); chmod +x it, or mount its file system with exec\n"},
		{[]string{"/"}, 126, "", "rlminit: cannot run \"/\": it is a directory\n"},
		{[]string{"./noshebang", "arg"}, 0, "from sh: arg\n", ""},
		{[]string{"./crlf"}, 126, "", "rlminit: cannot run \"./crlf\": its interpreter is not there; look at its first line\n"},
		{[]string{"echo", "--", "--profile", "-x"}, 0, "-- --profile -x\n", ""},
	} {
		r := b.rlminit(t, append([]string{"exec", "-p", "alice", "--"}, test.args...)...)
		if r.code != test.code || r.out != test.out || r.err != test.err {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", test.args, r.code, r.out, r.err)
		}
	}
	// Without --, what follows the command is its own all the same.
	if r := b.rlminit(t, "exec", "echo", "-n", "--help"); r.out != "--help" {
		t.Errorf("stdout %q, stderr %q", r.out, r.err)
	}
	if r := b.rlminit(t, "exec", "-p", "alcie", "--", "id"); r.code != 4 {
		t.Errorf("unknown profile: exit %d, stderr %q", r.code, r.err)
	}
}

// Root without the capability to become somebody is told so.
func TestExecWithoutCapability(t *testing.T) {
	b, _ := execBox(t, nil)
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("setpriv is missing")
	}
	inner := b.command("exec", "-p", "alice", "--", "id")
	cmd := exec.Command(setpriv, append([]string{"--bounding-set=-all", "--inh-caps=-all", "--"}, append([]string{"/proc/self/exe"}, inner.Args[1:]...)...)...)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Args[4] = self
	cmd.Env = inner.Env
	r := outcomeOf(t, cmd)
	if r.code != 5 || !strings.Contains(r.err, "CAP_SETGID is missing; start the container with --cap-add SETGID") {
		t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
	}
}
