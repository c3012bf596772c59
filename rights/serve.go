package rights

import (
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
)

// slow is after how long a call gives its place to another.
const slow = 250 * time.Millisecond

// mostHung is how many may have given theirs: a file system that does not answer must
// keep nobody from one that does. Where threads are few nobody gives a place.
func mostHung(atOnce int) int {
	if atOnce < 16 {
		return 0
	}
	return 2 * atOnce
}

// Serve carries out what comes over the descriptor until its other end is closed,
// atOnce calls at a time: each may wait in the kernel, and takes a thread for that.
// What is under way at the end is not waited for: whoever asked is gone.
func Serve(fd, atOnce int) error {
	l, err := newLink(fd)
	if err != nil {
		return err
	}
	places := &places{free: make(chan struct{}, atOnce), hung: make(chan struct{}, mostHung(atOnce))}
	for {
		var c call
		fds, err := l.receive(&c)
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, unix.ECONNRESET) {
			return nil
		}
		if err != nil {
			return err
		}
		if c.Kind == kindPing {
			_ = l.send(answer{ID: c.ID}) // an error is the next receive's too
			continue
		}
		go func() {
			leave := places.take() // not before: pings are answered whatever hangs
			a, opened := carry(c, fds)
			closeAll(fds)
			if err := l.send(a, opened...); err != nil {
				_ = l.send(answer{ID: c.ID, File: durable.Answer{Failure: durable.FailureOf(err)}})
			}
			closeAll(opened)
			leave()
		}()
	}
}

// places are those of the calls under way.
type places struct{ free, hung chan struct{} }

// take waits for a place. It is given to another when it was kept for too long, or
// by leave.
func (p *places) take() (leave func()) {
	p.free <- struct{}{}
	moved := make(chan bool, 1)
	timer := time.AfterFunc(slow, func() {
		select {
		case p.hung <- struct{}{}:
			<-p.free
			moved <- true
		default:
			moved <- false
		}
	})
	return func() {
		if !timer.Stop() && <-moved {
			<-p.hung
		} else {
			<-p.free
		}
	}
}

// carry does one thing.
func carry(c call, fds []int) (a answer, opened []int) {
	a.ID = c.ID
	var err error
	fd := -1
	switch c.Kind {
	case kindFile:
		a.File, opened = durable.Carry(c.File, fds)
		return a, opened
	case kindOpen:
		if c.Flags&^unix.O_PATH != 0 {
			err = unix.EPROTO // nothing is written by a path
			break
		}
		fd, err = openPath(c.Path, c.Flags, c.Mode != 0)
	case kindLook:
		var mode uint32
		var denied error
		mode, denied, err = look(c.Path, c.Mode)
		a.Value, a.Denied = int64(mode), durable.FailureOf(denied)
	case kindListen:
		fd, err = listen(c.Name, c.Path)
	case kindInotify:
		fd, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	case kindWatch:
		var watch int
		if len(fds) != 1 {
			err = unix.EPROTO
			break
		}
		watch, err = unix.InotifyAddWatch(fds[0], c.Path, c.Mode)
		a.Value = int64(watch)
	default:
		err = unix.EOPNOTSUPP
	}
	if err != nil {
		a.File.Failure = durable.FailureOf(err)
	} else if fd >= 0 {
		opened = []int{fd}
	}
	return a, opened
}
