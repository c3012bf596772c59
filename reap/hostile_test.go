package reap

import (
	"fmt"
	"math/rand"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/wire"
)

// The tests here are a tier 2 that an intruder has taken over.

// answersSoon fails the test unless PID 1 handles what is sent now within a
// second or two, after all that was sent before.
func (b *box) answersSoon(t *testing.T, what string) {
	t.Helper()
	began := time.Now()
	b.link.signal(t, 1<<40, 0, wire.ScopeMain)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("PID 1 took %s to answer after %s", took, what)
	}
}

// drain takes what has come, for later.
func (l *link) drain(t *testing.T) {
	t.Helper()
	for {
		m, _, err := l.receiver.Receive(l.socket)
		if err == wire.ErrEmpty {
			return
		}
		if err != nil {
			t.Fatalf("cannot receive: %v", err)
		}
		if ping, ok := m.(*wire.Ping); ok {
			l.send(t, &wire.Pong{Seq: ping.Seq})
			continue
		}
		wire.Each(m, nil, func(m wire.Message, _ []int) { l.waiting = append(l.waiting, m) })
	}
}

// peak returns the most memory that PID 1 ever had, in KB.
func (b *box) peak(t *testing.T) int { return statusNumber(t, b.cmd.Process.Pid, "VmHWM") }

// mostPeak is what PID 1 may have taken after an attack, in KB.
const mostPeak = heavier * 96 << 10

