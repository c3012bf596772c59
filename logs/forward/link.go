package forward

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/service"
)

// link is a connection to a receiver.
type link interface {
	// send writes all of a batch, for as long as that takes.
	send(b *batch) error
	// left is at most how many bytes of what was sent the receiver may not have; an
	// error tells that it is gone.
	left() (int, error)
	close()
}

const (
	connectWithin = 10 * time.Second
	// deadAfter is after how long a receiver that acknowledges nothing is given up.
	deadAfter = time.Minute
)

// errClosed is what a link to a receiver that has gone says.
var errClosed = errors.New("the receiver has closed the connection")

// dial connects to a destination.
func dial(to string, stdout int) (link, error) {
	network, address, _ := strings.Cut(to, ":")
	switch {
	case to == service.ForwardStdout:
		if stdout < 0 {
			return nil, errors.New("the container's stdout is closed, or a socket, which cannot be opened again")
		}
		fd, err := unix.FcntlInt(uintptr(stdout), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, err
		}
		return &stdoutLink{os.NewFile(uintptr(fd), "stdout")}, nil
	case network == "unix":
		conn, err := net.DialTimeout("unix", address, connectWithin)
		if errors.Is(err, unix.EPROTOTYPE) {
			conn, err = net.DialTimeout("unixgram", address, connectWithin)
		}
		if errors.Is(err, unix.EACCES) {
			err = fmt.Errorf("%w: let the supervisor write to it, which has uid %d and gid %d", err, os.Getuid(), os.Getgid())
		}
		return connected(conn, err)
	}
	return connected(net.DialTimeout(network, address, connectWithin))
}

func connected(conn net.Conn, err error) (link, error) {
	if err != nil {
		return nil, err
	}
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		conn.Close()
		return nil, err
	}
	l := &socket{conn: conn, raw: raw, datagrams: conn.RemoteAddr().Network() == "unixgram"}
	if _, is := conn.(*net.TCPConn); is {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deadAfter.Milliseconds()))
		})
	}
	return l, nil
}

// socket is a connection of the network, or a unix socket.
type socket struct {
	conn      net.Conn
	raw       syscall.RawConn
	datagrams bool
}

func (l *socket) send(b *batch) error {
	if _, err := l.left(); err != nil {
		return err
	}
	if !l.datagrams {
		_, err := l.conn.Write(b.text)
		return err
	}
	from := 0
	for _, end := range b.ends {
		if _, err := l.conn.Write(b.text[from:end]); err != nil {
			return err
		}
		from = end
	}
	return nil
}

// left looks first at what was not taken, and then whether the receiver is there: one that
// has gone has taken nothing, and its kernel says that nothing is left.
func (l *socket) left() (n int, err error) {
	failure := l.raw.Control(func(fd uintptr) {
		if n, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err != nil {
			return
		}
		var said [4096]byte // of no interest, but the socket is not to fill up
		for {
			got, _, why := unix.Recvfrom(int(fd), said[:], unix.MSG_DONTWAIT)
			switch {
			case why == unix.EINTR || why == nil && got > 0:
				continue
			case why == unix.EAGAIN:
			case why != nil:
				err = why
			case !l.datagrams:
				err = errClosed
			}
			return
		}
	})
	return n, errors.Join(err, failure)
}

func (l *socket) close() { l.conn.Close() }

// stdoutLink is the container's stdout.
type stdoutLink struct{ out *os.File }

// atOnce is how much of stdout is written at once, unless one line is longer: what a pipe
// takes whole, so that lines do not mix with the main command's (pipe(7)).
const atOnce = 4096

func (l *stdoutLink) send(b *batch) error {
	for text := b.text; len(text) > 0; {
		n := len(text)
		if n > atOnce {
			if n = bytes.LastIndexByte(text[:atOnce], '\n') + 1; n == 0 {
				n = bytes.IndexByte(text, '\n') + 1
			}
		}
		if _, err := l.out.Write(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

func (l *stdoutLink) left() (int, error) { return 0, nil }
func (l *stdoutLink) close()             { l.out.Close() }
