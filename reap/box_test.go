package reap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"rlminit/isolate"
	"rlminit/reap/sys"
	"rlminit/wire"
)

// The test binary plays every part: PID 1 of a PID namespace (init), the reader
// of the configuration (compile), tier 2 (supervise) and its children (child).
// Tier 2 hands its end of the pair to the test and does nothing else, so the
// test itself speaks the protocol.
func init() {
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case "enter":
		enter()
	case "init":
		os.Exit(Run(Options{Args: os.Args[2:]}))
	case "compile":
		compilePolicy()
	case "supervise":
		handOver()
	case "rights":
		reportRights()
	case "child":
		play(os.Args[2:])
	}
}

// Variables by which the parts find each other.
const (
	envPolicy = "REAPTEST_POLICY" // file with an encoded policy
	envSocket = "REAPTEST_SOCKET" // where tier 2 brings its descriptors
)

// enter runs in the new namespaces: it mounts what belongs to them and becomes init.
func enter() {
	must(unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""))
	must(unix.Mount("proc", "/proc", "proc", 0, ""))
	must(unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"))
	if dir := os.Getenv("REAPTEST_FUSE"); dir != "" {
		must(unix.Mount("dead", dir, "fuse", 0, "fd=3,rootmode=40000,user_id=0,group_id=0,allow_other"))
		unix.Close(3)
	}
	if limit := os.Getenv("REAPTEST_NOFILE"); limit != "" {
		n, _ := strconv.ParseUint(limit, 10, 64)
		must(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}))
	}
	runtime.LockOSThread()
	if drop := os.Getenv("REAPTEST_DROP"); drop != "" {
		n, _ := strconv.Atoi(drop)
		must(unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(n), 0, 0, 0))
	}
	if of := os.Getenv("REAPTEST_NOPIDFD"); of != "" {
		must(refusePidfds(of))
	}
	if os.Getenv("REAPTEST_NOPROC") != "" {
		for unix.Unmount("/proc", unix.MNT_DETACH) == nil {
		}
	}
	if uid := os.Getenv("REAPTEST_UID"); uid != "" {
		n, _ := strconv.Atoi(uid)
		sys.SetGroups(nil)
		must(unix.Chown("/run", n, -1))
		must(unix.Setresgid(n, n, n))
		must(unix.Setresuid(n, n, n))
	}
	must(unix.Exec(os.Args[0], append([]string{os.Args[0]}, os.Args[2:]...), os.Environ()))
}

// refusePidfds installs a filter, seccomp(2), that refuses CLONE_PIDFD of clone,
// or pidfd_open.
func refusePidfds(of string) error {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE, Jt: 0, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16}, // its first argument
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.CLONE_PIDFD, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x00050000 | uint32(unix.EPERM)}, // SECCOMP_RET_ERRNO
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000},                      // SECCOMP_RET_ALLOW
	}
	if of == "open" {
		program = []unix.SockFilter{
			program[0],
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PIDFD_OPEN, Jt: 0, Jf: 1},
			program[4], program[5],
		}
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, 1, 0, uintptr(unsafe.Pointer(&unix.SockFprog{
		Len: uint16(len(program)), Filter: &program[0],
	})))
	if errno != 0 {
		return errno
	}
	return nil
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "reap test:", err)
		os.Exit(99)
	}
}

func compilePolicy() {
	content, err := os.ReadFile(os.Getenv(envPolicy))
	must(err)
	_, err = unix.Write(3, content)
	must(err)
	_, err = unix.Write(4, []byte("bundle"))
	must(err)
	if p, err := wire.DecodePolicy(content); err == nil && p.Enclosed {
		_, err := isolate.Enclose(5, wire.EnclosureRights(sys.LandlockABI()), p.Volume, "/run/rlminit")
		must(err)
	}
	os.Exit(0)
}

