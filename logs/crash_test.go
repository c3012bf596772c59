package logs

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/redact"
)

// whole puts a directory's log together again: what each stream wrote, and
// rlminit's lines.
type whole struct {
	stream [2]bytes.Buffer
	marks  []string
	files  int
}

func reassemble(t *testing.T, dir string) *whole {
	t.Helper()
	w := &whole{}
	for _, name := range files(t, dir) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		w.files++
		w.add(t, name, data)
	}
	return w
}

func (w *whole) add(t *testing.T, name string, data []byte) {
	t.Helper()
	for len(data) > 0 {
		i := bytes.IndexByte(data, '\n')
		if i < 0 {
			t.Fatalf("%s ends with half a line: %.100q", name, data)
		}
		line := data[:i]
		data = data[i+1:]
		if len(line) < headSize-1 {
			t.Fatalf("%s: no line: %q", name, line)
		}
		if _, err := time.Parse(layout, string(line[:len(layout)])); err != nil {
			t.Fatalf("%s: %.100q: %v", name, line, err)
		}
		text := textOf(line)
		end := "\n"
		if line[len(layout)+4] == '+' {
			end = ""
		}
		switch mark := string(line[len(layout) : len(layout)+4]); mark {
		case " out":
			w.stream[0].WriteString(string(text) + end)
		case " err":
			w.stream[1].WriteString(string(text) + end)
		case " ---":
			w.marks = append(w.marks, string(text))
		default:
			t.Fatalf("%s: mark %q", name, mark)
		}
	}
}

// box is what outlives a collector: its home, and what tier 1 holds.
type box struct {
	t      *testing.T
	cfg    Config
	home   string
	held   []int
	slots  map[string][]int
	mu     sync.Mutex
	steps  int        // of the collectors so far
	dieAt  int        // the step at which one dies
	gate   func()     // called before each write to a file
	often  func() int // how many steps after its start the next one dies; nil for no more
	died   chan struct{}
	watch  time.Duration
	full   atomic.Bool // the disk takes the half of what is written, and then no more
	c      *Collector
	opened map[string]*Slot
	read   bool // splice(2) is refused

	redact [][]string                  // patterns of the collectors, one after the other and from the beginning again; nil: none
	begun  int                         // how many have begun
	shown  func(written string) string // what the log has of what was written; nil: all
}

func newBox(t *testing.T, cfg Config) *box {
	return &box{t: t, cfg: cfg, home: t.TempDir(), slots: map[string][]int{}, dieAt: -1}
}

func dup(t *testing.T, fds []int) []int {
	t.Helper()
	var all []int
	for _, fd := range fds {
		fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fd)
	}
	return all
}

