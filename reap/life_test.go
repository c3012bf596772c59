package reap

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/reap/proc"
	"rlminit/reap/say"
	"rlminit/reap/threads"
	"rlminit/wire"
)

func TestExitStatusIsExact(t *testing.T) {
	b := startBox(t)
	l := b.link
	for _, code := range []int32{0, 1, 42, 255} {
		id, _ := l.spawn(t, nil, "exit", fmt.Sprint(code))
		l.spawned(t, id)
		if got := l.exited(t, id); got.Code != code || got.Signal != 0 {
			t.Errorf("exit %d reported as %+v", code, got)
		}
	}
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL, unix.SIGUSR1} {
		id, out := l.spawn(t, nil, "sleep")
		l.spawned(t, id)
		b.link.line(t, out)
		if signal == unix.SIGUSR1 {
			id, _ = l.spawn(t, func(m *wire.Spawn) {
				m.Path, m.Argv = "/bin/sleep", []string{"sleep", "1000"}
			})
			l.spawned(t, id)
		}
		if got := l.signal(t, id, signal, wire.ScopeMain); got.Count != 1 || got.Errno != 0 {
			t.Errorf("%v: %+v", signal, got)
		}
		got := l.exited(t, id)
		if got.Code != -1 || got.Signal != int32(signal) {
			t.Errorf("death by %v reported as %+v", signal, got)
		}
		// It is over: nobody with that number may be hit.
		if again := l.signal(t, id, signal, wire.ScopeMain); again.Errno != int32(unix.ESRCH) {
			t.Errorf("a signal to an ended process: %+v", again)
		}
	}
}

func TestGroupSignal(t *testing.T) {
	b := startBox(t)
	id, out := b.link.spawn(t, func(m *wire.Spawn) {
		m.Path, m.Argv = "/bin/sh", []string{"sh", "-c", "sleep 1000 & sleep 1000 & echo ready; wait"}
	})
	b.link.spawned(t, id)
	b.link.line(t, out)
	b.link.signal(t, id, unix.SIGKILL, wire.ScopeGroup)
	b.link.exited(t, id)
	eventually(t, "the whole group ends", func() bool { return len(b.processes()) == 1 }) // tier 2 stays
}

// What a service leaves behind in another session and without its environment
// is found by the tag, counted at its end, and can be signalled until it is gone.
func TestLeftovers(t *testing.T) {
	b := startBox(t)
	l := b.link
	id, out := l.spawn(t, nil, "leak", "exit", "3")
	other, otherOut := l.spawn(t, nil, "leak", "sleep")
	l.spawned(t, other)
	b.link.line(t, out)
	b.link.line(t, otherOut)
	if got := l.exited(t, id); got.Code != 3 || got.Leftovers != 1 {
		t.Fatalf("exit %+v; want code 3 and one leftover", got)
	}
	if got := l.signal(t, id, 0, wire.ScopeLeftover); got.Count != 1 {
		t.Fatalf("%+v", got)
	}
	l.signal(t, id, unix.SIGKILL, wire.ScopeLeftover)
	eventually(t, "the leftover is gone", func() bool { return l.signal(t, id, 0, wire.ScopeLeftover).Count == 0 })
	if got := l.signal(t, other, 0, wire.ScopeLeftover); got.Count != 1 {
		t.Errorf("another service's leftover was hit: %+v", got)
	}
	l.send(t, &wire.Acknowledge{ID: id})
	if got := l.signal(t, id, 0, wire.ScopeLeftover); got.Errno != int32(unix.ESRCH) {
		t.Errorf("an acknowledged spawn is still known: %+v", got)
	}
}

