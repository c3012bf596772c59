package forward

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/logs"
	"rlminit/service"
)

const patience = 60 * time.Second

// bed is a collector with a forwarder beside it, and what outlives both.
type bed struct {
	t    *testing.T
	home string
	c    *logs.Collector
	f    *Forwarder
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t, home: t.TempDir()}
	c, err := logs.New(logs.Options{Home: b.home, Tee: -1})
	if err != nil {
		t.Fatal(err)
	}
	b.c = c
	if err := os.Mkdir(filepath.Join(b.home, ".rlminit"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(patience) })
	b.start()
	return b
}

// start makes another forwarder, as a successor does: the one before is dead.
func (b *bed) start() {
	b.t.Helper()
	var err error
	if b.f, err = New(Options{Logs: b.c, Dir: func() string { return filepath.Join(b.home, ".rlminit/forward") }, Stdout: -1}); err != nil {
		b.t.Fatal(err)
	}
	f := b.f
	b.t.Cleanup(func() { f.Close(patience) })
}

// kill ends it as a kill does: nothing that waits is done.
func (f *Forwarder) kill() {
	f.work.Ask(func() {
		for _, d := range f.destinations {
			d.Ask(d.close)
		}
		for waits := true; waits; {
			_, waits = f.work.Next()
		}
		f.work.Close()
	})
}

func (b *bed) open(name, to string, cfg logs.Config) *logs.Slot {
	b.t.Helper()
	cfg.Dir = "logs/" + name
	cfg.Grew, _ = b.f.Set(name, b.target(name, to))
	s, err := b.c.Open(name, cfg, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *bed) target(name, to string) Target {
	return Target{To: to, Format: service.ForwardJSON, Dir: "logs/" + name}
}

func say(t *testing.T, s *logs.Slot, text string) {
	t.Helper()
	if _, err := unix.Write(s.Stdout(), []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// receiver keeps what it is sent.
type receiver struct {
	t  *testing.T
	at string

	mu    sync.Mutex
	lines []received
	lis   net.Listener
	conns []net.Conn
}

type received struct {
	Time, Service, Stream, Message, Host string
	Profile                              *string
	Run, Seq                             uint64
}

func listen(t *testing.T, network, at string) *receiver {
	t.Helper()
	r := &receiver{t: t, at: at}
	lis, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	r.lis, r.at = lis, lis.Addr().String()
	t.Cleanup(r.die)
	go func() {
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.conns = append(r.conns, c)
			r.mu.Unlock()
			go r.read(c)
		}
	}()
	return r
}

func (r *receiver) read(c io.Reader) {
	in := bufio.NewScanner(c)
	in.Buffer(nil, 4<<20)
	for in.Scan() {
		var line received
		if err := json.Unmarshal(in.Bytes(), &line); err != nil {
			continue // cut by the end of a connection
		}
		r.mu.Lock()
		r.lines = append(r.lines, line)
		r.mu.Unlock()
	}
}

// die is what a kill does.
func (r *receiver) die() {
	r.lis.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
}

func (r *receiver) got() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.lines...)
}

// last is the message that has come last.
func (r *receiver) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) == 0 {
		return ""
	}
	return r.lines[len(r.lines)-1].Message
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to this: %s", what)
		}
	}
}

// numbers are the messages of a log by their numbers. A number with two messages, and a
// message with two numbers, are faults.
func numbers(t *testing.T, lines []received) (seqs map[uint64]string) {
	t.Helper()
	seqs, of := map[uint64]string{}, map[string]uint64{}
	for _, l := range lines {
		if was, is := seqs[l.Seq]; is && was != l.Message {
			t.Fatalf("number %d is %q and %q", l.Seq, was, l.Message)
		}
		if was, is := of[l.Message]; is && was != l.Seq {
			t.Fatalf("%q has the numbers %d and %d", l.Message, was, l.Seq)
		}
		seqs[l.Seq], of[l.Message] = l.Message, l.Seq
	}
	return seqs
}

