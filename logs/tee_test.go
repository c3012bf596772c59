package logs

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stdout is a container's: what the tee writes to, and its reader.
func stdout(t *testing.T) (fd int, reader *os.File) {
	t.Helper()
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(ends[1], true); err != nil {
		t.Fatal(err)
	}
	reader = os.NewFile(uintptr(ends[0]), "stdout")
	t.Cleanup(func() { reader.Close() })
	return ends[1], reader
}

func TestTeeShowsWholeLinesWithTheirService(t *testing.T) {
	fd, r := stdout(t)
	c := newCollector(t, Options{Tee: fd})
	lines := bufio.NewReader(r)
	for _, timestamps := range []bool{true, false} {
		name := fmt.Sprintf("web-%v", timestamps)
		s := open(t, c, name, Config{File: true, Timestamps: timestamps, Tee: true})
		s.Mark("started")
		say(t, s.Stdout(), "he")
		say(t, s.Stdout(), "llo\n\nbye\n")
		exited(t, s, "exited")
		for _, want := range []string{"hello", "", "bye"} {
			got, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if got != name+" | "+want+"\n" {
				t.Errorf("got %q", got)
			}
		}
	}
}

func TestUnreadStdoutHoldsUpNothing(t *testing.T) {
	fd, r := stdout(t)
	c := newCollector(t, Options{Tee: fd})
	s := open(t, c, "web", Config{File: true, Timestamps: true, Tee: true})
	const count = 20000
	for i := range count {
		say(t, s.Stdout(), fmt.Sprintf("%d %s\n", i, strings.Repeat("x", 50)))
	}
	exited(t, s, "exited")
	if got := strings.Count(content(t, c, s), "\n"); got != count+1 {
		t.Fatalf("%d lines are in the file", got)
	}
	shown, skipped := 0, 0
	lines := bufio.NewReader(r)
	for shown+skipped < count {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var n int
		if k, _ := fmt.Sscanf(line, "rlminit | skipped %d lines", &n); k == 1 {
			skipped += n
		} else if strings.HasPrefix(line, fmt.Sprintf("web | %d x", shown+skipped)) {
			shown++
		} else {
			t.Fatalf("after %d shown and %d skipped: %q", shown, skipped, line)
		}
	}
	if shown+skipped != count || skipped == 0 {
		t.Errorf("%d lines shown, %d skipped, of %d", shown, skipped, count)
	}
}

func TestDeadStdoutHoldsUpNothing(t *testing.T) {
	fd, r := stdout(t)
	r.Close()
	c := newCollector(t, Options{Tee: fd})
	s := open(t, c, "web", Config{File: true, Timestamps: true, Tee: true})
	for range 100 {
		say(t, s.Stdout(), strings.Repeat("x", 10000)+"\n")
	}
	exited(t, s, "exited")
	if err := c.Close(10 * time.Second); err != nil {
		t.Error(err)
	}
}
