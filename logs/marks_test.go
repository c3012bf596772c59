package logs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A mark does not make a file, but is the first line of it, with the time at which it
// was made; and who reads the log sees it.
func TestMarksWaitForAFile(t *testing.T) {
	for name, sees := range map[string]func(*testing.T, *Collector, *Slot) string{
		"output": func(t *testing.T, c *Collector, s *Slot) string {
			say(t, s.Stdout(), "hello\n")
			exited(t, s, "")
			return content(t, c, s)
		},
		"exit": func(t *testing.T, c *Collector, s *Slot) string {
			exited(t, s, "exit 0")
			return content(t, c, s)
		},
		"reader": func(t *testing.T, _ *Collector, s *Slot) string {
			lines, err := s.Tail(10, 10*time.Second)
			if err != nil {
				t.Error(err)
			}
			return strings.Join(lines, "\n")
		},
		"a while": func(t *testing.T, c *Collector, s *Slot) string {
			var text []byte
			eventually(t, "the marks are in the file", func() bool {
				text, _ = os.ReadFile(filepath.Join(c.opts.Home, "logs/web", current))
				return len(text) > 0
			})
			return string(text)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCollector(t, Options{})
			s := open(t, c, "web", Config{Dir: "logs/web", File: true, Timestamps: true})
			s.Mark("starting it")
			s.Mark("note")
			c.inbox.ask(func() {})
			if _, err := os.Stat(filepath.Join(c.opts.Home, "logs/web")); err == nil {
				t.Error("marks have made a directory")
			}
			lines := texts(t, sees(t, c, s))
			if len(lines) < 2 || lines[0] != "--- starting it" || lines[1] != "--- note" {
				t.Errorf("%q", lines)
			}
		})
	}
}

// Who follows a log sees a mark at once.
func TestMarksDoNotWaitForWhoFollows(t *testing.T) {
	c := newCollector(t, Options{})
	s := open(t, c, "web", Config{Dir: "logs/web", File: true, Timestamps: true})
	stop, err := c.watch(newBell())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	s.Mark("starting it")
	c.inbox.ask(func() {})
	if _, err := os.Stat(filepath.Join(c.opts.Home, "logs/web", current)); err != nil {
		t.Error(err)
	}
}
