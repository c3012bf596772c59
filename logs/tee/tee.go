// Package tee copies lines to the container's stdout, which may be read slowly, or not at
// all: what it cannot write is skipped, and said. It owns its descriptor and its goroutine,
// and keeps nobody waiting.
package tee

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// most is how many bytes wait for the container's stdout before lines are
// skipped.
const most = 256 << 10

// atOnce is how much is written at once, unless one line is longer: what a
// pipe takes whole, so that lines do not mix with the main command's (pipe(7)).
const atOnce = 4096

// Tee is one.
type Tee struct {
	out    *os.File
	colour bool          // of prefixes
	ended  chan struct{} // closed when the goroutine is

	mu      sync.Mutex
	more    sync.Cond
	waiting []byte
	skipped int  // lines, not told yet
	telling int  // of those, told in what waits
	dead    bool // the last write failed
	closing bool
}

// New makes a tee to fd, which stays the caller's. Without one (negative) it
// takes nothing.
func New(fd int, colour bool) (*Tee, error) {
	t := &Tee{colour: colour, ended: make(chan struct{})}
	t.more.L = &t.mu
	if fd < 0 {
		close(t.ended)
		return t, nil
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("cannot use the container's stdout: %w", err)
	}
	t.out = os.NewFile(uintptr(own), "stdout")
	go t.run()
	return t, nil
}

// colours are those of prefixes.
var colours = [...]string{"\x1b[36m", "\x1b[33m", "\x1b[32m", "\x1b[35m", "\x1b[34m", "\x1b[96m", "\x1b[93m", "\x1b[92m", "\x1b[95m", "\x1b[94m"}

// From is what the tee knows of a log; its fields are whose calls Pass.
type From struct {
	prefix []byte // nil: to be made anew
	begun  []byte // a line that it waits for the end of
}

// Rename has the prefix made anew.
func (f *From) Rename() { f.prefix = nil }

// prefix is what stands before a slot's lines.
func (t *Tee) prefix(name string) []byte {
	if !t.colour {
		return []byte(name + " | ")
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	return []byte(colours[h.Sum32()%uint32(len(colours))] + name + " |\x1b[0m ")
}

// Pass takes output of a log as it goes into its file. textOf gives what a line of it is
// shown as; nil: it has bytes as they come, and may end within a line.
func (t *Tee) Pass(f *From, name string, out []byte, textOf func(line []byte) []byte) {
	if t.out == nil {
		return
	}
	if f.prefix == nil {
		f.prefix = t.prefix(name)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(out) > 0 {
		n := bytes.IndexByte(out, '\n') + 1
		if n == 0 {
			n = len(out)
		}
		line := out[:n]
		out = out[n:]
		if textOf != nil {
			t.take(f.prefix, textOf(line))
			continue
		}
		if line[n-1] != '\n' && len(f.begun)+n < atOnce {
			f.begun = append(f.begun, line...)
			break
		}
		t.take(f.prefix, f.begun, line)
		f.begun = nil
	}
	t.more.Signal()
}

// take appends a line made of parts to what waits, or skips it.
func (t *Tee) take(parts ...[]byte) {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	if t.closing || len(t.waiting) > 0 && len(t.waiting)+size > most {
		t.skipped++
		return
	}
	t.tellSkipped()
	for _, part := range parts {
		t.waiting = append(t.waiting, part...)
	}
	if t.waiting[len(t.waiting)-1] != '\n' {
		t.waiting = append(t.waiting, '\n')
	}
}

func (t *Tee) tellSkipped() {
	if t.skipped > 0 {
		t.waiting = append(t.waiting, t.prefix("rlminit")...)
		t.waiting = fmt.Appendf(t.waiting, "skipped %d lines here, as stdout was not read; they are in rlminit logs\n", t.skipped)
		t.telling += t.skipped
		t.skipped = 0
	}
}

// run writes what waits, until the tee is closed or nobody can read any more.
func (t *Tee) run() {
	defer close(t.ended)
	defer t.out.Close()
	var writing []byte
	for {
		t.mu.Lock()
		for len(t.waiting) == 0 && (t.skipped == 0 || t.dead) && !t.closing {
			t.waiting = nil
			writing = nil // a quiet tee keeps no memory
			t.more.Wait()
		}
		if !t.dead {
			t.tellSkipped()
		}
		writing, t.waiting = t.waiting, writing[:0]
		told := t.telling
		t.telling = 0
		t.mu.Unlock()
		if len(writing) == 0 {
			return
		}
		rest := t.write(writing)
		t.mu.Lock()
		if t.dead = len(rest) > 0; t.dead {
			t.skipped += bytes.Count(rest, []byte{'\n'})
			if told > 0 && len(rest) == len(writing) {
				t.skipped += told - 1 // the line that told it was not read either
			}
		}
		pause := t.dead && !t.closing
		t.mu.Unlock()
		if pause {
			time.Sleep(time.Second)
		}
	}
}

// write writes lines, and returns what it could not.
func (t *Tee) write(lines []byte) []byte {
	for len(lines) > 0 {
		n := len(lines)
		if n > atOnce {
			if n = bytes.LastIndexByte(lines[:atOnce], '\n') + 1; n == 0 {
				n = bytes.IndexByte(lines, '\n') + 1
			}
		}
		if _, err := t.out.Write(lines[:n]); err != nil && !errors.Is(err, unix.EINTR) {
			return lines
		}
		lines = lines[n:]
	}
	return nil
}

// Close waits until all is written, or for the deadline.
func (t *Tee) Close(deadline <-chan time.Time) error {
	t.mu.Lock()
	t.closing = true
	t.more.Signal()
	t.mu.Unlock()
	select {
	case <-t.ended:
		return nil
	case <-deadline:
		return errors.New("cannot write the rest of the tee: stdout is not read")
	}
}