// handOver gives descriptors 3 to 6 to the test, and waits to be killed.
func handOver() {
	conn, err := net.Dial("unix", os.Getenv(envSocket))
	must(err)
	status, _ := os.ReadFile("/proc/self/status")
	status = fmt.Appendf(status, "TimerSlack:\t%d\n", timerSlack())
	_, _, err = conn.(*net.UnixConn).WriteMsgUnix(status, unix.UnixRights(3, 4, 5, 6), nil)
	must(err)
	for fd := 3; fd <= 6; fd++ {
		unix.Close(fd)
	}
	select {}
}

const (
	testUser  = 4711
	testGroup = 4712
	lowTag    = 50000
)

func basePolicy() *wire.Policy {
	return &wire.Policy{
		Version: wire.Version,
		User:    wire.Identity{UID: testUser, GID: testGroup, Groups: []uint32{4713}, Name: "app", Home: "/tmp"},
		TagLow:  lowTag, TagHigh: lowTag + 999,
		StopNanos: int64(3 * time.Second),
		Volume:    "/data",

		Supervisor: wire.Identity{UID: testUser, GID: testGroup, Groups: []uint32{4713}, Name: "app", Home: "/tmp"},
	}
}

// box is a container: a PID namespace with tier 1 as its PID 1.
type box struct {
	t        *testing.T
	dir      string
	cmd      *exec.Cmd
	listener *net.UnixListener
	stderr   *lines
	link     *link
	done     chan error
}

// link is the test's side of the pair: it is tier 2.
type link struct {
	socket, control int
	bundle, policy  int
	status          string
	receiver        wire.Receiver
	parts           []wire.Message // of one, that nobody has received yet
	next            uint64
	welcome         *wire.Welcome
	snapshot        []*wire.Child
	held            map[string]int
	waiting         []wire.Message
}

type boxOption func(*exec.Cmd, *wire.Policy)

func withEnv(kv string) boxOption {
	return func(c *exec.Cmd, _ *wire.Policy) { c.Env = append(c.Env, kv) }
}

func withPolicy(change func(*wire.Policy)) boxOption {
	return func(_ *exec.Cmd, p *wire.Policy) { change(p) }
}

func withMain(argv ...string) boxOption {
	return withPolicy(func(p *wire.Policy) {
		p.Main = &wire.Program{
			Name: "main", Argv: argv, Env: []string{"PATH=/usr/bin:/bin"}, Identity: p.User, NoNewPrivs: true,
			Umask: 0o022, StopSignal: int32(unix.SIGTERM),
		}
	})
}

// childArgv is the command of a child that plays a part.
func childArgv(part ...string) []string {
	return append([]string{"/proc/self/exe", "child"}, part...)
}

// newBox starts a container. It needs root, for the namespace and the users.
func newBox(t *testing.T, options ...boxOption) *box {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for a PID namespace and other users")
	}
	dir, err := os.MkdirTemp("", "reap")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	os.Chmod(dir, 0o755)
	b := &box{t: t, dir: dir, done: make(chan error, 1), stderr: newLines()}
	socket := filepath.Join(dir, "hand")
	b.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	os.Chmod(socket, 0o777)
	policyFile := filepath.Join(dir, "policy")
	// A copy, which the service user can reach where there is no /proc.
	self := filepath.Join(dir, "rlminit")
	content, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(self, content, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.cmd = exec.Command(self, "enter", "init", "--config=test")
	b.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", envPolicy+"="+policyFile, envSocket+"="+socket)
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC}
	b.cmd.Stderr = b.stderr
	policy := basePolicy()
	for _, option := range options {
		option(b.cmd, policy)
	}
	if err := os.WriteFile(policyFile, wire.EncodePolicy(policy), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { b.done <- b.cmd.Wait() }()
	t.Cleanup(func() {
		b.cmd.Process.Kill()
		b.listener.Close()
		if t.Failed() {
			t.Logf("stderr of the box:\n%s", b.stderr)
		}
	})
	return b
}

// startBox starts a container and greets tier 1 as its tier 2.
func startBox(t *testing.T, options ...boxOption) *box {
	t.Helper()
	b := newBox(t, options...)
	b.link = b.accept()
	b.link.hello(b.t)
	return b
}