// whole tells whether n messages came, each by a number of its own, without a gap.
func whole(t *testing.T, lines []received, n int) bool {
	t.Helper()
	seqs := numbers(t, lines)
	if len(seqs) < n {
		return false
	}
	least, most := ^uint64(0), uint64(0)
	for seq := range seqs {
		least, most = min(least, seq), max(most, seq)
	}
	if most-least+1 != uint64(n) {
		t.Fatalf("%d messages have the numbers %d to %d", len(seqs), least, most)
	}
	return true
}

var lined = logs.Config{File: true, Timestamps: true, MaxSize: 1 << 20}

func TestLinesAreSent(t *testing.T) {
	b, r := newBed(t), listen(t, "tcp", "127.0.0.1:0")
	cfg := lined
	target := b.target("web", "tcp:"+r.at)
	target.Profile = "alice"
	cfg.Dir = target.Dir
	cfg.Grew, _ = b.f.Set("web", target)
	s, err := b.c.Open("web", cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Mark("starting web")
	say(t, s, "hello \"world\"\x1b\xff\n")
	if _, err := unix.Write(s.Stderr(), []byte("oh\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "three lines", func() bool { return len(r.got()) == 3 })
	for i, want := range []received{{Stream: "rlminit", Message: "starting web"}, {Stream: "out", Message: "hello \"world\"\x1b\uFFFD"}, {Stream: "err", Message: "oh"}} {
		got := r.got()[i]
		if got.Stream != want.Stream || got.Message != want.Message || got.Service != "web" || got.Profile == nil || *got.Profile != "alice" || got.Run != 1 || got.Host == "" {
			t.Errorf("%d: %+v", i, got)
		}
		if at, err := time.Parse(time.RFC3339Nano, got.Time); err != nil || time.Since(at) > time.Minute {
			t.Errorf("%d: %s", i, got.Time)
		}
	}
	whole(t, r.got(), 3)
}

// A receiver that is killed and comes back, again and again, while lines are written and
// files rotated, has all of them in the end.
func TestReceiverIsKilledAgainAndAgain(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			b := newBed(t)
			at := "127.0.0.1:0"
			if network == "unix" {
				at = filepath.Join(t.TempDir(), "s")
			}
			r := listen(t, network, at)
			at = r.at
			cfg := lined
			cfg.MaxSize, cfg.MaxFiles = 2000, 1000
			s := b.open("web", network+":"+at, cfg)
			var all []received
			n := 0
			for range 5 {
				for range 300 {
					say(t, s, fmt.Sprintf("line %d\n", n))
					n++
				}
				eventually(t, "some of the lines", func() bool { return len(r.got()) > 50 })
				r.die()
				all = append(all, r.got()...)
				say(t, s, fmt.Sprintf("line %d\n", n))
				n++
				r = listen(t, network, at)
			}
			eventually(t, "all lines", func() bool { return whole(t, append(all[:len(all):len(all)], r.got()...), n) })
		})
	}
}

// A successor goes on where the cursors are, and numbers as before.
func TestSuccessorGoesOn(t *testing.T) {
	b, r := newBed(t), listen(t, "tcp", "127.0.0.1:0")
	cfg := lined
	cfg.MaxSize = 2000
	s := b.open("web", "tcp:"+r.at, cfg)
	n := 0
	write := func(lines int) {
		for range lines {
			say(t, s, fmt.Sprintf("line %d\n", n))
			n++
		}
	}
	write(200)
	eventually(t, "all lines", func() bool { return whole(t, r.got(), n) })
	eventually(t, "the cursor", func() bool {
		st := store{dir: b.f.store.dir, cursors: map[string]cursor{}, begun: map[string][]cursor{}}
		st.load()
		return len(st.cursors) == 1
	})
	for range 3 {
		dead := b.f
		dead.Set("web", Target{}) // a process that was killed sends nothing
		write(100)
		b.start()
		cfg.Dir = "logs/web"
		cfg.Grew, _ = b.f.Set("web", b.target("web", "tcp:"+r.at))
		if err := s.Reconfigure(cfg); err != nil {
			t.Fatal(err)
		}
		write(100)
		eventually(t, "all lines", func() bool { return whole(t, r.got(), n) })
	}
}

