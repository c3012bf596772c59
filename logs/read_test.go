package logs

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
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
	if lost := s.Stats(); lost != (Stats{}) {
		t.Errorf("what was never to be kept counts as lost: %+v", lost)
	}
}
