package logs

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary plays tier 2 and the services; the test is tier 1.
const playVariable = "RLMINIT_LOGS_TEST_PLAYS"

func TestMain(m *testing.M) {
	switch role := os.Getenv(playVariable); {
	case role == "":
		os.Exit(m.Run())
	case role == "collector":
		playCollector()
	default:
		playService(role)
	}
}

var killConfig = Config{File: true, Timestamps: true, MaxSize: 128 << 10}

var killNames = []string{"a", "b", "c"}

// playCollector is tier 2. Descriptor 3 is the connection to tier 1, and those
// that tier 1 held follow it.
func playCollector() {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "collector:", err)
			os.Exit(1)
		}
	}
	next := 4
	held := func(n int) []int {
		if os.Getenv("HELD") == "" {
			return nil
		}
		var fds []int
		for range n {
			fds = append(fds, next)
			next++
		}
		return fds
	}
	c, err := New(Options{Home: os.Getenv("LOG_HOME"), Tee: -1, Held: held(1), receives: os.Getenv("LOG_READ") != ""})
	check(err)
	fresh := c.Held()
	slots := map[string]*Slot{}
	for _, name := range killNames {
		cfg := killConfig
		cfg.Dir = "logs/" + name
		slots[name], err = c.Open(name, cfg, held(4))
		check(err)
		fresh = append(fresh, slots[name].Held()...)
	}
	if os.Getenv("HELD") == "" {
		check(unix.Sendmsg(3, []byte("held"), unix.UnixRights(fresh...), nil, 0))
	}
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(3, buf)
		if err == unix.EINTR {
			continue
		}
		check(err)
		if n == 0 {
			check(c.Close(10 * time.Second))
			return
		}
		var name string
		var id uint64
		_, err = fmt.Sscan(string(buf[:n]), &name, &id)
		check(err)
		slots[name].MarkExit(id, fmt.Sprintf("exited %d", id), func(string) {
			_, err := unix.Write(3, fmt.Appendf(nil, "%s %d", name, id))
			check(err)
		})
	}
}

// words is what a service writes to a stream in one of its lives; the last line
// has no end.
func words(seed uint64, stream int) []byte {
	random := rand.New(rand.NewPCG(seed, uint64(stream)))
	var b bytes.Buffer
	for i := range 200 + random.IntN(2000) {
		n := random.IntN(200)
		if random.IntN(1000) == 0 {
			n = random.IntN(100000)
		}
		fmt.Fprintf(&b, "%d.%d.%d ", seed, stream, i)
		for range n {
			b.WriteByte(byte(' ' + random.IntN(95)))
		}
		if random.IntN(100) == 0 {
			b.WriteString("\x00\xff\r")
		}
		b.WriteByte('\n')
	}
	b.WriteString("last words")
	return b.Bytes()
}

// playService writes its words, in pieces of any size, and dies.
func playService(role string) {
	var seed uint64
	fmt.Sscan(role, &seed)
	var both sync.WaitGroup
	for stream, w := range []io.Writer{os.Stdout, os.Stderr} {
		both.Go(func() {
			random := rand.New(rand.NewPCG(seed, 99))
			for text := words(seed, stream); len(text) > 0; {
				n := min(len(text), 1+random.IntN(1<<random.IntN(16)))
				if _, err := w.Write(text[:n]); err != nil {
					os.Exit(1)
				}
				text = text[n:]
			}
		})
	}
	both.Wait()
	unix.Kill(os.Getpid(), unix.SIGKILL)
}

// tier1 holds the descriptors, and replaces its collector at once.
type tier1 struct {
	t    *testing.T
	home string
	read bool // splice(2) is refused
	held []*os.File

	mu      sync.Mutex
	conn    *os.File
	process *os.Process
	pending map[string]uint64 // exits not acknowledged
	acked   map[string]chan struct{}
	over    bool
	ended   chan struct{}
}

func (p *tier1) spawn() {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "tier 1"), os.NewFile(uintptr(pair[1]), "tier 2")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), playVariable+"=collector", "LOG_HOME="+p.home)
	cmd.ExtraFiles = append([]*os.File{theirs}, p.held...)
	cmd.Stderr = os.Stderr
	if p.held != nil {
		cmd.Env = append(cmd.Env, "HELD=yes")
	}
	if p.read {
		cmd.Env = append(cmd.Env, "LOG_READ=yes")
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	theirs.Close()
	if p.held == nil {
		p.receive(ours)
	}
	p.mu.Lock()
	p.conn, p.process = ours, cmd.Process
	for name, id := range p.pending {
		fmt.Fprintf(ours, "%s %d", name, id)
	}
	p.mu.Unlock()
	go p.listen(ours)
	go func() {
		err := cmd.Wait()
		p.mu.Lock()
		over := p.over
		p.mu.Unlock()
		if over {
			if err != nil {
				p.t.Error(err)
			}
			close(p.ended)
			return
		}
		p.spawn()
	}()
}

