package logs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	w := &whole{}
	for _, name := range append(names, filepath.Join(dir, current)) {
		data, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue
		}
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
	home   string
	held   []int
	slots  map[string][]int
	steps  int // of the collectors so far
	dieAt  int // the step at which one dies
	died   chan struct{}
	c      *Collector
	opened map[string]*Slot
}

func newBox(t *testing.T) *box {
	return &box{t: t, home: t.TempDir(), slots: map[string][]int{}, dieAt: -1}
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
func (b *box) start(cfg Config) {
	b.t.Helper()
	b.died = make(chan struct{})
	died := b.died
	dead := false
	c, err := New(Options{Home: b.home, Tee: -1, Held: dup(b.t, b.held), instant: func() {
		if b.steps++; dead || b.steps == b.dieAt {
			if !dead {
				dead = true
				close(died)
			}
			runtime.Goexit()
		}
	}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.c = c
	if b.held == nil {
		b.held = dup(b.t, c.Held())
	}
	b.opened = map[string]*Slot{}
	for _, name := range []string{"a", "b"} {
		cfg.Dir = "logs/" + name
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

// settled waits until the collector has done what was posted, or has died.
func (b *box) settled(slot string, id uint64, text string) bool {
	b.t.Helper()
	done := make(chan struct{})
	b.opened[slot].MarkExit(id, text, func(string) { close(done) })
	select {
	case <-done:
		return true
	case <-b.died:
		return false
	case <-time.After(20 * time.Second):
		b.t.Fatalf("neither settled nor died at step %d", b.dieAt)
		return false
	}
}

func (b *box) close() {
	for _, fds := range b.slots {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
	for _, fd := range b.held {
		unix.Close(fd)
	}
}

// TestDeathAtEveryStep has the collector die at each of its steps in turn,
// while two services write; a successor must leave a log that is exact.
func TestDeathAtEveryStep(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 2))
	var script []string
	for i := range 12 {
		line := fmt.Sprintf("%d %s", i, strings.Repeat("x", random.IntN(300)))
		if random.IntN(4) > 0 {
			line += "\n"
		}
		script = append(script, line)
	}
	run := func(dieAt int) (finished bool) {
		b := newBox(t)
		defer b.close()
		b.dieAt = dieAt
		cfg := Config{File: true, Timestamps: true, MaxSize: 1000}
		b.start(cfg)
		var want [2]string
		var id uint64
		finished = true
		for i, text := range script {
			stream := i % 2
			fd := b.slots["a"][2*stream+1]
			say(t, fd, text)
			want[stream] += text
			if i%3 == 2 {
				id++
				for !b.settled("a", id, fmt.Sprintf("exited %d", id)) {
					finished = false
					b.start(cfg)
				}
			}
		}
		if err := b.c.Close(5 * time.Second); err != nil {
			select {
			case <-b.died:
				finished = false
				b.start(cfg)
				if err := b.c.Close(5 * time.Second); err != nil {
					t.Fatal(err)
				}
			default:
				t.Fatal(err)
			}
		}
		got := reassemble(t, filepath.Join(b.home, "logs/a"))
		for stream := range want {
			if got := got.stream[stream].String(); got != want[stream] {
				t.Fatalf("died at step %d: stream %d holds\n%q, not\n%q", dieAt, stream, got, want[stream])
			}
		}
		if marks := strings.Join(got.marks, "|"); marks != "exited 1|exited 2|exited 3|exited 4" {
			t.Fatalf("died at step %d: marks %s", dieAt, marks)
		}
		return finished
	}
	step := 1
	for ; !run(step); step++ {
	}
	t.Logf("died at each of %d steps", step-1)
}
