package reap

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
	"rlminit/wire"
)

// startLimit is RLIMIT_NOFILE as this process was started with.
var startLimit = [2]uint64{sys.NoFile.Soft, sys.NoFile.Hard}

// A child is exactly what the policy says, and has what it was given and no more.
func TestChildIsWhatThePolicySays(t *testing.T) {
	b := startBox(t)
	l := b.link
	if !strings.Contains(l.status, fmt.Sprintf("Uid:\t%d\t%d\t%d\t%d", testUser, testUser, testUser, testUser)) {
		t.Errorf("tier 2 is not the service user:\n%s", l.status)
	}
	if !strings.Contains(l.status, "\nTimerSlack:\t500000\n") {
		t.Errorf("tier 2 has another timer slack than it is to have:\n%s", l.status)
	}
	id, out := l.spawn(t, func(m *wire.Spawn) {
		m.ListenPID = true
		m.Dir = "/usr"
		m.Rlimits = []wire.Rlimit{{Resource: unix.RLIMIT_NOFILE, Soft: 123, Hard: 456}, {Resource: unix.RLIMIT_CORE, Soft: 0, Hard: 0}}
	}, "report")
	started := l.spawned(t, id)
	r := decode[report](t, out)
	if got := l.exited(t, id); got.Code != 0 || got.Signal != 0 || got.Leftovers != 0 {
		t.Errorf("exit %+v", got)
	}
	tag := lowTag + uint32(id%900)
	for key, want := range map[string]string{
		"Uid":        fmt.Sprintf("%d %d %d %d", testUser, testUser, testUser, testUser),
		"Gid":        fmt.Sprintf("%d %d %d %d", testGroup, testGroup, testGroup, testGroup),
		"Groups":     fmt.Sprintf("4713 %d", tag),
		"CapEff":     "0000000000000000",
		"CapPrm":     "0000000000000000",
		"CapInh":     "0000000000000000",
		"CapBnd":     "0000000000000000",
		"CapAmb":     "0000000000000000",
		"NoNewPrivs": "1",
		"SigBlk":     "0000000000000000",
		"SigIgn":     "0000000000000000",
		"TimerSlack": strconv.Itoa(timerSlack()), // as PID 1, which has ours
	} {
		if r.Status[key] != want {
			t.Errorf("%s is %q, want %q", key, r.Status[key], want)
		}
	}
	if r.PID != int(started.PID) || r.PPID != 1 || r.Session != r.PID || r.Group != r.PID {
		t.Errorf("pid %d (told %d), parent %d, session %d, group %d", r.PID, started.PID, r.PPID, r.Session, r.Group)
	}
	if started.StartTime == 0 {
		t.Error("no start time")
	}
	if r.NoFile != [2]uint64{123, 456} || r.Core != [2]uint64{} {
		t.Errorf("limits: nofile %v, core %v", r.NoFile, r.Core)
	}
	if r.Dir != "/usr" || r.Umask != 0o027 || r.OOMScore != "300" {
		t.Errorf("dir %s, umask %o, oom_score_adj %s", r.Dir, r.Umask, r.OOMScore)
	}
	if want := []string{"PATH=/usr/bin:/bin", "A=b", fmt.Sprintf("LISTEN_PID=%d", r.PID)}; !slices.Equal(r.Environment, want) {
		t.Errorf("environment %q", r.Environment)
	}
	for fd, target := range r.Descriptors {
		switch {
		case fd == "0" && target == "/dev/null", fd == "1" && strings.HasPrefix(target, "pipe:"), fd == "2" && target == "/dev/null":
		default:
			t.Errorf("descriptor %s is %s", fd, target)
		}
	}
}

// Without limits of its own a child has those that the container was given,
// which Go's runtime has raised in tier 1.
func TestChildKeepsTheContainersLimits(t *testing.T) {
	b := startBox(t)
	id, out := b.link.spawn(t, nil, "report")
	b.link.spawned(t, id)
	if r := decode[report](t, out); r.NoFile != startLimit {
		t.Errorf("nofile is %v, the box was given %v", r.NoFile, startLimit)
	}
}

// PID 1 may hold more descriptors than a process may have: that keeps neither a
// service nor the next tier 2 from being started.
func TestManyHeldDescriptors(t *testing.T) {
	var old, low unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	low = unix.Rlimit{Cur: 32, Max: old.Max}
	b := startBox(t, func(c *exec.Cmd, _ *wire.Policy) {
		c.Args = append([]string{"/bin/bash", "-c", fmt.Sprintf(`ulimit -Sn %d; exec "$0" "$@"`, low.Cur), c.Path}, c.Args[1:]...)
		c.Path = "/bin/bash"
	})
	l := b.link
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(null)
	for i := range 60 {
		l.send(t, &wire.Hold{Key: fmt.Sprint("log/", i)}, null)
	}
	id, _ := l.spawn(t, func(m *wire.Spawn) { m.Targets = []int32{40} }, "sleep")
	l.spawned(t, id)
	killTier2(t, b)
	b.link = b.accept()
	b.link.hello(t)
	if len(b.link.held) != 60 {
		t.Errorf("%d keys came back of 60", len(b.link.held))
	}
}

