// Package link is tier 2's end of the pair to tier 1: a message is sent by whoever has
// it, at once, and where the socket is full it is queued and sent in order by a goroutine
// of the link's own; what arrives is handed on in order. It owns the socket and nothing else, and never decides anything.
package link

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/internal/durable"
	"rlminit/internal/inbox"
	"rlminit/wire"
)

// Link is one end of a SOCK_SEQPACKET pair. Nobody who sends waits for PID 1, for the
// loop must not.
type Link struct {
	raw syscall.RawConn // nil in a simulation
	out func(Outgoing)  // takes one message: deliver, but in a simulation

	// Failed is told, by a goroutine of its own, of a message that cannot be sent.
	// It is set before the first one.
	Failed func(wire.Message, error)

	queue *inbox.Inbox[Outgoing]

	mu     sync.Mutex // never held while something is waited for
	queued int        // messages that are in the queue, or on their way from it
	closed bool

	patience time.Duration // what is left of it; deliver's, and under mu where nothing is queued
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
func (l *Link) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.queue.Close()
}

// Send sends a message with descriptors, behind all that was sent before. Those in given
// are the link's from now on: it closes them once the message is sent, whether or not
// they go with it. Of the others in fds it makes copies of its own where the message has
// to wait, so that the caller may close its own at any time.
func (l *Link) Send(m wire.Message, fds, given []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.send(m, fds, given)
}

// send is Send for whoever has l.mu.
func (l *Link) send(m wire.Message, fds, given []int) {
	if l.queued == 0 && l.sendNow(m, fds) {
		closeApart(given)
		return
	}
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
	if !l.put(o) {
		wire.CloseAll(o.own)
	}
}

// Batch is messages of one goroutine that are sent together, in their order.
type Batch struct {
	link  *Link
	parts []wire.Part
	fds   []int // of all parts
	given [][]int
}

// Batch returns an empty one.
func (l *Link) Batch() *Batch { return &Batch{link: l} }

// mostParts is how many messages PID 1 takes at once, who must hear of other things too.
const mostParts = 64

// Add adds a message, as Send takes it. All of fds stay open until the batch is sent,
// which it is if there is no room for one more.
func (b *Batch) Add(m wire.Message, fds, given []int) {
	if len(b.fds)+len(fds) > wire.MaxDescriptors || len(b.parts) == mostParts {
		b.Send()
	}
	b.parts = append(b.parts, wire.Part{Message: m, Descriptors: uint8(len(fds))})
	b.fds, b.given = append(b.fds, fds...), append(b.given, given)
}

// Send sends what was added: in one message, or if that cannot be now, in one for each.
func (b *Batch) Send() {
	if len(b.parts) == 0 {
		return
	}
	l := b.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(b.parts) > 1 && l.queued == 0 && l.sendNow(&wire.Many{Parts: b.parts}, b.fds) {
		closeApart(slices.Concat(b.given...))
	} else {
		fds := b.fds
		for i, p := range b.parts {
			n := int(p.Descriptors)
			l.send(p.Message, fds[:n:n], b.given[i])
			fds = fds[n:]
		}
	}
	*b = Batch{link: l}
}

// put queues o, and tells whether the link is open. Whoever calls it has l.mu.
func (l *Link) put(o Outgoing) bool {
	if !l.queue.Put(o) {
		return false
	}
	l.queued++
	return true
}

// sendNow sends a message if the socket takes it now. Whoever calls it has l.mu, and
// nothing is queued.
func (l *Link) sendNow(m wire.Message, fds []int) bool {
	if l.raw == nil || l.closed {
		return false
	}
	var failure error
	if err := l.raw.Control(func(fd uintptr) { failure = wire.Send(int(fd), m, fds...) }); err != nil || failure != nil {
		if errors.Is(failure, wire.ErrClosed) {
			l.closed = true
			l.queue.Close()
		}
		return false // if it is open, deliver tries again, and tells
	}
	if len(fds) > 0 {
		l.patience = fullPatience
	}
	return true
}

// closeApart closes descriptors in a goroutine of its own: it may be the last close of a
// socket that a service has told to linger, and that takes its time.
func closeApart(fds []int) {
	if len(fds) > 0 {
		go wire.CloseAll(fds)
	}
}

// Behind tells whether a message that is sent now would wait behind others.
func (l *Link) Behind() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queued > 0 && !l.closed
}

// Flush waits until all that was queued before is sent, so that it cannot be
// lost with us. It is not for the loop.
func (l *Link) Flush() {
	sent := make(chan struct{})
	l.mu.Lock()
	waits := l.put(Outgoing{sent: sent})
	l.mu.Unlock()
	if waits {
		<-sent
	}
}

// write sends what is queued, in order, as the socket takes it.
func (l *Link) write(o Outgoing) {
	if o.sent != nil {
		close(o.sent)
	} else {
		l.out(o)
		closeApart(o.own)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queued--
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
