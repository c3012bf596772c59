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

// The output of a schedule's run goes into its service's log too. Whole lines are copied from the
// job's memfds into the pipes of that log, each with the job's number before it, and a row of
// tier 1's table has how far that has come: a successor goes on there, and may repeat what
// was written at the moment of a kill. A log is closed under a copy only when its service is
// removed; what is still in its pipes then is lost.

// logWithin is how long the end of a job waits until all that it has written is in the log,
// and logWithinStop is that while the container stops.
const (
	logWithin     = 10 * time.Second
	logWithinStop = time.Second
)

func copiedKey(job string) string { return "joblog/" + job }

// copying is how far a job's output is copied.
type copying struct {
	runner *Runner
	job    string
	of     string        // the service
	over   chan struct{} // closed when nothing is copied any more

	row       sync.Mutex // of tier 1's table, which nobody waits for while something is written
	forgotten bool       // the job is: there is no row of it any more

	mu   sync.Mutex
	at   [2]int64
	fds  [2]int
	done func() // gives the pipes back; nil: there are none
}

// toLog copies what the run of a schedule writes into the log of its service.
func (r *Runner) toLog(t *task) {
	if t.spec.Kind != kindSchedule || !t.output.There() || t.copied != nil {
		return
	}
	streams := t.output.Streams
	c := &copying{runner: r, job: t.spec.ID, of: serviceOf(t.spec.Schedule), over: make(chan struct{})}
	t.copied = c
	_ = json.Unmarshal(r.host.Recall(copiedKey(c.job)), &c.at) // nothing: from the beginning
	go func() {
		defer close(c.over)
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
			n := 0
			n, err = writeWhole(c.fds[stream], marked)
			marked = marked[n:]
		}
		if err == nil {
			break
		}
		c.drop()
		if again || !errors.Is(err, unix.EPIPE) { // a log that was closed, with its service, is opened again if that is there again
			return err
		}
	}
	c.at[stream] = next
	return c.remember()
}

// remember has tier 1's table say how far the copy is, as long as the job is known.
func (c *copying) remember() error {
	c.row.Lock()
	defer c.row.Unlock()
	if c.forgotten {
		return nil
	}
	row, _ := json.Marshal(c.at) // of numbers
	return c.runner.host.Remember(copiedKey(c.job), row)
}

// forget takes the row away for good. A write that is under way goes on, into the pipes
// that it has: a service that comes later under the name has others.
func (c *copying) forget() {
	c.row.Lock()
	defer c.row.Unlock()
	c.forgotten = true
	_ = c.runner.host.Remember(copiedKey(c.job), nil) // it only takes room
}

// await waits until all is copied, for at most a time.
func (c *copying) await(within time.Duration) {
	select {
	case <-c.over:
	case <-time.After(within):
	}
}

var errForgotten = errors.New("the log took too long, and the job is over")

func (c *copying) open() (err error) {
	if c.done != nil {
		return nil
	}
	c.row.Lock()
	forgotten := c.forgotten
	c.row.Unlock()
	if forgotten {
		return errForgotten
	}
	c.fds, c.done, err = c.runner.host.LogOf(c.of)
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

// writeWhole writes lines into a pipe, as many as fit at a time, and returns how much of them
// is in it.
func writeWhole(fd int, lines []byte) (written int, err error) {
	for written < len(lines) {
		piece := lines[written:min(len(lines), written+pipeBuf)]
		if whole := bytes.LastIndexByte(piece, '\n') + 1; whole > 0 {
			piece = piece[:whole]
		}
		n, err := unix.Write(fd, piece)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return written, err
		}
		written += n
	}
	return written, nil
}
