package jobs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// logged is a host with a log, which is opened anew each time somebody asks for it.
type logged struct {
	Host
	t      *testing.T
	opened []*os.File    // the ends that are read
	again  chan *os.File // those after the first
	rows   [][]byte
}

func (h *logged) LogOf(string) (pipes [2]int, done func(), err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		h.t.Fatal(err)
	}
	if _, err := unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, os.Getpagesize()); err != nil {
		h.t.Fatal(err)
	}
	h.opened = append(h.opened, os.NewFile(uintptr(ends[0]), "log"))
	if len(h.opened) > 1 {
		h.again <- h.opened[len(h.opened)-1]
	}
	return [2]int{ends[1], ends[1]}, func() { _ = unix.Close(ends[1]) }, nil
}

func (h *logged) Remember(_ string, row []byte) error {
	h.rows = append(h.rows, row)
	return nil
}

// Lines that a log has taken before it was closed are not written again into the next one.
func TestLogThatIsClosedHasNothingTwice(t *testing.T) {
	h := &logged{t: t, again: make(chan *os.File, 10)}
	c := &copying{runner: &Runner{host: h}, job: "7", of: "tick", over: make(chan struct{})}
	fds, done, err := h.LogOf("tick")
	if err != nil {
		t.Fatal(err)
	}
	c.fds, c.done = fds, done
	first := h.opened[0]
	var lines, want []byte
	for i := range 2000 {
		lines = fmt.Appendf(lines, "line %d\n", i)
		want = fmt.Appendf(want, "job 7: line %d\n", i)
	}
	wrote := make(chan error, 1)
	go func() { wrote <- c.write(0, lines, int64(len(lines))) }()
	got := make([]byte, len(want)/2)
	if _, err := io.ReadFull(first, got); err != nil {
		t.Fatal(err)
	}
	_ = first.Close() // what is in the pipe is lost
	tail := new(bytes.Buffer)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = tail.ReadFrom(<-h.again)
	}()
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	c.release()
	<-drained
	if tail.Len() == 0 || !bytes.HasSuffix(want, tail.Bytes()) {
		t.Errorf("the second log has %.100q", tail)
	}
	got = append(got, tail.Bytes()...)
	for i := range 2000 {
		if line := fmt.Appendf(nil, "job 7: line %d\n", i); bytes.Count(got, line) > 1 {
			t.Fatalf("%s is there twice", line)
		}
	}
}

// A job that is forgotten is remembered no more, and opens no log: that may be another's.
func TestCopyOfAJobThatIsForgotten(t *testing.T) {
	h := &logged{t: t}
	c := &copying{runner: &Runner{host: h}, job: "7", of: "tick"}
	if err := c.write(0, []byte("a\n"), 2); err != nil || len(h.opened) != 1 || string(h.rows[0]) != "[2,0]" {
		t.Fatal(err, h.rows)
	}
	c.forget()
	if err := c.write(0, []byte("b\n"), 4); err != nil || len(h.rows) != 2 || h.rows[1] != nil {
		t.Errorf("%v: remembered is %q", err, h.rows)
	}
	c.release()
	if err := c.write(0, []byte("c\n"), 6); !errors.Is(err, errForgotten) || len(h.opened) != 1 {
		t.Errorf("%v: %d logs are open", err, len(h.opened))
	}
	got := make([]byte, 100)
	if n, err := h.opened[0].Read(got); err != nil || string(got[:n]) != "job 7: a\njob 7: b\n" {
		t.Errorf("%v: the log has %q", err, got[:n])
	}
}