// Among a thousand orphans of others the end of a service costs next to nothing,
// and what it leaves behind is found as it is among none.
func TestEndsAmongManyOrphans(t *testing.T) {
	b := startBox(t)
	l := b.link
	id, out := l.spawn(t, func(m *wire.Spawn) {
		m.Path, m.Argv = "/bin/sh", []string{"sh", "-c", "for i in $(seq 1000); do (sleep 1000 &); done; echo all; exec sleep 1000"}
	})
	l.spawned(t, id)
	l.line(t, out) // to count them meanwhile would take the time that they need
	eventually(t, "a thousand were orphaned", func() bool { return l.signal(t, id, 0, wire.ScopeLeftover).Count == 1000 })
	before := processorTime(t, b.cmd.Process.Pid)
	for range 100 {
		id, _ := l.spawn(t, func(m *wire.Spawn) { m.Path, m.Argv = "/bin/true", []string{"true"} })
		if got := l.exited(t, id); got.Leftovers != 0 {
			t.Fatalf("%+v", got)
		}
		l.send(t, &wire.Acknowledge{ID: id})
	}
	if used := processorTime(t, b.cmd.Process.Pid) - before; used > slower*500*time.Millisecond {
		t.Errorf("PID 1 used %v of processor time", used)
	}
	for range 3 { // the list grows and shrinks
		id, _ := l.spawn(t, nil, "leak", "exit", "3")
		if got := l.exited(t, id); got.Leftovers != 1 {
			t.Fatalf("%+v", got)
		}
		l.signal(t, id, unix.SIGKILL, wire.ScopeLeftover)
		eventually(t, "the leftover is gone", func() bool { return l.signal(t, id, 0, wire.ScopeLeftover).Count == 0 })
	}
	if got := l.signal(t, id, unix.SIGKILL, wire.ScopeLeftover); got.Count != 1000 {
		t.Errorf("%+v", got)
	}
	eventually(t, "all are gone", func() bool { return l.signal(t, id, 0, wire.ScopeLeftover).Count == 0 })
}

// Orphans at a rate, services that crash and are started again meanwhile: no
// zombie is left, every status is exact, no thread is added.
func TestOrphansAndCrashes(t *testing.T) {
	duration := 2 * time.Second
	if os.Getenv("RLMINIT_TEST_LONG") != "" {
		duration = 10 * time.Second
	}
	b := startBox(t)
	l := b.link
	storm, out := l.spawn(t, nil, "storm", "200", duration.String())
	l.spawned(t, storm)
	before := b.threads()
	want, count := map[uint64]int32{}, 0
	crash := func() {
		code := int32(count % 256)
		id, _ := l.spawn(t, func(m *wire.Spawn) {
			m.Tag = 0
			m.Path, m.Argv = "/bin/sh", []string{"sh", "-c", fmt.Sprint("exit ", code)}
		})
		want[id] = code
		count++
	}
	for range 50 {
		crash()
	}
	for end := time.Now().Add(duration); len(want) > 0; {
		m, _ := l.receive(t)
		exited, ok := m.(*wire.Exited)
		if !ok || exited.ID == storm {
			continue
		}
		code, known := want[exited.ID]
		if !known || exited.Exit.Code != code || exited.Exit.Signal != 0 {
			t.Fatalf("spawn %d: %+v, want code %d", exited.ID, exited.Exit, code)
		}
		delete(want, exited.ID)
		l.send(t, &wire.Acknowledge{ID: exited.ID})
		if time.Now().Before(end) {
			crash()
		}
	}
	if got := b.link.line(t, out); got != "done" {
		t.Fatal(got)
	}
	t.Logf("%d services crashed and were started again beside %v of 200 orphans a second", count, duration)
	eventually(t, "no process is left", func() bool { return len(b.processes()) == 1 })
	if after := b.threads(); after != before {
		t.Errorf("%d threads became %d", before, after)
	}
}