// start starts a collector with the same slots as its predecessor's.
func (b *box) start() {
	b.t.Helper()
	if b.often != nil {
		b.dieAt = b.steps + b.often()
	}
	died, dead, torn := make(chan struct{}), false, false
	b.died = died
	instant := func() {
		b.mu.Lock() // a late call may come beside the collector
		defer b.mu.Unlock()
		if b.steps++; dead || b.steps == b.dieAt {
			if !dead {
				dead = true
				close(died)
			}
			runtime.Goexit()
		}
	}
	c, err := New(Options{
		Home: b.home, Tee: -1, Held: dup(b.t, b.held), instant: instant, receives: b.read, retry: time.Millisecond, watch: cmp.Or(b.watch, time.Hour),
		put: func(fd int, p []byte) (int, error) {
			if b.gate != nil {
				b.gate()
			}
			instant()
			if b.full.Load() {
				if torn = !torn; !torn {
					return -1, unix.ENOSPC
				}
			}
			return unix.Write(fd, p[:(len(p)+1)/2]) // a kill may tear a write
		},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.c = c
	if b.held == nil {
		b.held = dup(b.t, c.Held())
	}
	b.opened = map[string]*Slot{}
	var masks *redact.Lines
	if len(b.redact) > 0 {
		if masks, err = redact.NewLines(b.redact[b.begun%len(b.redact)]); err != nil {
			b.t.Fatal(err)
		}
	}
	b.begun++
	for _, name := range []string{"a", "b"} {
		cfg := b.cfg
		cfg.Dir, cfg.Redact = "logs/"+name, masks
		s, err := c.Open(name, cfg, dup(b.t, b.slots[name]))
		if err != nil {
			b.t.Fatal(err)
		}
		if b.slots[name] == nil {
			b.slots[name] = dup(b.t, s.Held())
		}
		b.opened[name] = s
	}
}

// restart puts another collector in the place of a dead one.
func (b *box) restart() {
	b.t.Helper()
	bury(b.c)
	b.start()
}

// bury closes what a collector that died had open, as the kernel would have.
func bury(c *Collector) {
	c.roll.mu.Lock()
	defer c.roll.mu.Unlock()
	for _, s := range c.memory.slots {
		if s != nil {
			s.release()
		}
	}
	for _, s := range c.roll.byName {
		if c.memory.slotAt(s.index) != s {
			s.release() // not registered yet
		}
	}
	unix.Close(c.poller.epoll)
	c.inbox.close()
	unix.Close(c.home)
	c.arena.close()
}

// say writes what may be more than the pipe takes while a collector is dead.
func (b *box) say(fd int, text string) {
	b.t.Helper()
	if len(text) < initialPipe/3 { // three come before an exit is waited for
		say(b.t, fd, text)
		return
	}
	_ = unix.SetNonblock(fd, true)
	for len(text) > 0 {
		n, err := unix.Write(fd, []byte(text))
		if err == nil {
			text = text[n:]
			continue
		}
		if err != unix.EAGAIN {
			b.t.Fatal(err)
		}
		select {
		case <-b.died:
			b.restart()
		default:
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 10)
		}
	}
}

// exited marks an exit, again and again as collectors die, and reports whether
// none did.
func (b *box) exited(slot string, id uint64) bool {
	b.t.Helper()
	for calm := true; ; calm = false {
		done := make(chan struct{})
		b.opened[slot].MarkExit(id, fmt.Sprintf("exited %d", id), func(string) { close(done) })
		select {
		case <-done:
			return calm
		case <-b.died:
			b.restart()
		case <-time.After(20 * time.Second):
			b.t.Fatalf("neither marked nor died at step %d", b.dieAt)
		}
	}
}

// close ends the last collector once all queues are written.
func (b *box) close() (calm bool) {
	b.t.Helper()
	calm = true
	b.often = nil
	for {
		b.full.Store(false)
		left := true
		for left {
			left = false
			for _, s := range b.opened {
				b.c.inbox.Put(func() {}) // it may have died
				done := make(chan bool, 1)
				b.c.inbox.Put(func() { done <- s.entry.queueHead < s.entry.queueTail })
				select {
				case more := <-done:
					left = left || more
				case <-b.died:
				case <-time.After(20 * time.Second):
					b.t.Fatalf("the queue was not written; died at step %d", b.dieAt)
				}
			}
		}
		select {
		case <-b.died:
			calm = false
			b.restart()
			continue
		default:
		}
		err := b.c.Close(time.Second)
		if err == nil {
			break
		}
		select {
		case <-b.died:
			calm = false
			b.restart()
		default:
			b.t.Fatal(err)
		}
	}
	for _, fds := range b.slots {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
	for _, fd := range b.held {
		unix.Close(fd)
	}
	return calm
}

// script is what two services write, in turns to stdout and stderr, with exits
// and full disks in between.
func script(random *rand.Rand, turns, longest int) []string {
	var all []string
	for i := range turns {
		line := fmt.Sprintf("%d %s", i, strings.Repeat("x", random.IntN(longest)))
		if random.IntN(4) > 0 {
			line += "\n"
		}
		all = append(all, line)
	}
	return all
}

// TestDeathAtEveryStep has the collector die at each of its steps in turn, once
// in every run of the same script; a successor must leave a log that is exact.
func TestDeathAtEveryStep(t *testing.T) {
	for _, test := range []struct {
		name    string
		cfg     Config
		longest int
		full    bool
		read    bool
	}{
		{"lines", Config{File: true, Timestamps: true, MaxSize: 1000}, 300, false, false},
		{"lines, splice refused", Config{File: true, Timestamps: true, MaxSize: 1000}, 300, false, true},
		{"plain", Config{File: true, MaxSize: 1000}, 300, false, false},
		{"full disk", Config{File: true, Timestamps: true, MaxSize: 1000}, 300, true, false},
		{"full disk, plain", Config{File: true, MaxSize: 1000}, 300, true, false},
		{"long lines", Config{File: true, Timestamps: true, MaxSize: 1 << 20}, 3000, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			words := script(rand.New(rand.NewPCG(4, 2)), 12, test.longest)
			step := 1
			for ; !dieOnce(t, test.cfg, words, test.full, test.read, step); step++ {
			}
			t.Logf("died at each of %d steps", step-1)
		})
	}
}

// TestDeathsAtRandom has collectors die again and again.
func TestDeathsAtRandom(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, seed))
		cfg := Config{File: true, Timestamps: seed%4 > 0, MaxSize: 1000 << (seed % 3 * 2)}
		b := newBox(t, cfg)
		b.often = func() int {
			b.read = random.IntN(2) == 0 // a successor may read where its predecessor spliced
			return 1 + random.IntN(200)
		}
		perform(t, b, script(random, 60, 10<<(seed%10)), seed%3 == 0)
	}
}

