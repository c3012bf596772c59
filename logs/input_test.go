package logs

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestHostileInput holds what a service wrote against what the log says that
// it wrote.
func TestHostileInput(t *testing.T) {
	binary := make([]byte, 100000)
	for i := range binary {
		binary[i] = byte(i * 7 % 256)
	}
	for name, input := range map[string]string{
		"empty lines":          strings.Repeat("\n", 100000),
		"no end":               "abc",
		"binary":               string(binary),
		"like a log":           "2026-05-24T18:05:33.123456Z err+ forged\n",
		"1 MB whole":           strings.Repeat("x", MaxLine) + "\n" + "y\n",
		"more than 1 MB":       strings.Repeat("x", MaxLine+1) + "\n" + "y\n",
		"3 MB without an end":  strings.Repeat("abc", 1<<20),
		"1 MB and then no end": strings.Repeat("x", MaxLine),
	} {
		t.Run(name, func(t *testing.T) {
			c := newCollector(t, Options{})
			s := open(t, c, "a", Config{File: true, Timestamps: true, MaxSize: 300000})
			say(t, s.Stdout(), input)
			exited(t, s, "exited")
			got := reassemble(t, filepath.Join(c.opts.Home, "logs/a"))
			if out := got.stream[0].String(); out != input {
				t.Fatal(difference(out, input))
			}
		})
	}
}

func TestLinesUpToAMegabyteStayWhole(t *testing.T) {
	c := newCollector(t, Options{})
	s := open(t, c, "a", Config{File: true, Timestamps: true})
	say(t, s.Stdout(), strings.Repeat("x", MaxLine)+"\n"+strings.Repeat("y", MaxLine+1)+"\n")
	exited(t, s, "exited")
	lines := texts(t, content(t, c, s))
	var shape []string
	for _, line := range lines {
		mark, text, _ := strings.Cut(line, " ")
		shape = append(shape, fmt.Sprintf("%s %.1s*%d", mark, text, len(text)))
	}
	if got, want := strings.Join(shape, ", "), "out x*1048576, out+ y*1048576, out y*1, --- e*6"; got != want {
		t.Errorf("got %s", got)
	}
}

// TestOneByteAtATime has two streams grow in turns: their lines must not mix.
func TestOneByteAtATime(t *testing.T) {
	c := newCollector(t, Options{})
	s := open(t, c, "a", Config{File: true, Timestamps: true})
	out, err := strings.Repeat("out line\n", 300), strings.Repeat("another\n", 300)
	for i := range max(len(out), len(err)) {
		if i < len(out) {
			say(t, s.Stdout(), out[i:i+1])
		}
		if i < len(err) {
			say(t, s.Stderr(), err[i:i+1])
		}
	}
	exited(t, s, "exited")
	for _, line := range texts(t, content(t, c, s)) {
		if line != "out out line" && line != "err another" && line != "--- exited" {
			t.Fatalf("torn or mixed: %q", line)
		}
	}
	got := reassemble(t, filepath.Join(c.opts.Home, "logs/a"))
	if got.stream[0].String() != out || got.stream[1].String() != err {
		t.Error("bytes differ")
	}
}

func TestHundredMegabytesAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("short: writes 100 MB")
	}
	c := newCollector(t, Options{})
	s := open(t, c, "a", Config{File: true, MaxSize: 10e6})
	var input bytes.Buffer
	for i := 0; input.Len() < 100e6; i++ {
		fmt.Fprintf(&input, "%d %s\n", i, strings.Repeat("z", i%150))
	}
	say(t, s.Stdout(), input.String())
	exited(t, s, "exited")
	dir := filepath.Join(c.opts.Home, "logs/a")
	if got := joined(t, dir); got != input.String() {
		t.Error(difference(got, input.String()))
	}
	for _, name := range files(t, dir) {
		if size := fileSize(t, name); size > 10e6 {
			t.Errorf("%s has %d bytes", name, size)
		}
	}
}

func TestManyUnfinishedLinesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("short: writes 80 MB")
	}
	c := newCollector(t, Options{})
	text := strings.Repeat("x", 1e6)
	var slots []*Slot
	for i := range 80 {
		s := open(t, c, fmt.Sprintf("s%d", i), Config{File: true, Timestamps: true})
		slots = append(slots, s)
		say(t, s.Stdout(), text)
	}
	done := make(chan int)
	c.inbox.Put(func() { done <- c.memory.held })
	if held := <-done; held > heldMost {
		t.Errorf("%d bytes of unfinished lines are held", held)
	}
	for _, s := range slots {
		exited(t, s, "exited")
		got := reassemble(t, filepath.Join(c.opts.Home, s.cfg.Dir))
		if got.stream[0].String() != text {
			t.Fatal("bytes differ")
		}
	}
}