// Bytes at random, and messages with some bytes changed, with descriptors and in
// memfds: PID 1 has no fault, stays small, and is a good init afterwards.
func TestRandomBytes(t *testing.T) {
	duration := time.Second
	if os.Getenv("RLMINIT_TEST_LONG") != "" {
		duration = time.Minute
	}
	b := startBox(t)
	l := b.link
	random := rand.New(rand.NewSource(time.Now().UnixNano()))
	templates := layouts(t)
	sent := 0
	for end := time.Now().Add(duration); time.Now().Before(end); sent++ {
		body := slices.Clone(templates[random.Intn(len(templates))])
		switch random.Intn(3) {
		case 0:
			random.Read(body)
		case 1:
			body = body[:random.Intn(len(body)+1)]
		}
		for range random.Intn(3) {
			if len(body) > 0 {
				body[random.Intn(len(body))] = byte(random.Intn(256))
			}
		}
		if len(body) > 0 && body[0] == byte(wire.KindEnd) {
			continue // which it may ask for
		}
		fds := make([]int, random.Intn(5)) // stdin
		if random.Intn(4) == 0 {
			memfd, err := wire.Sealed("random", body)
			if err != nil {
				t.Fatal(err)
			}
			body, fds = []byte{255}, append(fds, memfd)
			slices.Reverse(fds)
		}
		for {
			err := unix.Sendmsg(l.socket, body, unix.UnixRights(fds...), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			if err == nil {
				break
			}
			if err != unix.EAGAIN {
				t.Fatalf("after %d messages: %v", sent, err)
			}
			l.drain(t)
			l.waiting = nil
		}
		if len(fds) > 0 && fds[0] != 0 {
			unix.Close(fds[0])
		}
	}
	b.answersSoon(t, "random bytes")
	if out := b.stderr.String(); strings.Contains(out, "internal error") {
		t.Error(out)
	}
	if peak := b.peak(t); peak > mostPeak {
		t.Errorf("PID 1 took %d KB", peak)
	}
	b.nextIsWell(t)
	t.Logf("%d messages", sent)
}

// nextIsWell replaces tier 2, and has the next one run a process.
func (b *box) nextIsWell(t *testing.T) {
	t.Helper()
	killTier2(t, b)
	b.link = b.accept()
	b.link.hello(t)
	id, _ := b.link.spawn(t, nil, "exit", "3")
	if got := b.link.exited(t, id); got.Code != 3 {
		t.Errorf("%+v", got)
	}
}

// Whoever asks for a process of rlminit's own with a descriptor that is for something else
// is refused, and PID 1 keeps none of what came.
func TestOwnProcessesWithOtherDescriptors(t *testing.T) {
	b := startBox(t, withPolicy(func(p *wire.Policy) {
		p.Supervisor = wire.Identity{UID: 4720, GID: 4720}
		p.Profiles = wire.Profiles{Low: 5000, High: 5001}
	}))
	l := b.link
	count := func() int {
		b.answersSoon(t, "it")
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(open)
	}
	before := count()
	for _, name := range []string{
		wire.FilesProgram, wire.ConfigurationProgram, wire.DirectoriesProgram, wire.OwnProgram,
		wire.GiveProgram, wire.TakeProgram, wire.RemoveProgram,
	} {
		for what, instead := range map[string]func(*wire.Spawn){
			"credentials":     func(m *wire.Spawn) { m.Credentials = true },
			"a notify socket": func(m *wire.Spawn) { m.Notify = true },
			"a ruleset":       func(m *wire.Spawn) { m.Ruleset = true },
		} {
			id, _ := l.spawn(t, func(m *wire.Spawn) {
				m.Name, m.Privileged, m.Tag, m.Targets, m.Argv = name, true, 0, nil, []string{strings.Repeat("0", 64)}
				instead(m)
			})
			if failed := l.refused(t, id); failed.Step != wire.StepPolicy {
				t.Errorf("%s with %s: %+v", name, what, failed)
			}
		}
	}
	if out := b.stderr.String(); strings.Contains(out, "internal error") {
		t.Error(out)
	}
	if after := count(); after > before {
		t.Errorf("PID 1 had %d descriptors, and has %d", before, after)
	}
	b.nextIsWell(t)
}

// No tier 2 can use up the ids of those that come after it.
func TestIdsDoNotRunOut(t *testing.T) {
	b := startBox(t)
	for id := uint64(1); id != 0; id <<= 1 {
		for _, id := range []uint64{id, id - 1} {
			b.link.send(t, &wire.Spawn{ID: id, Name: "x", Path: "/bin/true", Argv: []string{"true"}, NoNewPrivs: true})
		}
	}
	b.answersSoon(t, "spawns with great ids")
	b.nextIsWell(t)
}

// layouts are messages of tier 2's as they are sent.
func layouts(t *testing.T) [][]byte {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer wire.CloseAll(pair[:])
	var all [][]byte
	for _, m := range []wire.Message{
		&wire.Hello{Version: wire.Version}, &wire.Signal{ID: 20, Signal: 9, Scope: wire.ScopeLeftover}, &wire.Acknowledge{ID: 20},
		&wire.Hold{Key: "log/a"}, &wire.Release{Key: "log/a"}, &wire.Pong{Seq: 1}, &wire.StopBegun{}, &wire.StopDone{},
		&wire.Spawn{
			ID: 20, Name: "svc", Path: "/bin/true", Argv: []string{"true"}, Env: []string{"A=b"}, Dir: "/tmp", Umask: 0o22,
			Rlimits: []wire.Rlimit{{Resource: unix.RLIMIT_CORE}}, Tag: lowTag, Targets: []int32{0, 1}, NoNewPrivs: true,
		},
		&wire.Spawn{ID: 21, Name: "other", Path: "/bin/true", Argv: []string{"true"}, NoNewPrivs: true},
	} {
		if err := wire.Send(pair[0], m); err != nil {
			t.Fatal(err)
		}
		body := make([]byte, 4096)
		n, err := unix.Read(pair[1], body)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, body[:n])
	}
	return all
}

// Keys without descriptors, and more keys than there can be descriptors, are
// not kept.
func TestHoldFlood(t *testing.T) {
	b := startBox(t)
	l := b.link
	for i := range 100_000 {
		l.send(t, &wire.Hold{Key: fmt.Sprintf("%0250d", i)})
	}
	b.answersSoon(t, "100,000 keys")
	if peak := b.peak(t); peak > mostPeak {
		t.Errorf("PID 1 took %d KB for keys without descriptors", peak)
	}
}

