package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// What the run of a schedule writes is its service's log too. Whole lines are copied from the
// job's memfds into the pipes of that log, each with the job's number before it, and a row of
// tier 1's table has how far that has come: a successor goes on there, and may repeat what
// was written at the moment of a kill.

// logWithin is how long the end of a job waits until all that it has written is in the log.
const logWithin = 10 * time.Second

func copiedKey(job string) string { return "joblog/" + job }

// copying is how far a job's output is copied.
type copying struct {
	runner *Runner
	job    string
	of     string // the service

	mu   sync.Mutex
	at   [2]int64
	fds  [2]int
	done func() // gives the pipes back; nil: there are none
}

// toLog copies what the run of a schedule writes into the log of its service.
func (r *Runner) toLog(t *task) {
	if t.spec.Kind != kindSchedule || !t.output.There() || t.logged != nil {
		return
	}
	logged, streams := make(chan struct{}), t.output.Streams
	t.logged = logged
	c := &copying{runner: r, job: t.spec.ID, of: serviceOf(t.spec.Schedule)}
	_ = json.Unmarshal(r.host.Recall(copiedKey(c.job)), &c.at) // nothing: from the beginning
	go func() {
		defer close(logged)
		var both sync.WaitGroup
		for i, s := range streams {
			both.Go(func() {
				if err := s.Lines(c.at[i], func(lines []byte, next int64) error { return c.write(i, lines, next) }); err != nil {
					slog.Warn("the output of a schedule's run is not in its service's log", "service", c.of, "job", c.job, "err", err)
				}
			})
		}
		both.Wait()
		c.release()
	}()
}

// write writes lines of a stream into the log, and remembers where the next begins.
func (c *copying) write(stream int, lines []byte, next int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var marked []byte
	for line := range bytes.Lines(lines) {
		marked = append(append(marked, "job "+c.job+": "...), line...)
	}
	for again := false; ; again = true {
		err := c.open()
		if err == nil {
			err = writeWhole(c.fds[stream], marked)
		}
		if err == nil {
			break
		}
		c.drop()
		if again || !errors.Is(err, unix.EPIPE) { // a log that was closed, for its service rests, is opened again
			return err
		}
	}
	c.at[stream] = next
	row, _ := json.Marshal(c.at) // of numbers
	return c.runner.host.Remember(copiedKey(c.job), row)
}

func (c *copying) open() (err error) {
	if c.done == nil {
		c.fds, c.done, err = c.runner.host.LogOf(c.of)
	}
	return err
}

func (c *copying) drop() {
	if c.done != nil {
		c.done()
		c.done = nil
	}
}

func (c *copying) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}

// pipeBuf is how much write(2) writes into a pipe in one piece, PIPE_BUF of pipe(7): other
// writers' lines come between pieces alone.
const pipeBuf = 4096

// writeWhole writes lines into a pipe, as many as fit at a time.
func writeWhole(fd int, lines []byte) error {
	for len(lines) > 0 {
		piece := lines[:min(len(lines), pipeBuf)]
		if whole := bytes.LastIndexByte(piece, '\n') + 1; whole > 0 {
			piece = piece[:whole]
		}
		n, err := unix.Write(fd, piece)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		lines = lines[n:]
	}
	return nil
}