// dieOnce reports whether the script was over before the step came.
func dieOnce(t *testing.T, cfg Config, words []string, full, read bool, dieAt int) (calm bool) {
	b := newBox(t, cfg)
	b.dieAt, b.read = dieAt, read
	return perform(t, b, words, full)
}

// perform reports whether no collector died over a script.
func perform(t *testing.T, b *box, words []string, full bool) (calm bool) {
	b.start()
	cfg := b.cfg
	var want [2]string
	var marks []string // those that wait for a file, and exits
	calm = true
	for i, text := range words {
		stream := i % 2
		if !cfg.Timestamps {
			stream = 0
		}
		b.full.Store(full && i%5 > 1)
		if i%3 == 0 {
			marks = append(marks, fmt.Sprintf("starting %d", i/3+1))
			b.opened["a"].Mark(marks[len(marks)-1])
		}
		b.say(b.slots["a"][2*stream+1], text)
		want[stream] += text
		if i%3 == 2 {
			id := uint64(i/3 + 1)
			calm = b.exited("a", id) && calm
			marks = append(marks, fmt.Sprintf("exited %d", id))
		}
	}
	calm = b.close() && calm && b.begun == 1
	dir := filepath.Join(b.home, "logs/a")
	show := func(text string) string { return text }
	if b.shown != nil {
		show = b.shown
		for i := range want {
			want[i] = show(want[i])
		}
	}
	if !cfg.Timestamps {
		if got := joined(t, dir); show(got) != want[0] || b.shown != nil && strings.Contains(got, hidden) {
			t.Fatalf("died at step %d: %s", b.dieAt, difference(show(got), want[0]))
		}
		return calm
	}
	if b.shown != nil && strings.Contains(joined(t, dir), hidden) {
		t.Fatalf("died at step %d: the log has the secret", b.dieAt)
	}
	got := reassemble(t, dir)
	for stream := range want {
		if got := got.stream[stream].String(); show(got) != want[stream] {
			t.Fatalf("died at step %d: stream %d: %s", b.dieAt, stream, difference(show(got), want[stream]))
		}
	}
	if fault := markFault(got.marks, marks, calm); fault != "" {
		t.Fatalf("died at step %d: %s: marks %q of %q", b.dieAt, fault, got.marks, marks)
	}
	return calm
}

// markFault says what is wrong with the marks of a log. All exits are there. Another mark
// may have been lost with a collector that died, and only so; none comes twice, and none
// out of its turn.
func markFault(got, made []string, calm bool) string {
	for _, mark := range made {
		switch {
		case len(got) > 0 && got[0] == mark:
			got = got[1:]
		case strings.HasPrefix(mark, "exited"):
			return "an exit is missing"
		case calm:
			return "a mark is missing, and nobody died"
		}
	}
	if len(got) > 0 {
		return "a mark is too many, or out of its turn"
	}
	return ""
}

// difference shows where two texts part.
func difference(got, want string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	around := func(s string) string { return s[max(0, i-40):min(len(s), i+80)] }
	return fmt.Sprintf("of %d bytes, not %d; from %d on %q, not %q", len(got), len(want), i, around(got), around(want))
}

// joined is all that a directory's log holds.
func joined(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	for _, name := range files(t, dir) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}

// files are a log's, oldest first.
func files(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if name := filepath.Join(dir, current); exists(name) {
		names = append(names, name)
	}
	return names
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