// Requests of the largest size, by the hundred: each is refused or fails, and
// PID 1 stays small.
func TestHugeSpawns(t *testing.T) {
	b := startBox(t)
	l := b.link
	words := make([]string, 900_000)
	page := strings.Repeat("x", 100<<10)
	long := make([]string, 38)
	for i := range long {
		long[i] = page
	}
	limits := make([]wire.Rlimit, 190_000)
	for i := range 60 / slower {
		m := &wire.Spawn{ID: l.next, Name: "huge", Path: "/proc/self/exe", Argv: childArgv("exit", "0"), NoNewPrivs: true}
		l.next++
		switch i % 3 {
		case 0:
			m.Env = words
		case 1:
			m.Argv = long
		case 2:
			m.Rlimits = limits
		}
		l.send(t, m)
		l.drain(t)
	}
	for range 60 / slower {
		want[*wire.SpawnFailed](t, l, nil)
	}
	b.answersSoon(t, "60 huge requests")
	if peak := b.peak(t); peak > mostPeak {
		t.Errorf("PID 1 took %d KB for huge requests", peak)
	}
}

// Descriptors that wait with their spawns are bounded as held ones are.
func TestDescriptorFlood(t *testing.T) {
	b := startBox(t, withEnv("REAPTEST_NOFILE=1024"))
	l := b.link
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var fds []int
	var targets []int32
	for i := range 60 {
		fds, targets = append(fds, int(null.Fd())), append(targets, int32(3+i))
	}
	for i := range 100 {
		l.send(t, &wire.Hold{Key: fmt.Sprint("key", i)}, fds...)
	}
	for range 400 {
		l.send(t, &wire.Spawn{ID: l.next, Name: "x", Path: "/bin/sleep", Argv: []string{"sleep", "1000"}, NoNewPrivs: true, Targets: targets}, fds...)
		l.next++
	}
	b.answersSoon(t, "a flood of descriptors")
	// The next supervisor comes, though this one's things are still held.
	unix.Shutdown(l.socket, unix.SHUT_RDWR)
	b.link = b.accept()
	b.link.hello(t)
	id, out := b.link.spawn(t, nil, "exit", "3")
	defer out.Close()
	b.link.spawned(t, id)
	if exit := b.link.exited(t, id); exit.Code != 3 {
		t.Errorf("exit %+v", exit)
	}
}

// A socket that lingers makes close(2) wait. PID 1 does not.
func TestLingeringSocket(t *testing.T) {
	b := startBox(t)
	l := b.link
	for i := range 4 {
		key := fmt.Sprint("linger", i)
		fd := lingering(t)
		switch i % 2 {
		case 0:
			l.send(t, &wire.Hold{Key: key}, fd)
			unix.Close(fd)
			l.send(t, &wire.Release{Key: key})
		case 1: // with a message that is refused
			l.send(t, &wire.Pong{}, fd)
			go unix.Close(fd) // whoever is the last to close it has to wait
			l.send(t, &wire.Spawn{ID: 1}, lingering(t))
		}
		b.answersSoon(t, "a socket that lingers")
	}
	id, _ := l.spawn(t, nil, "exit", "3")
	l.spawned(t, id)
	if exit := l.exited(t, id); exit.Code != 3 {
		t.Errorf("exit %+v", exit)
	}
}

// lingering returns a connection whose last close waits for ten minutes: its
// peer does not read what is still to be sent.
func lingering(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	file, err := conn.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	unix.SetNonblock(fd, true)
	block := make([]byte, 64<<10)
	for {
		if _, err := unix.Write(fd, block); err == unix.EAGAIN {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	unix.SetNonblock(fd, false)
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 600}); err != nil {
		t.Fatal(err)
	}
	return fd
}
