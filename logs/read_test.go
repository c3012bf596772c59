package logs

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// read is a Read that does not follow.
func read(t *testing.T, c *Collector, q Query) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Read(t.Context(), &b, q); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTailGoesAcrossRotations(t *testing.T) {
	c := newCollector(t, Options{})
	s := open(t, c, "web", Config{File: true, Timestamps: true, MaxSize: 1000})
	for i := range 100 {
		say(t, s.Stdout(), fmt.Sprintf("line %d\n", i))
		if i%10 == 0 {
			exited(t, s, "pause")
		}
	}
	exited(t, s, "exited")
	for _, n := range []int{0, 1, 2, 50, 111, 500} {
		got, err := s.Tail(n, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != min(n, 111) {
			t.Errorf("asked for %d lines, got %d", n, len(got))
		}
		if n == 2 && (!strings.HasSuffix(got[0], " out line 99") || !strings.HasSuffix(got[1], " --- exited")) {
			t.Errorf("the last lines are %q", got)
		}
	}
	all := texts(t, read(t, c, Query{Sources: []Source{{Name: "web"}}, N: -1}))
	i := 0
	for _, line := range all {
		if line == fmt.Sprintf("out line %d", i) {
			i++
		}
	}
	if i != 100 {
		t.Errorf("the lines are out of order from %d on", i)
	}
}

func TestServicesAreMergedByTime(t *testing.T) {
	c := newCollector(t, Options{})
	a := open(t, c, "a", Config{File: true, Timestamps: true, MaxSize: 500})
	b := open(t, c, "b", Config{File: true, Timestamps: true})
	var want []string
	for i := range 20 {
		s := a
		if i%3 == 0 {
			s = b
		}
		say(t, s.Stderr(), fmt.Sprintf("%d\n", i))
		exited(t, s, "")
		want = append(want, fmt.Sprintf("err %d", i))
	}
	var got []string
	for line := range strings.Lines(read(t, c, Query{All: true, N: -1, Prefix: true})) {
		name, rest, _ := strings.Cut(line, " | ")
		if name != "a" && name != "b" {
			t.Errorf("prefix %q", name)
		}
		got = append(got, texts(t, rest)...)
	}
	if strings.Join(got, ",") != strings.Join(want, ",") {
		t.Errorf("got %q", got)
	}
}

func TestSince(t *testing.T) {
	c := newCollector(t, Options{})
	s := open(t, c, "a", Config{File: true, Timestamps: true, MaxSize: 200})
	for i := range 10 {
		say(t, s.Stdout(), fmt.Sprintf("old %d\n", i))
	}
	exited(t, s, "")
	since := time.Now()
	say(t, s.Stdout(), "new\n")
	exited(t, s, "")
	if got := texts(t, read(t, c, Query{Sources: []Source{{Name: "a"}}, N: -1, Since: since})); len(got) != 1 || got[0] != "out new" {
		t.Errorf("got %q", got)
	}
}

// TestFollow reads on over rotations, a removed log, and a service that comes
// later.
func TestFollow(t *testing.T) {
	c := newCollector(t, Options{})
	a := open(t, c, "a", Config{File: true, Timestamps: true, MaxSize: 2000, MaxFiles: 3})
	say(t, a.Stdout(), "before 1\nbefore 2\n")
	exited(t, a, "")
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Read(ctx, w, Query{All: true, N: 1, Follow: true}) }()
	lines := bufio.NewReader(r)
	expect := func(want string) {
		t.Helper()
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if got := texts(t, line)[0]; got != want {
			t.Fatalf("got %q, not %q", got, want)
		}
	}
	expect("out before 2")
	for i := range 200 {
		text := fmt.Sprintf("%d %s", i, strings.Repeat("x", i))
		say(t, a.Stdout(), text+"\n")
		expect("out " + text)
	}
	a.Close()
	a = open(t, c, "a", Config{File: true, Timestamps: true})
	say(t, a.Stdout(), "opened again\n")
	expect("out opened again")
	b := open(t, c, "b", Config{File: true, Timestamps: true})
	say(t, b.Stdout(), "new service\n")
	expect("out new service")
	m := open(t, c, "m", Config{Timestamps: true})
	say(t, m.Stdout(), "in memory\n")
	expect("out in memory")
	say(t, m.Stdout(), "more\n")
	expect("out more")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestWithoutFileTheNewestIsInMemory(t *testing.T) {
	c := newCollector(t, Options{})
	s := open(t, c, "a", Config{Timestamps: true, Dir: "none"})
	for i := range 10000 {
		say(t, s.Stdout(), fmt.Sprintf("line %d\n", i))
	}
	exited(t, s, "exited")
	got, err := s.Tail(2, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || !strings.HasSuffix(got[0], " out line 9999") || !strings.HasSuffix(got[1], " --- exited") {
		t.Errorf("got %q", got)
	}
	if all := read(t, c, Query{Sources: []Source{{Name: "a"}}, N: -1}); len(all) > queueKeep || len(all) < queueKeep/2 {
		t.Errorf("%d bytes are kept", len(all))
	}
	if lost := s.Stats(); lost.LostBytes != 0 || lost.LostLines != 0 {
		t.Errorf("what was never to be kept counts as lost: %+v", lost)
	}
}

// What a service puts where its log lies neither keeps its log, or another's,
// from being read, nor takes memory or time without end.
func TestReadersOfASpoiltLog(t *testing.T) {
	const spoilt = "20200101T000000.000000Z.log"
	for name, lay := range map[string]func(at string) error{
		"FIFO":      func(at string) error { return unix.Mkfifo(at, 0o600) },
		"symlink":   func(at string) error { return os.Symlink("/etc/passwd", at) },
		"directory": func(at string) error { return os.Mkdir(at, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCollector(t, Options{})
			s := open(t, c, "web", Config{File: true, Timestamps: true})
			say(t, s.Stdout(), "hello\n")
			exited(t, s, "exited")
			if err := lay(filepath.Join(c.opts.Home, s.cfg.Dir, spoilt)); err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{-1, 10} {
				got := texts(t, read(t, c, Query{Sources: []Source{{Name: "web"}}, N: n}))
				if strings.Join(got, "|") != "out hello|--- exited" {
					t.Errorf("read %q", got)
				}
			}
		})
	}
	t.Run("endless line", func(t *testing.T) {
		c := newCollector(t, Options{})
		s := open(t, c, "web", Config{File: true, Timestamps: true})
		exited(t, s, "exited")
		at := filepath.Join(c.opts.Home, s.cfg.Dir, spoilt)
		if err := os.WriteFile(at, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		const size = 20 * MaxLine
		if err := os.Truncate(at, size); err != nil {
			t.Fatal(err)
		}
		w := &largest{}
		if err := c.Read(t.Context(), w, Query{Sources: []Source{{Name: "web"}}, N: -1}); err != nil {
			t.Fatal(err)
		}
		if w.most > 2*MaxLine || w.sum < size {
			t.Errorf("%d bytes, %d of them at once", w.sum, w.most)
		}
		lines, err := s.Tail(3, time.Minute)
		if err != nil || len(lines) == 0 || len(strings.Join(lines, "")) > 4*MaxLine {
			t.Errorf("the tail has %d lines, %v", len(lines), err)
		}
		if err := os.Truncate(at, 1<<32); err != nil {
			t.Fatal(err)
		}
		for _, q := range []Query{{N: -1}, {N: -1, Since: time.Now()}, {N: 1 << 30}} {
			q.Sources = []Source{{Name: "web"}}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			if err := c.Read(ctx, io.Discard, q); err != nil {
				t.Error(err)
			}
			cancel()
		}
	})
}

// largest is a writer that knows the size of the largest piece.
type largest struct{ most, sum int }

func (l *largest) Write(p []byte) (int, error) {
	l.most, l.sum = max(l.most, len(p)), l.sum+len(p)
	return len(p), nil
}