// Tier 2 is killed: nothing else ends, and the next one is told everything.
func TestTier2Replaced(t *testing.T) {
	b := startBox(t)
	l := b.link
	alive, out := l.spawn(t, func(m *wire.Spawn) { m.Name = "alive" }, "sleep")
	started := l.spawned(t, alive)
	b.link.line(t, out)
	lost, _ := l.spawn(t, nil, "exit", "42")
	l.exited(t, lost) // and not acknowledged
	bad, _ := l.spawn(t, func(m *wire.Spawn) { m.Path = "/nowhere" }, "x")
	want(t, l, func(m *wire.SpawnFailed) bool { return m.ID == bad })
	seen, _ := l.spawn(t, nil, "exit", "1")
	l.exited(t, seen)
	l.send(t, &wire.Acknowledge{ID: seen})
	r, w, _ := os.Pipe()
	defer r.Close()
	l.send(t, &wire.Hold{Key: "log/alive"}, int(w.Fd()))
	w.Close()
	l.signal(t, alive, 0, wire.ScopeMain) // all of that was handled

	killTier2(t, b)
	l = b.accept()
	l.hello(t)
	if l.welcome.Generation != 2 || l.welcome.NextID != b.link.next || !l.welcome.Tags {
		t.Errorf("welcome %+v", l.welcome)
	}
	if len(l.snapshot) != 3 {
		t.Fatalf("%d children in the snapshot", len(l.snapshot))
	}
	for _, c := range l.snapshot {
		switch c.ID {
		case alive:
			if c.State != wire.ChildAlive || c.PID != started.PID || c.StartTime != started.StartTime ||
				c.Name != "alive" {
				t.Errorf("alive: %+v", c)
			}
		case lost:
			if c.State != wire.ChildExited || c.Exit.Code != 42 {
				t.Errorf("exited: %+v", c)
			}
		case bad:
			if c.State != wire.ChildFailed || c.Step != wire.StepExec || c.Errno != int32(unix.ENOENT) {
				t.Errorf("failed: %+v", c)
			}
		}
	}
	if fd, ok := l.held["log/alive"]; !ok {
		t.Error("the held pipe did not come back")
	} else {
		unix.Write(fd, []byte("x\n"))
		unix.Close(fd)
		if got := b.link.line(t, r); got != "x" {
			t.Errorf("through the held pipe came %q", got)
		}
	}
	if got := l.signal(t, alive, unix.SIGKILL, wire.ScopeMain); got.Count != 1 {
		t.Errorf("%+v", got)
	}
	l.exited(t, alive)
}

// killTier2 kills the supervisor with SIGKILL, from outside.
func killTier2(t *testing.T, b *box) {
	t.Helper()
	unix.Kill(tier2PID(t, b), unix.SIGKILL)
}

func tier2PID(t *testing.T, b *box) int {
	t.Helper()
	for pid := range b.processes() {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.HasPrefix(string(cmdline), "rlminit\x00supervise\x00") {
			return pid
		}
	}
	t.Fatal("there is no tier 2")
	return 0
}

// A tier 2 that is stopped, or says nothing, is replaced after 5 s.
func TestSilentTier2IsReplaced(t *testing.T) {
	b := startBox(t)
	id, out := b.link.spawn(t, nil, "sleep")
	b.link.spawned(t, id)
	b.link.line(t, out)
	began := time.Now()
	unix.Kill(tier2PID(t, b), unix.SIGSTOP)
	l := b.accept() // the test answers no ping meanwhile
	if took := time.Since(began); took < 3*time.Second || took > 8*time.Second {
		t.Errorf("replaced after %v", took)
	}
	l.hello(t)
	if len(l.snapshot) != 1 || l.snapshot[0].State != wire.ChildAlive {
		t.Errorf("snapshot %+v", l.snapshot)
	}
}