// accept waits for a tier 2 to bring its descriptors.
func (b *box) accept() *link {
	b.t.Helper()
	b.listener.SetDeadline(time.Now().Add(15 * time.Second))
	conn, err := b.listener.AcceptUnix()
	if err != nil {
		b.t.Fatalf("no tier 2 came: %v\n%s", err, b.stderr)
	}
	defer conn.Close()
	status, oob := make([]byte, 8192), make([]byte, 256)
	n, oobn, _, _, err := conn.ReadMsgUnix(status, oob)
	if err != nil {
		b.t.Fatal(err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		b.t.Fatalf("tier 2 brought no descriptors: %v", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 4 {
		b.t.Fatalf("tier 2 brought %d descriptors: %v", len(fds), err)
	}
	b.t.Cleanup(func() { wire.CloseAll(fds) })
	return &link{socket: fds[0], control: fds[1], bundle: fds[2], policy: fds[3], status: string(status[:n]), held: map[string]int{}}
}

// send sends a message to tier 1.
func (l *link) send(t *testing.T, m wire.Message, fds ...int) {
	t.Helper()
	for {
		err := wire.Send(l.socket, m, fds...)
		if err == nil {
			return
		}
		if !errors.Is(err, wire.ErrFull) {
			t.Fatalf("cannot send %T: %v", m, err)
		}
		l.drain(t) // pings, above all
		unix.Poll([]unix.PollFd{{Fd: int32(l.socket), Events: unix.POLLOUT}}, 100)
	}
}

// receive returns the next message, and answers pings.
func (l *link) receive(t *testing.T) (wire.Message, []int) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for {
		if len(l.parts) > 0 {
			m := l.parts[0]
			l.parts = l.parts[1:]
			return m, nil
		}
		m, fds, err := l.receiver.Receive(l.socket)
		switch {
		case errors.Is(err, wire.ErrEmpty):
			if time.Now().After(deadline) {
				t.Fatal("tier 1 says nothing")
			}
			unix.Poll([]unix.PollFd{{Fd: int32(l.socket), Events: unix.POLLIN}}, 1000)
			continue
		case err != nil:
			t.Fatalf("cannot receive: %v", err)
		}
		if ping, ok := m.(*wire.Ping); ok {
			l.send(t, &wire.Pong{Seq: ping.Seq})
			continue
		}
		if _, many := m.(*wire.Many); many { // none of which has descriptors
			wire.Each(m, fds, func(m wire.Message, _ []int) { l.parts = append(l.parts, m) })
			continue
		}
		return m, fds
	}
}

// want returns the next message of a type that fits; others wait their turn.
func want[M wire.Message](t *testing.T, l *link, fits func(M) bool) M {
	t.Helper()
	for i, m := range l.waiting {
		if m, ok := m.(M); ok && (fits == nil || fits(m)) {
			l.waiting = slices.Delete(l.waiting, i, i+1)
			return m
		}
	}
	for {
		m, _ := l.receive(t)
		if m, ok := m.(M); ok && (fits == nil || fits(m)) {
			return m
		}
		l.waiting = append(l.waiting, m)
	}
}

func (l *link) hello(t *testing.T) {
	t.Helper()
	l.send(t, &wire.Hello{Version: wire.Version})
	for {
		m, fds := l.receive(t)
		switch m := m.(type) {
		case *wire.Welcome:
			l.welcome, l.next = m, m.NextID
		case *wire.Child:
			l.snapshot = append(l.snapshot, m)
		case *wire.Held:
			if len(fds) > 0 {
				l.held[m.Key] = fds[0]
			}
		case *wire.SnapshotEnd:
			return
		default:
			t.Fatalf("%T in the snapshot", m)
		}
	}
}

// spawn asks for a child that plays a part, with stdout to a pipe of which it
// returns the other end.
func (l *link) spawn(t *testing.T, change func(*wire.Spawn), part ...string) (uint64, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	t.Cleanup(func() { r.Close() })
	m := &wire.Spawn{
		ID: l.next, Name: "svc" + strconv.FormatUint(l.next, 10), Path: "/proc/self/exe", Argv: childArgv(part...),
		Env: []string{"PATH=/usr/bin:/bin", "A=b"}, Dir: "/", Umask: 0o027,
		Tag: lowTag + uint32(l.next%900), Targets: []int32{1}, NoNewPrivs: true,
	}
	l.next++
	if change != nil {
		change(m)
	}
	l.send(t, m, int(w.Fd()))
	return m.ID, r
}

func (l *link) spawned(t *testing.T, id uint64) *wire.Spawned {
	t.Helper()
	return want(t, l, func(m *wire.Spawned) bool { return m.ID == id })
}

func (l *link) exited(t *testing.T, id uint64) wire.Exit {
	t.Helper()
	answer := want(t, l, func(m wire.Message) bool {
		switch m := m.(type) {
		case *wire.Exited:
			return m.ID == id
		case *wire.SpawnFailed:
			return m.ID == id
		}
		return false
	})
	m, ok := answer.(*wire.Exited)
	if !ok {
		t.Fatalf("there is no process: %+v", answer)
	}
	return m.Exit
}

func (l *link) signal(t *testing.T, id uint64, signal unix.Signal, scope wire.Scope) *wire.Signalled {
	t.Helper()
	l.send(t, &wire.Signal{ID: id, Signal: int32(signal), Scope: scope})
	return want(t, l, func(m *wire.Signalled) bool { return m.ID == id && m.Scope == scope })
}

// wait returns the container's exit code.
func (b *box) wait() int {
	b.t.Helper()
	select {
	case err := <-b.done:
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
				b.t.Fatalf("PID 1 was killed by %v", status.Signal())
			}
			return exit.ExitCode()
		}
		if err != nil {
			b.t.Fatal(err)
		}
		return 0
	case <-time.After(20 * time.Second):
		b.t.Fatalf("the container does not end\n%s", b.stderr)
	}
	return -1
}

