package reap

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	testbox "rlminit/tests/box"
	"rlminit/wire"
)

// TERM: tier 2 stops its services, main gets its signal, and the container ends
// with main's code as soon as the last process is gone.
func TestStopInOrder(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b := startBox(t, withMain(childArgv("signals", "7")...), func(c *exec.Cmd, _ *wire.Policy) { c.Stdout = w })
	w.Close()
	b.link.line(t, r) // main is ready
	l := b.link
	id, out := l.spawn(t, nil, "sleep")
	l.spawned(t, id)
	b.link.line(t, out)
	began := time.Now()
	b.cmd.Process.Signal(unix.SIGTERM)
	shutdown := want[*wire.Shutdown](t, l, nil)
	if left := time.Duration(shutdown.Deadline - sinceBoot()); left < 2*time.Second || left > 3*time.Second {
		t.Errorf("tier 2 is left %v of 3 s", left)
	}
	l.send(t, &wire.StopBegun{})
	l.signal(t, id, unix.SIGTERM, wire.ScopeGroup)
	if got := l.exited(t, id); got.Signal != int32(unix.SIGTERM) {
		t.Errorf("%+v", got)
	}
	l.send(t, &wire.Acknowledge{ID: id})
	l.send(t, &wire.StopDone{})
	if code := b.wait(); code != 7 {
		t.Errorf("exit code %d, want main's 7", code)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

// deaf tells whether n processes of that part ignore TERM by now.
func (b *box) deaf(n int) bool {
	for pid := range b.processes() {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if !strings.Contains(string(cmdline), "\x00child\x00deaf") {
			continue
		}
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, rest, _ := strings.Cut(string(status), "SigIgn:\t")
		var mask uint64
		fmt.Sscanf(rest, "%x", &mask)
		if mask&(1<<(unix.SIGTERM-1)) != 0 {
			n--
		}
	}
	return n <= 0
}

// A tier 2 that does not answer: after a second tier 1 sends TERM to all, and
// what does not care is killed at the end of the budget.
func TestStopWithoutTier2(t *testing.T) {
	b := startBox(t)
	l := b.link
	polite, out := l.spawn(t, nil, "sleep")
	l.spawned(t, polite)
	b.link.line(t, out)
	deaf, out := l.spawn(t, nil, "deaf")
	l.spawned(t, deaf)
	b.link.line(t, out)
	began := time.Now()
	b.cmd.Process.Signal(unix.SIGTERM)
	if got := l.exited(t, polite); got.Signal != int32(unix.SIGTERM) {
		t.Errorf("%+v", got)
	}
	if took := time.Since(began); took < 900*time.Millisecond || took > 2*time.Second {
		t.Errorf("TERM came after %v, want 1 s", took)
	}
	if code := b.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(began); took < 2900*time.Millisecond || took > 4*time.Second {
		t.Errorf("the budget of 3 s took %v", took)
	}
}

// An answer to a Shutdown that nobody has sent is none: a tier 2 that does not
// answer when it is asked is not waited for.
func TestStopBegunTooEarly(t *testing.T) {
	b := startBox(t)
	l := b.link
	id, out := l.spawn(t, nil, "sleep")
	l.spawned(t, id)
	b.link.line(t, out)
	l.send(t, &wire.StopBegun{})
	l.signal(t, id, 0, wire.ScopeMain) // that was handled
	b.cmd.Process.Signal(unix.SIGTERM)
	if got := l.exited(t, id); got.Signal != int32(unix.SIGTERM) {
		t.Errorf("%+v", got)
	}
	if code := b.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A tier 2 that dies while stopping is not waited for, nor replaced.
func TestStopWhileTier2Dies(t *testing.T) {
	b := startBox(t)
	l := b.link
	id, out := l.spawn(t, nil, "sleep")
	l.spawned(t, id)
	b.link.line(t, out)
	b.cmd.Process.Signal(unix.SIGTERM)
	want[*wire.Shutdown](t, l, nil)
	l.send(t, &wire.StopBegun{})
	began := time.Now()
	killTier2(t, b)
	if code := b.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("took %v", took)
	}
}

// A restart of tier 2 that is due does not keep the loop busy while the
// container stops.
func TestStopDoesNotSpin(t *testing.T) {
	b := startBox(t, withMain(childArgv("deaf")...))
	for range 6 { // each restart is 100 ms after the one before
		killTier2(t, b)
		b.link = b.accept()
		b.link.hello(t)
	}
	killTier2(t, b)
	eventually(t, "main ignores TERM", func() bool { return b.deaf(1) })
	before := processorTime(t, b.cmd.Process.Pid)
	b.cmd.Process.Signal(unix.SIGTERM)
	b.wait()
	if used := b.cmd.ProcessState.SystemTime() + b.cmd.ProcessState.UserTime() - before; used > 2*time.Second { // of the 5 s that it takes
		t.Errorf("PID 1 used %v of processor time", used)
	}
}

func TestHurry(t *testing.T) {
	for name, c := range map[string]struct {
		signals []unix.Signal
		within  time.Duration
	}{
		"a second TERM": {[]unix.Signal{unix.SIGTERM, unix.SIGTERM}, 1700 * time.Millisecond},
		"a third INT":   {[]unix.Signal{unix.SIGINT, unix.SIGINT, unix.SIGINT}, 800 * time.Millisecond},
		"QUIT":          {[]unix.Signal{unix.SIGQUIT}, 800 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			b := startBox(t, withMain(childArgv("deaf")...), withPolicy(func(p *wire.Policy) { p.StopNanos = 60e9 }))
			l := b.link
			id, out := l.spawn(t, nil, "deaf")
			l.spawned(t, id)
			b.link.line(t, out)
			eventually(t, "main is ready", func() bool { return b.deaf(2) })
			began := time.Now()
			for i, signal := range c.signals {
				b.cmd.Process.Signal(signal)
				if i < len(c.signals)-1 {
					want[*wire.Shutdown](t, l, nil)
				}
			}
			if code := b.wait(); code != 137 {
				t.Errorf("exit code %d, want 137: main was killed", code)
			}
			if took := time.Since(began); took > c.within {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestMainsExitEndsTheContainer(t *testing.T) {
	main, gate := gated(t, "exit 42")
	b := startBox(t, main)
	l := b.link
	gate.Close()
	want[*wire.Shutdown](t, l, nil)
	l.send(t, &wire.StopBegun{})
	l.send(t, &wire.StopDone{})
	if code := b.wait(); code != 42 {
		t.Errorf("exit code %d", code)
	}
}

// gated is a main command that begins when its stdin is closed: tier 2 has said
// hello by then.
func gated(t *testing.T, script string) (boxOption, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return func(c *exec.Cmd, p *wire.Policy) {
		c.Stdin = r
		withMain("/bin/sh", "-c", "read x; "+script)(c, p)
	}, w
}

func TestEndByTier2(t *testing.T) {
	b := startBox(t)
	b.link.send(t, &wire.End{Code: 3})
	want[*wire.Shutdown](t, b.link, nil)
	b.link.send(t, &wire.StopBegun{})
	b.link.send(t, &wire.StopDone{})
	if code := b.wait(); code != 3 {
		t.Errorf("exit code %d", code)
	}
}

func TestMainThatCannotRun(t *testing.T) {
	for program, code := range map[string]int{"nowhere": 127, "/etc/passwd": 126} {
		b := newBox(t, withMain(program))
		if got := b.wait(); got != code {
			t.Errorf("%s: exit code %d, want %d", program, got, code)
		}
		if !strings.Contains(b.stderr.String(), "rlminit: cannot run \""+program+"\": ") {
			t.Errorf("%s: stderr %q", program, b.stderr)
		}
	}
}

// A script without #! is run as execvp(3) runs it, for images rely on that.
func TestMainWithoutInterpreter(t *testing.T) {
	script := filepath.Join(t.TempDir(), "entrypoint")
	os.Chmod(filepath.Dir(script), 0o755)
	os.Chmod(filepath.Dir(filepath.Dir(script)), 0o755)
	if err := os.WriteFile(script, []byte("exit 33\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if code := newBox(t, withMain(script)).wait(); code != 33 {
		t.Errorf("exit code %d", code)
	}
}

// What main left behind gets TERM, and is waited for.
func TestOrphansOfMainAreEnded(t *testing.T) {
	main, gate := gated(t, "setsid sleep 1000 & exit 5")
	b := startBox(t, main)
	gate.Close()
	want[*wire.Shutdown](t, b.link, nil)
	b.link.send(t, &wire.StopBegun{})
	began := time.Now()
	b.link.send(t, &wire.StopDone{})
	if code := b.wait(); code != 5 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
}

// Signals go to the main command, in order, also those that make a Go program
// print its stacks and end.
func TestForwarding(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b := startBox(t, withMain(childArgv("signals")...), func(c *exec.Cmd, _ *wire.Policy) { c.Stdout = w })
	w.Close()
	if got := b.link.line(t, r); got != "ready" {
		t.Fatal(got)
	}
	order := []unix.Signal{
		unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGALRM, unix.SIGABRT, unix.SIGSEGV, unix.SIGPIPE,
		unix.SIGUSR2, unix.SIGUSR1, unix.SIGIO, unix.SIGFPE, unix.SIGSYS, unix.Signal(40),
	}
	for _, signal := range order {
		b.cmd.Process.Signal(signal)
		if got := b.link.line(t, r); got != fmt.Sprint(int(signal)) {
			t.Errorf("%v arrived as %s", signal, got)
		}
	}
	for range 2000 { // the runtime's own use of SIGURG does not get in between
		unix.Kill(b.cmd.Process.Pid, unix.SIGURG)
	}
	b.cmd.Process.Signal(unix.SIGHUP)
	want[*wire.Reload](t, b.link, nil)
}

// The main command has the terminal, and gets it back when ^Z stops it with no
// shell there to wake it.
func TestMainHasTheTerminal(t *testing.T) {
	master, slave := testbox.OpenTerminal(t)
	b := newBox(t, withMain(childArgv("report")...), func(c *exec.Cmd, _ *wire.Policy) {
		c.Stdin, c.Stdout = slave, slave
		c.SysProcAttr.Setsid, c.SysProcAttr.Setctty = true, true
	})
	slave.Close()
	r := decode[report](t, master)
	if r.Foreground != r.Group || r.Group != r.PID || r.Session == r.PID {
		t.Errorf("pid %d, group %d, session %d, foreground group %d", r.PID, r.Group, r.Session, r.Foreground)
	}
	if r.Status["Uid"] != fmt.Sprintf("%d %d %d %d", testUser, testUser, testUser, testUser) || r.Status["NoNewPrivs"] != "1" {
		t.Errorf("uid %s, no_new_privs %s", r.Status["Uid"], r.Status["NoNewPrivs"])
	}
	if code := b.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestStoppedByTheTerminal(t *testing.T) {
	master, slave := testbox.OpenTerminal(t)
	b := startBox(t, withMain("/bin/cat"), func(c *exec.Cmd, _ *wire.Policy) {
		c.Stdin, c.Stdout = slave, slave
		c.SysProcAttr.Setsid, c.SysProcAttr.Setctty = true, true
	})
	slave.Close()
	master.Write([]byte("one\n"))
	for range 2 {
		if got := strings.TrimSpace(b.link.line(t, master)); got != "one" {
			t.Fatalf("%q", got)
		}
	}
	master.Write([]byte{26}) // ^Z
	master.Write([]byte("two\n"))
	seen := ""
	for strings.Count(seen, "two") < 2 {
		seen += b.link.line(t, master)
	}
	master.Write([]byte{3}) // ^C goes to the foreground group, as without us
	want[*wire.Shutdown](t, b.link, nil)
	b.link.send(t, &wire.StopBegun{})
	b.link.send(t, &wire.StopDone{})
	if code := b.wait(); code != 130 {
		t.Errorf("exit code %d", code)
	}
}

// A main command that is a service has the terminal in each of its runs, and no
// other service gets it.
func TestServiceHasTheTerminal(t *testing.T) {
	master, slave := testbox.OpenTerminal(t)
	b := startBox(t, func(c *exec.Cmd, p *wire.Policy) {
		p.Supervised = true
		c.Stdin, c.Stdout = slave, slave
		c.SysProcAttr.Setsid, c.SysProcAttr.Setctty = true, true
	})
	l := b.link
	if !l.welcome.Terminal {
		t.Error("tier 2 is told of no terminal")
	}
	foreground := func() int32 {
		group, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPGRP)
		if err != nil {
			t.Fatal(err)
		}
		return int32(group)
	}
	found := foreground()
	asMain := func(part ...string) uint64 {
		id, _ := l.spawn(t, func(m *wire.Spawn) {
			m.Name, m.Terminal, m.Targets = wire.MainService, true, []int32{9}
			m.Argv, m.Path = part, part[0]
		}, part...)
		return id
	}
	for range 2 {
		id := asMain("/proc/self/exe", "child", "report")
		r := decode[report](t, master)
		if r.Foreground != r.Group || r.Group != r.PID || r.Session == r.PID || r.Status["NoNewPrivs"] != "1" {
			t.Errorf("pid %d, group %d, session %d, foreground group %d", r.PID, r.Group, r.Session, r.Foreground)
		}
		l.exited(t, id)
		if group := foreground(); group != found {
			t.Errorf("foreground group %d between two runs, found with %d", group, found)
		}
		l.send(t, &wire.Acknowledge{ID: id})
	}
	id := asMain("/bin/cat")
	l.spawned(t, id)
	// Nor does a second one without it, which tier 2 has no reason to ask for,
	// make the first one's terminal free.
	second, _ := l.spawn(t, func(m *wire.Spawn) { m.Name = wire.MainService }, "exit", "0")
	l.exited(t, second)
	for _, name := range []string{"web", wire.MainService} {
		other, _ := l.spawn(t, func(m *wire.Spawn) { m.Name, m.Terminal = name, true }, "exit", "0")
		got := want(t, l, func(m *wire.SpawnFailed) bool { return m.ID == other })
		if got.Step != wire.StepPolicy || unix.Errno(got.Errno) != unix.EPERM {
			t.Errorf("%s: step %d, %v (%s)", name, got.Step, unix.Errno(got.Errno), got.Reason)
		}
	}
	master.Write([]byte{26}) // ^Z: there is no shell that could continue it
	master.Write([]byte("two\n"))
	seen := ""
	for strings.Count(seen, "two") < 2 {
		seen += b.link.line(t, master)
	}
	master.Write([]byte{3}) // ^C
	if exit := l.exited(t, id); exit.Signal != int32(unix.SIGINT) {
		t.Errorf("%+v", exit)
	}
}