// Nobody is woken where nothing happens: tier 2 is asked whether it is alive
// after an event, and not again before the next one, which a client is too.
func TestNoPingsAtRest(t *testing.T) {
	b := startBox(t)
	pings := func(within time.Duration) int {
		n := 0
		for end := time.Now().Add(within); time.Now().Before(end); {
			unix.Poll([]unix.PollFd{{Fd: int32(b.link.socket), Events: unix.POLLIN}}, int(time.Until(end).Milliseconds())+1)
			m, _, err := b.link.receiver.Receive(b.link.socket)
			if ping, ok := m.(*wire.Ping); ok && err == nil {
				b.link.send(t, &wire.Pong{Seq: ping.Seq})
				n++
			}
		}
		return n
	}
	const cycle = pingEvery * time.Nanosecond
	pings(2 * cycle) // what its own start is asked for
	if n := pings(3 * cycle); n != 0 {
		t.Errorf("%d pings at rest", n)
	}
	for range 2 {
		conn, err := net.Dial("unix", fmt.Sprintf("/proc/%d/root/run/rlminit/control.sock", b.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		// Nobody accepts it here: it may be asked for more than once.
		if pings(2*cycle) == 0 {
			t.Error("no ping after a client came")
		}
	}
}

// Where the kernel takes no more descriptors of our user, though the socket has
// room, what is held comes back later, and PID 1 is not busy meanwhile.
func TestTooManyDescriptorsInFlight(t *testing.T) {
	user := uint32(1_000_000 + os.Getpid()) // nobody else's, whose descriptors count
	b := startBox(t, withEnv(fmt.Sprint("REAPTEST_UID=", user)), withEnv("REAPTEST_NOFILE=300"))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b.link.send(t, &wire.Hold{Key: "log/web"}, int(w.Fd()))
	id, out := b.link.spawn(t, nil, "sleep")
	b.link.spawned(t, id)
	b.link.line(t, out)
	killTier2(t, b)
	b.link = b.accept()

	crowd := exec.Command("/proc/self/exe", "child", "crowd", "2s")
	crowd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	crowd.Stdout = w
	crowd.Env = []string{}
	if err := crowd.Start(); err != nil {
		t.Fatal(err)
	}
	defer crowd.Wait()
	if got := b.link.line(t, r); got != "full" {
		t.Fatal(got)
	}
	before := processorTime(t, b.cmd.Process.Pid)
	b.link.hello(t)
	if used := processorTime(t, b.cmd.Process.Pid) - before; used > time.Second {
		t.Errorf("PID 1 used %v of processor time", used)
	}
	if len(b.link.held) != 1 || len(b.link.snapshot) != 1 {
		t.Errorf("held %v, snapshot %v", b.link.held, b.link.snapshot)
	}
	if got := b.link.signal(t, id, 0, wire.ScopeMain); got.Count != 1 {
		t.Errorf("%+v", got)
	}
}

// processorTime is what a process has used so far, to the hundredth of a second.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat := proc.AfterName(proc.Read(make([]byte, 512), "/proc/", say.Number(pid), "/stat"))
	return time.Duration(proc.Number(proc.Field(stat, 14-2))+proc.Number(proc.Field(stat, 15-2))) * 10 * time.Millisecond
}

// Hostile or broken bytes from tier 2 change nothing.
func TestGarbageFromTier2(t *testing.T) {
	b := startBox(t)
	l := b.link
	id, out := l.spawn(t, nil, "sleep")
	l.spawned(t, id)
	b.link.line(t, out)
	for _, bytes := range [][]byte{{0}, {255}, {2, 1, 2, 3}, make([]byte, 60_000), {77, 1}, {1, 0, 0, 0}} {
		unix.Send(l.socket, bytes, unix.MSG_NOSIGNAL)
	}
	l.send(t, &wire.Hello{Version: wire.Version})
	l.send(t, &wire.Spawn{ID: id, Name: "again", Path: "/bin/true", Argv: []string{"true"}, NoNewPrivs: true})
	l.send(t, &wire.Spawn{ID: 3, Name: "low", Path: "/bin/true", Argv: []string{"true"}, NoNewPrivs: true})
	l.send(t, &wire.Signal{ID: 1 << 60, Signal: 9})
	l.send(t, &wire.Acknowledge{ID: id})
	l.send(t, &wire.Release{Key: "nothing"})
	if got := l.signal(t, id, 77, wire.ScopeMain); got.Errno != int32(unix.EINVAL) {
		t.Errorf("signal 77: %+v", got)
	}
	if got := l.signal(t, id, 0, wire.ScopeMain); got.Count != 1 {
		t.Errorf("%+v", got)
	}
}

// Ids are used up, and everything else returns to what it was.
func TestNothingGrows(t *testing.T) {
	b := startBox(t)
	l := b.link
	cycle := func(n int) {
		for range n {
			id, _ := l.spawn(t, func(m *wire.Spawn) { m.Path, m.Argv = "/bin/true", []string{"true"} })
			l.exited(t, id)
			l.send(t, &wire.Acknowledge{ID: id})
			l.waiting = nil
		}
	}
	descriptors := func() int {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	cycle(50)
	before, fds := b.threads(), descriptors()
	cycle(1000)
	// Those that spawn; five to seven of the runtime; one for cgo, with which tests are
	// linked; one, should a thread be wanted twice while another falls asleep.
	if now := b.threads(); now != before || now > threads.Most+9 {
		t.Errorf("%d threads became %d; at most %d have an explanation", before, now, threads.Most+9)
	}
	if now := descriptors(); now != fds {
		t.Errorf("%d descriptors became %d", fds, now)
	}
	t.Logf("%d before, %d descriptors, %d KB resident", before, fds, statusNumber(t, b.cmd.Process.Pid, "VmRSS"))
}

// startBoxWithDeadMount starts a container with a directory that never answers.
func startBoxWithDeadMount(t *testing.T, options ...boxOption) (b *box, dir string, fuse *os.File) {
	t.Helper()
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip("needs /dev/fuse")
	}
	t.Cleanup(func() { fuse.Close() })
	if dir, err = os.MkdirTemp("", "reapfuse"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	return startBox(t, append(options, withEnv("REAPTEST_FUSE="+dir), func(c *exec.Cmd, _ *wire.Policy) {
		c.ExtraFiles = []*os.File{fuse}
	})...), dir, fuse
}

// A spawn that hangs on a dead file system is told of, and holds up neither
// other spawns nor exits nor the end of the container.
func TestStuckSpawn(t *testing.T) {
	b, dir, _ := startBoxWithDeadMount(t)
	l := b.link
	hang := func() uint64 {
		id, _ := l.spawn(t, func(m *wire.Spawn) { m.Dir = dir }, "exit", "0")
		return id
	}
	first := hang()
	id, _ := l.spawn(t, nil, "exit", "5")
	if got := l.exited(t, id); got.Code != 5 {
		t.Errorf("beside a stuck spawn: %+v", got)
	}
	want(t, l, func(m *wire.SpawnStuck) bool { return m.ID == first })
	failed := want(t, l, func(m *wire.SpawnFailed) bool { return m.ID == first })
	if failed.Step != wire.StepDir || failed.Errno != int32(unix.ETIMEDOUT) {
		t.Errorf("failed at step %d, %v", failed.Step, unix.Errno(failed.Errno))
	}
	hang()
	hang()
	began := time.Now()
	b.cmd.Process.Signal(unix.SIGTERM)
	want[*wire.Shutdown](t, l, nil)
	l.send(t, &wire.StopBegun{})
	l.send(t, &wire.StopDone{})
	if code := b.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(began); took > 4500*time.Millisecond {
		t.Errorf("the stop took %v", took)
	}
}

// Where many hang, others are started meanwhile.
func TestSpawnBesideStuckOnes(t *testing.T) {
	b, dir, _ := startBoxWithDeadMount(t)
	l := b.link
	began := time.Now()
	for range threads.Most - 2 {
		l.spawn(t, func(m *wire.Spawn) { m.Dir = dir }, "exit", "0")
	}
	id, _ := l.spawn(t, nil, "exit", "5")
	if got := l.exited(t, id); got.Code != 5 {
		t.Errorf("%+v", got)
	}
	if took := time.Since(began); took > 1900*time.Millisecond { // when the first is stuck
		t.Errorf("it took %v", took)
	}
}

// What was still to be spawned when all others got their TERM gets it as soon
// as it runs.
func TestQueuedSpawnAtTheEnd(t *testing.T) {
	b, dir, _ := startBoxWithDeadMount(t, withPolicy(func(p *wire.Policy) { p.StopNanos = int64(9 * time.Second) }))
	l := b.link
	hang := func() { l.spawn(t, func(m *wire.Spawn) { m.Dir = dir }, "exit", "0") }
	run := func(seconds string) uint64 {
		id, _ := l.spawn(t, func(m *wire.Spawn) { m.Path, m.Argv = "/bin/sleep", []string{"sleep", seconds} })
		return id
	}
	hang()
	l.exited(t, run("0.5")) // the others come free later than the first
	for range threads.Most - 2 {
		hang()
	}
	id := run("1000")
	began := time.Now()
	b.cmd.Process.Signal(unix.SIGTERM)
	if got := l.exited(t, id); got.Signal != int32(unix.SIGTERM) {
		t.Errorf("%+v", got)
	}
	if code := b.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the stop took %v", took)
	}
}

// With the pids limit used up nothing can be spawned, and that is all.
func TestPidsLimit(t *testing.T) {
	group := pidsGroup(t)
	b := startBox(t)
	joinGroup(t, group, b)
	l := b.link
	bomb, out := l.spawn(t, nil, "fill")
	l.spawned(t, bomb)
	if got := b.link.line(t, out); got != "full" {
		t.Fatal(got)
	}
	threads := b.threads()
	for range 200 {
		id, _ := l.spawn(t, func(m *wire.Spawn) { m.Path, m.Argv = "/bin/true", []string{"true"} })
		got := want(t, l, func(m *wire.SpawnFailed) bool { return m.ID == id })
		if got.Step != wire.StepFork || got.Errno != int32(unix.EAGAIN) {
			t.Fatalf("%+v", got)
		}
		l.send(t, &wire.Acknowledge{ID: id})
	}
	if now := b.threads(); now != threads {
		t.Errorf("%d threads became %d", threads, now)
	}
	l.signal(t, bomb, unix.SIGKILL, wire.ScopeGroup)
	l.exited(t, bomb)
	var ok uint64
	eventually(t, "a spawn works again", func() bool {
		ok, _ = l.spawn(t, func(m *wire.Spawn) { m.Path, m.Argv = "/bin/true", []string{"true"} })
		for {
			m, _ := l.receive(t)
			switch m := m.(type) {
			case *wire.SpawnFailed:
				if m.ID == ok {
					return false
				}
			case *wire.Spawned:
				if m.ID == ok {
					return true
				}
			}
		}
	})
	t.Logf("%d threads", threads)
}

// pidsGroup makes a cgroup of at most 40 processes and threads.
func pidsGroup(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for a cgroup")
	}
	name := fmt.Sprintf("reaptest%d", os.Getpid())
	for _, root := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup"} {
		group := filepath.Join(root, name)
		if os.Mkdir(group, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { eventuallyRemoved(group) })
		if os.WriteFile(filepath.Join(group, "pids.max"), []byte("40"), 0) == nil {
			return group
		}
	}
	t.Skip("needs a writable pids cgroup")
	return ""
}

func eventuallyRemoved(group string) {
	for end := time.Now().Add(5 * time.Second); os.Remove(group) != nil && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

// joinGroup moves a box, with all that is in it, into a cgroup.
func joinGroup(t *testing.T, group string, b *box) {
	t.Helper()
	pids := []int{b.cmd.Process.Pid}
	for pid := range b.processes() {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	for _, pid := range pids {
		if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(fmt.Sprint(pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
}