func (p *tier1) receive(conn *os.File) {
	oob := make([]byte, 1024)
	_, n, _, _, err := unix.Recvmsg(int(conn.Fd()), make([]byte, 16), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		p.t.Fatal(err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		p.t.Fatal(err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		p.t.Fatal(err)
	}
	for _, fd := range fds {
		p.held = append(p.held, os.NewFile(uintptr(fd), "held"))
	}
}

func (p *tier1) listen(conn *os.File) {
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		if err != nil || n == 0 {
			return
		}
		var name string
		var id uint64
		fmt.Sscan(string(buf[:n]), &name, &id)
		p.mu.Lock()
		if p.pending[name] == id {
			delete(p.pending, name)
			p.acked[name] <- struct{}{}
		}
		p.mu.Unlock()
	}
}

// exited tells tier 2 of an exit until it acknowledges.
func (p *tier1) exited(name string, id uint64) error {
	p.mu.Lock()
	p.pending[name] = id
	fmt.Fprintf(p.conn, "%s %d", name, id)
	p.mu.Unlock()
	select {
	case <-p.acked[name]:
		return nil
	case <-time.After(60 * time.Second):
		return fmt.Errorf("exit %d of %s was never marked", id, name)
	}
}

// TestKills is the promise: checksums over 100 rotations, 100 service crashes
// and 100 kills of the collector.
func TestKills(t *testing.T) {
	t.Run("spliced", func(t *testing.T) { killOften(t, false) })
	t.Run("read", func(t *testing.T) { killOften(t, true) })
}

func killOften(t *testing.T, read bool) {
	const kills = 100
	p := &tier1{t: t, home: t.TempDir(), read: read, pending: map[string]uint64{}, acked: map[string]chan struct{}{}, ended: make(chan struct{})}
	for _, name := range killNames {
		p.acked[name] = make(chan struct{}, 1)
	}
	p.spawn()
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		random := rand.New(rand.NewPCG(1, 1))
		for range kills {
			time.Sleep(time.Duration(1+random.IntN(40)) * time.Millisecond) // the instant is what is random
			p.mu.Lock()
			p.process.Kill()
			p.mu.Unlock()
		}
	}()
	lives := make([]uint64, len(killNames))
	failed := make(chan error, len(killNames))
	for i, name := range killNames {
		go func() {
			failed <- func() error {
				for life := uint64(1); ; life++ {
					select {
					case <-killed:
						if life > 40 {
							return nil
						}
					default:
					}
					cmd := exec.Command("/proc/self/exe")
					cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", playVariable, uint64(i)<<32|life))
					cmd.Stdout, cmd.Stderr = p.held[1+4*i+1], p.held[1+4*i+3]
					err := cmd.Run()
					if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.Exited() {
						return fmt.Errorf("%s: %v", name, err)
					}
					if err := p.exited(name, life); err != nil {
						return err
					}
					lives[i] = life
				}
			}()
		}()
	}
	for range killNames {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	p.mu.Lock()
	p.over = true
	unix.Shutdown(int(p.conn.Fd()), unix.SHUT_WR)
	p.mu.Unlock()
	<-p.ended
	rotations, crashes, size := 0, uint64(0), 0
	for i, name := range killNames {
		files, n := verify(t, filepath.Join(p.home, "logs", name), uint64(i), lives[i])
		rotations, crashes, size = rotations+files-1, crashes+lives[i], size+n
	}
	t.Logf("%d kills, %d crashes, %d rotations, %.1f MB: exact", kills, crashes, rotations, float64(size)/1e6)
	if rotations < 100 || crashes < 100 {
		t.Error("too few rotations or crashes")
	}
}

// verify compares a log with what a service wrote in its lives: each byte, in
// order, and before the line that tells of the life's end.
func verify(t *testing.T, dir string, service, lives uint64) (fileCount, size int) {
	t.Helper()
	var got [2]bytes.Buffer
	life := uint64(0)
	check := func() {
		life++
		for stream := range got {
			want := words(service<<32|life, stream)
			if sha256.Sum256(got[stream].Bytes()) != sha256.Sum256(want) {
				t.Fatalf("%s, life %d, stream %d: %s", dir, life, stream, difference(got[stream].String(), string(want)))
			}
			size += len(want)
			got[stream].Reset()
		}
	}
	names := files(t, dir)
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(f)
		for {
			line, err := r.ReadBytes('\n')
			if err == io.EOF && len(line) == 0 {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v after %.80q", name, err, line)
			}
			var w whole
			w.add(t, name, line)
			for stream := range got {
				got[stream].Write(w.stream[stream].Bytes())
			}
			if len(w.marks) == 1 {
				check()
				if want := fmt.Sprintf("exited %d", life); strings.TrimSpace(w.marks[0]) != want {
					t.Fatalf("%s: %q, not %q", name, w.marks[0], want)
				}
			}
		}
		f.Close()
	}
	if life != lives {
		t.Fatalf("%s: %d exits, not %d", dir, life, lives)
	}
	return len(names), size
}