// What a rotation has removed is counted, and said, and has its numbers.
func TestRotatedAwayIsCounted(t *testing.T) {
	var said bytes.Buffer
	var mu sync.Mutex
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return said.Write(p)
	}), nil)))
	defer slog.SetDefault(was)
	heard := func() string {
		mu.Lock()
		defer mu.Unlock()
		return said.String()
	}

	b, r := newBed(t), listen(t, "tcp", "127.0.0.1:0")
	cfg := lined
	cfg.MaxSize, cfg.MaxFiles = 2000, 3
	s := b.open("web", "tcp:"+r.at, cfg)
	say(t, s, "line 0\n")
	eventually(t, "a line", func() bool { return len(r.got()) == 1 })
	m := b.f.members["web"]
	is := func(holds func() bool) func() bool {
		return func() (yes bool) {
			m.of.Load().Ask(func() { yes = holds() })
			return yes
		}
	}
	eventually(t, "it is known that it was taken", is(func() bool { return m.done.Place.At > 0 }))
	r.die()
	n := 1
	for range 10 { // slower than lines are counted
		for range 20 {
			say(t, s, fmt.Sprintf("line %d\n", n))
			n++
		}
		eventually(t, "the lines are counted", is(func() bool { return m.ahead != nil && m.ahead.cursor.Seq == m.done.Seq+uint64(n)-1 }))
	}
	old := r.got()
	r = listen(t, "tcp", r.at)
	eventually(t, "the last line", func() bool {
		got := r.got()
		return len(got) > 0 && got[len(got)-1].Message == fmt.Sprintf("line %d", n-1)
	})
	all := numbers(t, append(old, r.got()...))
	var first uint64
	for seq, text := range all {
		if i, _ := strconv.Atoi(strings.TrimPrefix(text, "line ")); i == 0 {
			first = seq
		}
	}
	for seq, text := range all {
		if text != fmt.Sprintf("line %d", seq-first) {
			t.Errorf("number %d is %q", seq-first, text)
		}
	}
	want := fmt.Sprintf("%d lines were rotated away before tcp:%s took them", n-len(all), r.at)
	eventually(t, "it is said", func() bool { return strings.Contains(heard(), want) })
	eventually(t, "the destination works", func() bool { return strings.Contains(heard(), "logs are sent on again") })
	for _, once := range []string{"logs cannot be sent on", "logs are sent on again"} {
		if got := strings.Count(heard(), once); got != 1 {
			t.Errorf("%q is said %d times", once, got)
		}
	}
}

// A receiver that takes a connection, and resets it, is not tried again at once for ever,
// and people are told.
func TestReceiverResets(t *testing.T) {
	b := newBed(t)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	var taken atomic.Int32
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			taken.Add(1)
			_, _ = conn.Read(make([]byte, 10))
			_ = conn.(*net.TCPConn).SetLinger(0)
			conn.Close()
		}
	}()
	s := b.open("web", "tcp:"+lis.Addr().String(), lined)
	for range 2000 {
		say(t, s, strings.Repeat("x", 1000)+"\n")
	}
	eventually(t, "it is said", func() bool { all := b.f.States(); return len(all) == 1 && all[0].Down != "" })
	before := taken.Load()
	time.Sleep(2 * time.Second)
	if n := taken.Load() - before; n < 1 || n > 8 {
		t.Errorf("connected %d times in 2 s", n)
	}
}

