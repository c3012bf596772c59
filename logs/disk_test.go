package logs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tinyDisk is a file system of four megabytes.
func tinyDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("rlminit-logs-test", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("needs the right to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// TestFullDisk fills one, and makes room again: the newest lines come into the
// log, after a line that says how many did not.
func TestFullDisk(t *testing.T) {
	for _, timestamps := range []bool{true, false} {
		t.Run(fmt.Sprintf("timestamps %v", timestamps), func(t *testing.T) {
			home := tinyDisk(t)
			var reports atomic.Int32
			c := newCollector(t, Options{Home: home, retry: time.Millisecond, Report: func(string, error) { reports.Add(1) }})
			s := open(t, c, "web", Config{File: true, Timestamps: timestamps})
			const count = 200000
			for i := range count {
				say(t, s.Stdout(), fmt.Sprintf("%d %s\n", i, strings.Repeat("x", 50)))
			}
			exited(t, s, "exited")
			stats := s.Stats()
			if stats.LostLines == 0 || stats.LostBytes < 50*stats.LostLines {
				t.Fatalf("lost: %+v", stats)
			}
			// A person makes room.
			name := filepath.Join(home, "logs/web", current)
			first, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			first = first[:bytes.LastIndexByte(first, '\n')+1] // a try may be under way
			if err := os.Truncate(name, 0); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the rest is written", func() bool { return reports.Load() == 2 })
			log := string(first) + content(t, c, s)
			if !timestamps {
				if lines := strings.Count(log, "\n"); lines+int(stats.LostLines) != count {
					t.Errorf("%d lines and %d lost, of %d", lines, stats.LostLines, count)
				}
				return
			}
			next, lost := 0, 0
			for _, line := range texts(t, log) {
				if strings.HasPrefix(line, "--- lost ") {
					fmt.Sscanf(line, "--- lost %d lines", &lost)
					if !strings.Contains(line, "no space left on device") {
						t.Errorf("the log does not say why: %q", line)
					}
					next += lost
				} else if strings.HasPrefix(line, fmt.Sprintf("out %d x", next)) {
					next++
				} else if line != "--- exited" {
					t.Fatalf("line %d is %q", next, line)
				}
			}
			if next != count || uint64(lost) != stats.LostLines {
				t.Errorf("%d lines, %d said to be lost; Stats: %+v", next, lost, stats)
			}
		})
	}
}

// TestStuckDisk has a write that does not return: services go on, and all is
// there when it does.
func TestStuckDisk(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprintf("fails at last: %v", fails), func(t *testing.T) {
			var stuck atomic.Bool
			arrived, release := make(chan struct{}), make(chan struct{})
			c := newCollector(t, Options{
				watch: 10 * time.Millisecond, retry: time.Millisecond,
				put: func(fd int, p []byte) (int, error) {
					if stuck.CompareAndSwap(true, false) {
						n, err := unix.Write(fd, p[:len(p)/2])
						if err != nil {
							return n, err
						}
						close(arrived)
						<-release
						if fails {
							return -1, unix.EIO
						}
						return n, nil
					}
					return unix.Write(fd, p)
				},
			})
			a := open(t, c, "a", Config{File: true, Timestamps: true})
			b := open(t, c, "b", Config{File: true, Timestamps: true})
			var want [2]strings.Builder
			speak := func(from, to int) {
				for i := from; i < to; i++ {
					for j, s := range []*Slot{a, b} {
						text := fmt.Sprintf("%d %s\n", i, strings.Repeat("x", 100))
						say(t, s.Stdout(), text)
						want[j].WriteString(text)
					}
				}
			}
			speak(0, 10)
			exited(t, a, "")
			exited(t, b, "")
			stuck.Store(true)
			speak(10, 20)
			<-arrived
			speak(20, 500) // more than the pipes hold
			exited(t, a, "exited")
			exited(t, b, "exited")
			if got, err := b.Tail(1, time.Minute); err != nil || len(got) != 1 || !strings.HasSuffix(got[0], "exited") {
				t.Errorf("meanwhile the last line is %q, %v", got, err)
			}
			close(release)
			for j, s := range []*Slot{a, b} {
				eventually(t, "all is written", func() bool { return strings.Contains(content(t, c, s), "exited") })
				got := reassemble(t, filepath.Join(c.opts.Home, s.cfg.Dir))
				if text := got.stream[0].String(); text != want[j].String() {
					t.Error(difference(text, want[j].String()))
				}
			}
		})
	}
}

// TestStuckDiskAtStart has a successor stuck in what its predecessor had begun.
func TestStuckDiskAtStart(t *testing.T) {
	b := newBox(t, Config{File: true, Timestamps: true})
	defer b.close()
	b.gate = func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.dieAt < 0 {
			b.dieAt = b.steps + 2 // with half of the line written
		}
	}
	b.start()
	want := "one\n"
	say(t, b.slots["a"][1], want)
	<-b.died
	arrived, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b.gate = func() {
		once.Do(func() {
			close(arrived)
			<-release
		})
	}
	b.watch = 10 * time.Millisecond
	b.restart()
	<-arrived
	for i := range 1000 {
		text := fmt.Sprintf("%d %s\n", i, strings.Repeat("x", 100))
		say(t, b.slots["a"][1], text)
		want += text
	}
	exited(t, b.opened["a"], "exited")
	close(release)
	dir := filepath.Join(b.home, "logs/a")
	eventually(t, "all is written", func() bool { return strings.Contains(joined(t, dir), "exited") })
	got := reassemble(t, dir)
	if text := got.stream[0].String(); text != want {
		t.Error(difference(text, want))
	}
}

// TestVanishedVolume takes the directory away.
func TestVanishedVolume(t *testing.T) {
	c := newCollector(t, Options{retry: time.Millisecond})
	s := open(t, c, "web", Config{File: true, Timestamps: true})
	say(t, s.Stdout(), "one\n")
	exited(t, s, "")
	if err := os.RemoveAll(c.opts.Home); err != nil {
		t.Fatal(err)
	}
	for i := range 10000 {
		say(t, s.Stdout(), fmt.Sprintf("%d %s\n", i, strings.Repeat("x", 50)))
	}
	exited(t, s, "exited")
}