// threads counts PID 1's threads.
func (b *box) threads() int {
	return statusNumber(b.t, b.cmd.Process.Pid, "Threads")
}

func statusNumber(t *testing.T, pid int, key string) int {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			n, _ := strconv.Atoi(strings.Fields(value)[0])
			return n
		}
	}
	t.Fatalf("no %s in the status of %d", key, pid)
	return 0
}

// processes returns the state letter of every process in the box but PID 1, by
// the pid that the test sees.
func (b *box) processes() map[int]string {
	found := map[int]string{}
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", b.cmd.Process.Pid))
	if err != nil {
		return found
	}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == b.cmd.Process.Pid {
			continue
		}
		// A zombie's link can still be read by root.
		if ns, err := os.Readlink("/proc/" + entry.Name() + "/ns/pid"); err != nil || ns != own {
			continue
		}
		content, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue
		}
		rest := string(content[bytes.LastIndexByte(content, ')')+2:])
		found[pid] = rest[:1]
	}
	return found
}

// zombies counts children of PID 1 that were not collected.
func (b *box) zombies() int {
	n := 0
	for _, state := range b.processes() {
		if state == "Z" {
			n++
		}
	}
	return n
}

// eventually waits for a condition that no event announces, as of another
// process's state.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come about that %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// decode reads what a child printed as JSON.
func decode[T any](t *testing.T, f *os.File) T {
	t.Helper()
	var v T
	f.SetReadDeadline(time.Now().Add(10 * time.Second))
	if err := json.NewDecoder(f).Decode(&v); err != nil {
		t.Fatalf("the child printed no report: %v", err)
	}
	return v
}

// line reads a line that a child printed, and answers pings meanwhile.
func (l *link) line(t *testing.T, f *os.File) string {
	t.Helper()
	var got []byte
	var one [1]byte
	for end := time.Now().Add(2 * time.Minute); ; { // a thousand forks take a busy machine a minute
		f.SetReadDeadline(time.Now().Add(time.Second))
		_, err := f.Read(one[:])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(end):
			if l.socket > 0 {
				l.drain(t)
			}
			continue
		case err != nil:
			t.Fatalf("the child printed %q and then: %v", got, err)
		case one[0] == '\n':
			return string(got)
		}
		got = append(got, one[0])
	}
}
