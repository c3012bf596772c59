// Package link is tier 2's end of the pair to tier 1: sends are queued and
// written in order by a goroutine of their own, what arrives is handed on in
// order. It owns the socket and nothing else, and never decides anything.
package link

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/internal/inbox"
	"rlminit/wire"
)

// Link is one end of a SOCK_SEQPACKET pair. Sends are queued, for the loop must
// never wait for PID 1.
type Link struct {
	raw syscall.RawConn
	out func(Outgoing) // takes one message: deliver, but in a simulation

	// Failed is told, by a goroutine of its own, of a message that cannot be sent.
	// It is set before the first one.
	Failed func(wire.Message, error)

	queue *inbox.Inbox[Outgoing]

	patience time.Duration // what is left of it, deliver's alone
}

// fullPatience is how long messages are tried again that the kernel refuses for
// the moment. Then each has one try until one with descriptors went through:
// what waits behind them, an answer to a ping above all, must not come too late.
const fullPatience = time.Second

// Outgoing is a message on its way, with the descriptors it passes.
//
// Invariant: own has every one of FDs, and nobody else closes or uses what it has. So
// none of these numbers can become another file's on the way.
type Outgoing struct {
	Message wire.Message
	FDs     []int
	own     []int           // closed once it is sent
	refused error           // why it has none of its descriptors, and is not sent
	sent    chan<- struct{} // instead of a message: closed when all before it is sent
}

// Open takes over descriptor fd, one end of a SOCK_SEQPACKET pair.
func Open(fd int) (*Link, error) {
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("cannot use descriptor %d as the link to PID 1: %w", fd, err)
	}
	file := os.NewFile(uintptr(fd), "link")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("cannot use descriptor %d as the link to PID 1: %w", fd, err)
	}
	l := &Link{raw: raw, queue: inbox.New[Outgoing](), patience: fullPatience}
	l.out = l.deliver
	go l.queue.Serve(l.write)
	return l, nil
}

// To is a link whose messages out takes in place of a socket. Nothing is
// received by it.
func To(out func(Outgoing)) *Link {
	l := &Link{out: out, queue: inbox.New[Outgoing]()}
	go l.queue.Serve(l.write)
	return l
}

// Close ends the sending. What is sent after it goes nowhere.
func (l *Link) Close() { l.queue.Close() }

// Send queues a message with descriptors. Those in given are the link's from now on:
// it closes them once the message is sent, whether or not they go with it. Of the
// others in fds it makes copies of its own, so that the caller may close its own at
// any time.
func (l *Link) Send(m wire.Message, fds, given []int) {
	o := Outgoing{Message: m, own: given}
	for _, fd := range fds {
		if !slices.Contains(given, fd) {
			own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
			if err != nil {
				o.refused = fmt.Errorf("cannot copy a descriptor: %w", err)
				break
			}
			o.own, fd = append(slices.Clip(o.own), own), own
		}
		o.FDs = append(o.FDs, fd)
	}
	if !l.queue.Put(o) {
		wire.CloseAll(o.own)
	}
}

// Flush waits until all that was queued before is sent, so that it cannot be
// lost with us. It is not for the loop.
func (l *Link) Flush() {
	sent := make(chan struct{})
	if l.queue.Put(Outgoing{sent: sent}) {
		<-sent
	}
}

// write sends what is queued, in order, as the socket takes it.
func (l *Link) write(o Outgoing) {
	if o.sent != nil {
		close(o.sent)
		return
	}
	l.out(o)
	if len(o.own) > 0 {
		// Beside us: it may be the last close of a socket that a service has
		// told to linger, and that takes its time.
		go wire.CloseAll(o.own)
	}
}

func (l *Link) deliver(o Outgoing) {
	err := o.refused
	if err == nil {
		err = l.try(o)
	}
	for pause := time.Millisecond; err != nil && o.refused == nil && durable.Temporary(err) && l.patience > 0; pause *= 2 {
		l.patience -= pause
		time.Sleep(pause)
		err = l.try(o)
	}
	if err == nil && len(o.FDs) > 0 {
		l.patience = fullPatience
	}
	if err != nil && !errors.Is(err, wire.ErrClosed) {
		slog.Error("cannot send to PID 1", "message", fmt.Sprintf("%T", o.Message), "err", err)
		if l.Failed != nil {
			go l.Failed(o.Message, err)
		}
	}
}

// try sends one message as soon as the socket has room.
func (l *Link) try(o Outgoing) error {
	var failure error
	err := l.raw.Write(func(fd uintptr) bool {
		failure = wire.Send(int(fd), o.Message, o.FDs...)
		return !errors.Is(failure, wire.ErrFull)
	})
	if err != nil {
		return err
	}
	return failure
}

// Receive calls handle for each message until PID 1 closes its end. The
// descriptors are handle's to close.
func (l *Link) Receive(handle func(wire.Message, []int)) error {
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
