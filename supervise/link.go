package supervise

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"rlminit/wire"
)

// link is tier 2's end of the pair to tier 1. Sends are queued, for the loop
// must never wait for PID 1; what arrives is handed on in order.
type link struct {
	file *os.File
	raw  syscall.RawConn
	out  func(outgoing) // takes one message: deliver, but in a simulation

	// failed is told of a message that cannot be sent; set before the first one.
	failed func(wire.Message, error)

	mu    sync.Mutex
	queue []outgoing
	wake  chan struct{}

	patience time.Duration // what is left of it, deliver's alone
}

// fullPatience is how long messages are tried again that the kernel refuses for
// the moment. Then each has one try until one with descriptors went through:
// what waits behind them, an answer to a ping above all, must not come too late.
const fullPatience = time.Second

// outgoing is a message on its way, with the descriptors it passes. Those in
// after are closed once it is sent.
type outgoing struct {
	message wire.Message
	fds     []int
	after   []int
	sent    chan<- struct{} // instead of a message: closed when all before it is sent
}

// newLink takes over descriptor fd, one end of a SOCK_SEQPACKET pair.
func newLink(fd int) (*link, error) {
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("cannot use descriptor %d as the link to PID 1: %w", fd, err)
	}
	file := os.NewFile(uintptr(fd), "link")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("cannot use descriptor %d as the link to PID 1: %w", fd, err)
	}
	l := &link{file: file, raw: raw, wake: make(chan struct{}, 1), patience: fullPatience}
	l.out = l.deliver
	go l.write()
	return l, nil
}

// send queues a message. The descriptors fds must stay open until it is sent,
// those in after are the link's to close then.
func (l *link) send(m wire.Message, fds, after []int) {
	l.enqueue(outgoing{message: m, fds: fds, after: after})
}

// flush waits until all that was queued before is sent, so that it cannot be
// lost with us. It is not for the loop.
func (l *link) flush() {
	sent := make(chan struct{})
	l.enqueue(outgoing{sent: sent})
	<-sent
}

func (l *link) enqueue(o outgoing) {
	l.mu.Lock()
	l.queue = append(l.queue, o)
	l.mu.Unlock()
	nudge(l.wake)
}

// write sends what is queued, in order, as the socket takes it.
func (l *link) write() {
	for range l.wake {
		for {
			l.mu.Lock()
			batch := l.queue
			l.queue = nil
			l.mu.Unlock()
			if len(batch) == 0 {
				break
			}
			for _, o := range batch {
				if o.sent != nil {
					close(o.sent)
					continue
				}
				l.out(o)
			}
		}
	}
}

func (l *link) deliver(o outgoing) {
	if len(o.after) > 0 {
		// Beside us: it may be the last close of a socket that a service has
		// told to linger, and that takes its time.
		defer func() { go wire.CloseAll(o.after) }()
	}
	err := l.try(o)
	for pause := time.Millisecond; err != nil && temporary(err) && l.patience > 0; pause *= 2 {
		l.patience -= pause
		time.Sleep(pause)
		err = l.try(o)
	}
	if err == nil && len(o.fds) > 0 {
		l.patience = fullPatience
	}
	if err != nil && !errors.Is(err, wire.ErrClosed) {
		slog.Error("cannot send to PID 1", "message", fmt.Sprintf("%T", o.message), "err", err)
		if l.failed != nil {
			go l.failed(o.message, err)
		}
	}
}

// try sends one message as soon as the socket has room.
func (l *link) try(o outgoing) error {
	var failure error
	err := l.raw.Write(func(fd uintptr) bool {
		failure = wire.Send(int(fd), o.message, o.fds...)
		return !errors.Is(failure, wire.ErrFull)
	})
	if err != nil {
		return err
	}
	return failure
}

// receive calls handle for each message until PID 1 closes its end. The
// descriptors are handle's to close.
func (l *link) receive(handle func(wire.Message, []int)) error {
	var in wire.Receiver
	for {
		var m wire.Message
		var fds []int
		var failure error
		err := l.raw.Read(func(fd uintptr) bool {
			m, fds, failure = in.Receive(int(fd))
			return !errors.Is(failure, wire.ErrEmpty)
		})
		switch {
		case err != nil:
			return err
		case errors.Is(failure, wire.ErrClosed):
			return failure
		case failure != nil:
			slog.Error("cannot read a message of PID 1", "err", failure)
		default:
			handle(m, fds)
		}
	}
}
