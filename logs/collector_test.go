package logs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func newCollector(t *testing.T, opts Options) *Collector {
	t.Helper()
	if opts.Home == "" {
		opts.Home = t.TempDir()
	}
	if opts.Tee == 0 {
		opts.Tee = -1
	}
	c, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(5 * time.Second) })
	return c
}

func open(t *testing.T, c *Collector, name string, cfg Config) *Slot {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = "logs/" + name
	}
	s, err := c.Open(name, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// say writes to a slot as a service does.
func say(t *testing.T, fd int, text string) {
	t.Helper()
	for len(text) > 0 {
		n, err := unix.Write(fd, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
}

// exited marks an exit and waits until the line is in the log.
func exited(t *testing.T, s *Slot, text string) string {
	t.Helper()
	done := make(chan string, 1)
	s.MarkExit(0, text, func(last string) { done <- last })
	select {
	case last := <-done:
		return last
	case <-time.After(20 * time.Second):
		t.Fatal("the mark never came into the log")
		return ""
	}
}

func content(t *testing.T, c *Collector, s *Slot) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.opts.Home, s.cfg.Dir, current))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// texts are the lines without their times.
func texts(t *testing.T, log string) []string {
	t.Helper()
	var all []string
	for line := range strings.Lines(log) {
		when, rest, _ := strings.Cut(line, " ")
		if _, err := time.Parse(layout, when); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, strings.TrimSuffix(rest, "\n"))
	}
	return all
}

func TestExitComesAfterLastWords(t *testing.T) {
	c := newCollector(t, Options{})
	s := open(t, c, "web", Config{File: true, Timestamps: true})
	s.Mark("started, pid 7")
	say(t, s.Stdout(), "one\ntwo\nthr")
	say(t, s.Stderr(), "KeyError: TOKEN")
	if last := exited(t, s, "exited with status 1"); last != "KeyError: TOKEN" {
		t.Errorf("last words %q", last)
	}
	got := strings.Join(texts(t, content(t, c, s)), "|")
	want := "--- started, pid 7|out one|out two|out+ thr|err+ KeyError: TOKEN|--- exited with status 1"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestPlainBytesStayAsTheyAre(t *testing.T) {
	c := newCollector(t, Options{})
	s := open(t, c, "web", Config{File: true})
	text := "a\x00\xff\r\n\n\nno end"
	say(t, s.Stdout(), text)
	exited(t, s, "exited")
	if got := content(t, c, s); got != text {
		t.Errorf("%q", got)
	}
	if n := s.Stats().Bytes; n != uint64(len(text)) {
		t.Errorf("%d bytes are counted of the %d that were written", n, len(text))
	}
}
