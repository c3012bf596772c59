package logs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// poller waits for the pipes, and for what is posted. It is one of our own: the
// runtime's would wake for each write of each service, also while they are being
// dealt with.
type poller struct {
	epoll  int
	events [128]unix.EpollEvent
	ready  int // of events
}

// wakeEvent is the inbox's name among the events; a slot's is its index and
// stream.
const wakeEvent = -1

func (p *poller) open(wake int) (err error) {
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("cannot wait for logs: %w", err)
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: wakeEvent}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, wake, &event); err != nil {
		return fmt.Errorf("cannot wait for logs: %w", err)
	}
	return nil
}

// add has a slot's pipe waited for.
func (p *poller) add(s *Slot, stream int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(s.index<<1 | stream), Pad: s.generation}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, s.pipes[stream].read, &event); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("cannot wait for the service's output: %w", err)
	}
	return nil
}

// remove has a pipe waited for no longer.
func (p *poller) remove(fd int) { _ = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, fd, nil) }

// wait waits for the next events. The runtime's signals, by which it has threads look
// up, are none: the watch over the disk that a turn begins would call for the next.
func (p *poller) wait() {
	n, err := unix.EpollWait(p.epoll, p.events[:], -1)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.EpollWait(p.epoll, p.events[:], -1)
	}
	if err != nil {
		panic(fmt.Errorf("cannot wait for logs: %w", err))
	}
	p.ready = max(n, 0)
}