// Descriptors arrive under the numbers that were asked for, also where those
// collide with the numbers that tier 1 received them under.
func TestDescriptorsByNumber(t *testing.T) {
	b := startBox(t)
	for range 2 {
		for _, n := range []int{0, 1, 2, 3, 4, 40} {
			checkDescriptors(t, b, n)
		}
		// Now with so many held that others have high numbers.
		for i := range 100 {
			b.link.send(t, &wire.Hold{Key: fmt.Sprint("key", i)}, 0)
		}
	}
}

// checkDescriptors spawns a process with n files, of which it has those and
// stdio only, and tier 1 none when it has ended.
func checkDescriptors(t *testing.T, b *box, n int) {
	t.Helper()
	var files []*os.File
	targets := []int32{1}
	for i := range n {
		f, err := os.CreateTemp(b.dir, fmt.Sprintf("file%02d-", i))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
		targets = append(targets, int32(2+n-i))
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fds := []int{int(w.Fd())}
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	id := b.link.next
	b.link.next++
	b.link.send(t, &wire.Spawn{
		ID: id, Name: "many", Path: "/proc/self/exe", Argv: childArgv("report"), Targets: targets, NoNewPrivs: true,
	}, fds...)
	w.Close()
	b.link.spawned(t, id)
	got := decode[report](t, r)
	for i, f := range files {
		if at := got.Descriptors[fmt.Sprint(2+n-i)]; at != f.Name() {
			t.Errorf("descriptor %d of %d is %s, want %s", 2+n-i, n, at, f.Name())
		}
	}
	if len(got.Descriptors) != 3+n {
		t.Errorf("%d descriptors, want %d: %v", len(got.Descriptors), 3+n, got.Descriptors)
	}
	b.link.exited(t, id)
	if rest, err := io.ReadAll(r); err != nil || len(bytes.TrimSpace(rest)) > 0 { // the end of the line may be read apart
		t.Errorf("%q, %v", rest, err)
	}
}

// A program is looked for along PATH by the process itself, in the directory that it
// could enter: the one that is named, or else its home, or else /.
func TestProgramIsLookedFor(t *testing.T) {
	b := startBox(t)
	l := b.link
	for name, c := range map[string]struct{ dir, home, want string }{
		"the directory":            {"/etc", "/usr", "/etc"},
		"the home":                 {"", "/usr", "/usr"},
		"a home that is not there": {"", "/nowhere", "/"},
		"a home of root's":         {"", "/root", "/"},
	} {
		id, out := l.spawn(t, func(m *wire.Spawn) {
			m.Path, m.Argv, m.Env = "sh", []string{"sh", "-c", "pwd"}, []string{"PATH=/nowhere:/etc/passwd:/usr/bin:/bin"}
			m.Dir, m.Home = c.dir, c.home
		})
		if got := l.line(t, out); got != c.want {
			t.Errorf("%s: it runs in %s, want %s", name, got, c.want)
		}
		l.exited(t, id)
	}
}

func TestRefusals(t *testing.T) {
	b := startBox(t, withPolicy(func(p *wire.Policy) {
		p.Privileged = []wire.Program{
			{Name: "root", Argv: []string{"/bin/true"}, NoNewPrivs: true},
		}
	}))
	l := b.link
	id, _ := l.spawn(t, func(m *wire.Spawn) { m.Name, m.Tag = "first", lowTag+5 }, "sleep")
	l.spawned(t, id)
	for name, c := range map[string]struct {
		change func(*wire.Spawn)
		step   wire.Step
		errno  unix.Errno
	}{
		"a tag outside the range":  {func(m *wire.Spawn) { m.Tag = 27 }, wire.StepPolicy, unix.EPERM},
		"another service's tag":    {func(m *wire.Spawn) { m.Tag = lowTag + 5 }, wire.StepPolicy, unix.EPERM},
		"new privileges":           {func(m *wire.Spawn) { m.NoNewPrivs = false }, wire.StepPolicy, unix.EPERM},
		"a name not in the policy": {func(m *wire.Spawn) { m.Privileged, m.Name = true, "nobody" }, wire.StepPolicy, unix.EPERM},
		"uid 0 in the policy":      {func(m *wire.Spawn) { m.Privileged, m.Name = true, "root" }, wire.StepPolicy, unix.EPERM},
		"no program":               {func(m *wire.Spawn) { m.Path = "" }, wire.StepMessage, unix.EINVAL},
		"a relative directory":     {func(m *wire.Spawn) { m.Dir = "tmp" }, wire.StepMessage, unix.EINVAL},
		"a relative home":          {func(m *wire.Spawn) { m.Home = "tmp" }, wire.StepMessage, unix.EINVAL},
		"a PATH without end":       {func(m *wire.Spawn) { m.Path, m.Env = "true", []string{"PATH=" + strings.Repeat(":", 256)} }, wire.StepMessage, unix.EINVAL},
		"no argv":                  {func(m *wire.Spawn) { m.Argv = nil }, wire.StepMessage, unix.EINVAL},
		"a NUL":                    {func(m *wire.Spawn) { m.Env = []string{"A=b\x00c"} }, wire.StepMessage, unix.EINVAL},
		"no name":                  {func(m *wire.Spawn) { m.Name = "" }, wire.StepMessage, unix.EINVAL},
		"a target twice":           {func(m *wire.Spawn) { m.Targets = []int32{1, 1} }, wire.StepMessage, unix.EINVAL},
		"a target of -1":           {func(m *wire.Spawn) { m.Targets = []int32{-1} }, wire.StepMessage, unix.EINVAL},
		"a limit above ours": {func(m *wire.Spawn) {
			m.Rlimits = []wire.Rlimit{{Resource: unix.RLIMIT_NOFILE, Soft: 1, Hard: 1 << 40}}
		}, wire.StepRlimit, unix.EPERM},
		"a program that is not there":   {func(m *wire.Spawn) { m.Path = "/nowhere/prog" }, wire.StepExec, unix.ENOENT},
		"a program not along PATH":      {func(m *wire.Spawn) { m.Path, m.Env = "true", []string{"PATH=/nowhere:/etc"} }, wire.StepExec, unix.ENOENT},
		"a program denied along PATH":   {func(m *wire.Spawn) { m.Path, m.Env = "passwd", []string{"PATH=/etc:/nowhere"} }, wire.StepExec, unix.EACCES},
		"a program that is none":        {func(m *wire.Spawn) { m.Path = "/etc/passwd" }, wire.StepExec, unix.EACCES},
		"a directory that is not there": {func(m *wire.Spawn) { m.Dir = "/nowhere" }, wire.StepDir, unix.ENOENT},
		"a directory of root's":         {func(m *wire.Spawn) { m.Dir = "/root" }, wire.StepDir, unix.EACCES},
	} {
		t.Run(name, func(t *testing.T) {
			id, _ := l.spawn(t, c.change, "exit", "0")
			got := want(t, l, func(m *wire.SpawnFailed) bool { return m.ID == id })
			if got.Step != c.step || unix.Errno(got.Errno) != c.errno {
				t.Errorf("step %d, %v (%s); want step %d, %v", got.Step, unix.Errno(got.Errno), got.Reason, c.step, c.errno)
			}
			l.send(t, &wire.Acknowledge{ID: id})
		})
	}
	if n := b.zombies(); n != 0 {
		t.Errorf("%d zombies", n)
	}
}

// A definition of the policy runs with what root-owned configuration gives it,
// and with nothing else of what tier 2 asks for.
func TestPrivilegedByName(t *testing.T) {
	b := startBox(t, withPolicy(func(p *wire.Policy) {
		p.Privileged = []wire.Program{{
			Name: "web", Argv: childArgv("report"), Env: []string{"FROM=policy"}, Dir: "/usr",
			Identity: wire.Identity{UID: 4800, GID: 4801}, Capabilities: []uint32{unix.CAP_NET_BIND_SERVICE}, NoNewPrivs: true,
		}}
	}))
	id, out := b.link.spawn(t, func(m *wire.Spawn) {
		m.Name, m.Privileged, m.Path, m.Argv, m.Dir = "web", true, "/bin/sh", []string{"sh", "-c", "id"}, "/tmp"
		m.Env = []string{"LD_PRELOAD=/tmp/x.so", "NOTIFY_SOCKET=/run/n"}
		m.Rlimits = []wire.Rlimit{{Resource: unix.RLIMIT_CORE, Soft: 1, Hard: 1}}
	})
	b.link.spawned(t, id)
	r := decode[report](t, out)
	for key, want := range map[string]string{
		"Uid": "4800 4800 4800 4800", "Gid": "4801 4801 4801 4801", "NoNewPrivs": "1",
		"CapEff": "0000000000000400", "CapPrm": "0000000000000400", "CapBnd": "0000000000000400", "CapAmb": "0000000000000400",
	} {
		if r.Status[key] != want {
			t.Errorf("%s is %q, want %q", key, r.Status[key], want)
		}
	}
	if !slices.Equal(r.Environment, []string{"FROM=policy", "NOTIFY_SOCKET=/run/n"}) || r.Dir != "/usr" {
		t.Errorf("environment %q, dir %s", r.Environment, r.Dir)
	}
}