// A receiver that does not read is named, and so is that it reads again.
func TestReceiverIsStuck(t *testing.T) {
	was := takesWithin
	takesWithin = 300 * time.Millisecond
	b := newBed(t)
	t.Cleanup(func() { takesWithin = was })
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	cfg := lined
	cfg.MaxSize = 64 << 20
	s := b.open("web", "tcp:"+lis.Addr().String(), cfg)
	for range 20_000 {
		say(t, s, strings.Repeat("x", 1000)+"\n")
	}
	conn, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	down := func() string { return b.f.States()[0].Down }
	eventually(t, "it is named", func() bool { return strings.Contains(down(), "has not read") })
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	eventually(t, "it works", func() bool { return down() == "" })
	m := b.f.members["web"]
	eventually(t, "it has all", func() bool { return m.unsent.Load() == 0 })
}

// Where the place is gone at which a predecessor stopped, what follows has numbers that no
// line had.
func TestSuccessorFindsItsPlaceGone(t *testing.T) {
	b, r := newBed(t), listen(t, "tcp", "127.0.0.1:0")
	cfg := lined
	cfg.MaxSize, cfg.MaxFiles = 2000, 2
	s := b.open("web", "tcp:"+r.at, cfg)
	for i := range 20 {
		say(t, s, fmt.Sprintf("line %d\n", i))
	}
	eventually(t, "the lines", func() bool { return whole(t, r.got(), 20) })
	cursors := filepath.Join(b.home, ".rlminit/forward", keptName)
	var saved []byte
	eventually(t, "that is on the volume", func() bool {
		var err error
		saved, err = os.ReadFile(cursors)
		return err == nil && bytes.Contains(saved, []byte(`"at"`))
	})
	for i := range 200 {
		say(t, s, fmt.Sprintf("line %d\n", 20+i))
		time.Sleep(time.Millisecond)
	}
	eventually(t, "more lines", func() bool { got := r.got(); return got[len(got)-1].Message == "line 219" })
	r.die()
	b.f.Close(patience)
	seen := numbers(t, r.got())
	if err := os.WriteFile(cursors, saved, 0o600); err != nil { // as one that was killed leaves it
		t.Fatal(err)
	}
	b.start()
	r = listen(t, "tcp", r.at)
	cfg.Dir = "logs/web"
	cfg.Grew, _ = b.f.Set("web", b.target("web", "tcp:"+r.at))
	if err := s.Reconfigure(cfg); err != nil {
		t.Fatal(err)
	}
	say(t, s, "line 220\n")
	eventually(t, "the last line", func() bool { got := r.got(); return len(got) > 0 && got[len(got)-1].Message == "line 220" })
	for _, l := range r.got() {
		if was, is := seen[l.Seq]; is && was != l.Message {
			t.Errorf("number %d is %q, and was %q", l.Seq, l.Message, was)
		}
	}
}

