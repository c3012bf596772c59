package rights

import (
	"errors"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
)

// atOnce is how many calls are under way at the same time: each may wait in the
// kernel, and takes a thread for that.
const atOnce = 16

// Serve carries out what comes over the descriptor until its other end is closed.
// What is under way then is not waited for: whoever asked is gone.
func Serve(fd int) error {
	l, err := newLink(fd)
	if err != nil {
		return err
	}
	free := make(chan struct{}, atOnce)
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
			free <- struct{}{} // not before: pings are answered whatever hangs
			a, opened := carry(c, fds)
			closeAll(fds)
			if err := l.send(a, opened...); err != nil {
				_ = l.send(answer{ID: c.ID, File: durable.Answer{Failure: durable.FailureOf(err)}})
			}
			closeAll(opened)
			<-free
		}()
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
	case kindStat:
		var mode uint32
		mode, err = modeOf(c.Path)
		a.Value = int64(mode)
	case kindAccess:
		err = access(c.Path, c.Mode)
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