// A forwarder is killed again and again while files are rotated away faster than its cursor
// is written: a line that is sent again has the number that it had.
func TestOneNumberForEver(t *testing.T) {
	b, r := newBed(t), listen(t, "tcp", "127.0.0.1:0")
	cfg := lined
	cfg.MaxSize, cfg.MaxFiles = 2000, 2
	s := b.open("web", "tcp:"+r.at, cfg)
	cfg.Dir = "logs/web"
	for i := range 8 {
		for j := range 150 {
			say(t, s, fmt.Sprintf("line %d of %d\n", j, i))
			time.Sleep(200 * time.Microsecond)
		}
		last := fmt.Sprintf("line 149 of %d", i)
		eventually(t, last, func() bool { return r.last() == last })
		b.f.kill()
		b.start()
		cfg.Grew, _ = b.f.Set("web", b.target("web", "tcp:"+r.at))
		if err := s.Reconfigure(cfg); err != nil {
			t.Fatal(err)
		}
		say(t, s, fmt.Sprintf("the end of %d\n", i))
		eventually(t, "the end", func() bool { return r.last() == fmt.Sprintf("the end of %d", i) })
	}
	seen := r.got()
	if all := numbers(t, seen); len(all) == len(seen) {
		t.Error("nothing was sent again")
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// A thousand logs go to one destination, and few descriptors are open.
func TestManyLogs(t *testing.T) {
	b, r := newBed(t), listen(t, "tcp", "127.0.0.1:0")
	const count = 300
	var slots []*logs.Slot
	for i := range count {
		slots = append(slots, b.open(fmt.Sprintf("s%d", i), "tcp:"+r.at, lined))
	}
	for round := range 3 {
		for i, s := range slots {
			say(t, s, fmt.Sprintf("%d of %d\n", round, i))
		}
	}
	eventually(t, "all lines", func() bool { return len(r.got()) >= 3*count })
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, e := range open {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.HasPrefix(to, b.home) {
			files++
		}
	}
	if files > count+50 { // one of each log is the collector's
		t.Errorf("%d files of %d logs are open", files, count)
	}
	per := map[string][]received{}
	for _, l := range r.got() {
		per[l.Service] = append(per[l.Service], l)
	}
	for name, lines := range per {
		if !whole(t, lines, 3) {
			t.Errorf("%s: %v", name, lines)
		}
	}
}

// A datagram has a line, and each of RFC 5424 what it needs.
func TestSyslogDatagrams(t *testing.T) {
	b := newBed(t)
	at := filepath.Join(t.TempDir(), "log")
	conn, err := net.ListenPacket("unixgram", at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cfg := lined
	cfg.Dir = "logs/web"
	cfg.Grew, _ = b.f.Set("web", Target{To: "unix:" + at, Format: service.ForwardRFC5424, Profile: `a"]\b`, Dir: cfg.Dir})
	s, err := b.c.Open("web", cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	say(t, s, "one\x1b[0m\n"+strings.Repeat("x", 300<<10)+"\n")
	text := make([]byte, 1<<20)
	for i, want := range []string{`partial`, `one#033[0m`} {
		_ = i
		conn.(*net.UnixConn).SetReadDeadline(time.Now().Add(patience))
		n, _, err := conn.ReadFrom(text)
		if err != nil {
			t.Fatal(err)
		}
		got := string(text[:n])
		if i == 0 {
			want = `one#033[0m`
		} else {
			want = `partial="true"] xxx`
		}
		head := `[rlminit@32473 service="web" profile="a\"\]\\b" run="0" seq="`
		if !strings.HasPrefix(got, "<30>1 2") || !strings.Contains(got, head) || !strings.Contains(got, want) {
			t.Errorf("%.300q", got)
		}
	}
}

// Octets are counted over a stream.
func TestSyslogStream(t *testing.T) {
	b := newBed(t)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	cfg := lined
	cfg.Dir = "logs/web"
	cfg.Grew, _ = b.f.Set("web", Target{To: "tcp:" + lis.Addr().String(), Format: service.ForwardRFC5424, Dir: cfg.Dir})
	s, err := b.c.Open("web", cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	say(t, s, "one\ntwo\n")
	conn, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for _, want := range []string{"] one", "] two"} {
		length, err := in.ReadString(' ')
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(length))
		if err != nil {
			t.Fatalf("%q: %v", length, err)
		}
		text := make([]byte, n)
		if _, err := io.ReadFull(in, text); err != nil || !strings.HasPrefix(string(text), "<30>1 ") || !strings.HasSuffix(string(text), want) {
			t.Errorf("%q, %v", text, err)
		}
	}
}

// A log goes from one destination to another where it left off.
func TestDestinationChanges(t *testing.T) {
	b, first, second := newBed(t), listen(t, "tcp", "127.0.0.1:0"), listen(t, "tcp", "127.0.0.1:0")
	s := b.open("web", "tcp:"+first.at, lined)
	say(t, s, "line 0\n")
	eventually(t, "a line", func() bool { return len(first.got()) == 1 })
	b.f.Set("web", b.target("web", "tcp:"+second.at))
	say(t, s, "line 1\n")
	eventually(t, "both lines", func() bool { return whole(t, append(first.got(), second.got()...), 2) })
	eventually(t, "the first is no destination any more", func() bool { return len(b.f.States()) == 1 })
	b.f.Leave("web")
	eventually(t, "nothing is", func() bool { return len(b.f.States()) == 0 })
}

// A receiver that does not read holds up nobody, and takes no memory; once it reads, it has
// what the files hold, and the numbers of what they do not.
func TestReceiverDoesNotRead(t *testing.T) {
	b := newBed(t)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	cfg := lined
	cfg.MaxSize, cfg.MaxFiles = 1<<20, 20
	s, other := b.open("web", "tcp:"+lis.Addr().String(), cfg), b.open("db", "", lined)
	line := strings.Repeat("x", 1000) + "\n"
	const count = 50_000
	for i := range count {
		say(t, s, fmt.Sprintf("%d %s", i, line))
	}
	say(t, other, "not held up\n")
	eventually(t, "the other's line", func() bool {
		lines, err := other.Tail(1, patience)
		return err == nil && len(lines) == 1 && strings.HasSuffix(lines[0], "not held up")
	})
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if before.HeapAlloc > 32<<20 {
		t.Errorf("%d MB are in use", before.HeapAlloc>>20)
	}
	conn, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := &receiver{t: t}
	go r.read(conn)
	first := -1
	eventually(t, "the last line", func() bool { return strings.HasPrefix(r.last(), fmt.Sprintf("%d ", count-1)) })
	var least uint64
	for _, l := range r.got() {
		number, _, _ := strings.Cut(l.Message, " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		if first < 0 {
			first, least = n, l.Seq
		}
		if l.Seq-least != uint64(n-first) {
			t.Fatalf("line %d has the number %d", n-first, l.Seq-least)
		}
	}
	t.Logf("%d lines of %d", len(r.got()), count)
}

// What a receiver had not read when it was killed is sent again: over TCP what is younger
// than a second, by a unix socket all.
func TestUnreadIsSentAgain(t *testing.T) {
	for network, at := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")} {
		t.Run(network, func(t *testing.T) {
			b := newBed(t)
			lis, err := net.Listen(network, at)
			if err != nil {
				t.Fatal(err)
			}
			at := lis.Addr().String()
			s := b.open("web", network+":"+at, lined)
			for i := range 10 {
				say(t, s, fmt.Sprintf("line %d\n", i))
			}
			conn, err := lis.Accept()
			if err != nil {
				t.Fatal(err)
			}
			m := b.f.members["web"]
			asked := func(holds func(d *destination) bool) func() bool {
				return func() (yes bool) {
					if d := m.of.Load(); d != nil {
						d.Ask(func() { yes = holds(d) })
					}
					return yes
				}
			}
			eventually(t, "all is with the receiver's kernel", asked(func(d *destination) bool {
				if network == "unix" {
					return len(d.flow.marks) > 0 && !d.sending && time.Since(d.flow.last) > 2*time.Second
				}
				if d.link == nil {
					return false
				}
				left, err := d.link.left()
				return d.flow.sent > 1000 && left == 0 && err == nil
			}))
			lis.Close()
			conn.Close()
			r := listen(t, network, at)
			say(t, s, "line 10\n")
			eventually(t, "all lines", func() bool { return whole(t, r.got(), 11) })
		})
	}
}

// A log without a file is sent from memory.
func TestLogWithoutAFile(t *testing.T) {
	b, r := newBed(t), listen(t, "tcp", "127.0.0.1:0")
	target := b.target("web", "tcp:"+r.at)
	target.Dir = ""
	grew, unsent := b.f.Set("web", target)
	s, err := b.c.Open("web", logs.Config{Timestamps: true, Grew: grew}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		say(t, s, fmt.Sprintf("line %d\n", i))
		if i%100 == 0 {
			eventually(t, "the line", func() bool { return len(r.got()) > i })
		}
	}
	eventually(t, "all lines", func() bool { return whole(t, r.got(), 500) })
	eventually(t, "that is known", func() bool { return unsent() == 0 })
}
