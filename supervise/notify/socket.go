package notify

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Socket is the socket of one service.
type Socket struct {
	conn *net.UnixConn
}

// Listen makes the socket at path, in place of one that is there, with the given
// permissions: whoever sends must be able to write to it (unix(7)). The file
// stays when the Socket is closed, for descriptors of it live elsewhere.
func Listen(path string, mode fs.FileMode) (*Socket, error) {
	if limit := len(unix.RawSockaddrUnix{}.Path) - 1; len(path) > limit {
		return nil, fmt.Errorf("cannot listen on %s: a socket's path has at most %d bytes", path, limit)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("cannot listen on %s: it is there, and is no socket", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot listen on %s: %w", path, unwrapped(err))
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", path, unwrapped(err))
	}
	s := &Socket{conn}
	if err := s.prepare(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	// Until here the umask kept others out.
	if err := os.Chmod(path, mode); err != nil {
		conn.Close()
		return nil, fmt.Errorf("cannot listen on %s: %w", path, unwrapped(err))
	}
	return s, nil
}

// FromFile adopts a socket that somebody else kept, with the messages that wait in
// it. The file stays the caller's.
func FromFile(f *os.File) (*Socket, error) {
	any, err := net.FilePacketConn(f)
	if err != nil {
		return nil, fmt.Errorf("cannot adopt the notification socket: %w", unwrapped(err))
	}
	conn, ok := any.(*net.UnixConn)
	if !ok || conn.LocalAddr().Network() != "unixgram" {
		any.Close()
		return nil, errors.New("cannot adopt the notification socket: it is no unix datagram socket")
	}
	s := &Socket{conn}
	if err := s.prepare(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("cannot adopt the notification socket: %w", err)
	}
	return s, nil
}

// prepare asks the kernel to name the sender of each message.
func (s *Socket) prepare() (err error) {
	failed := s.control(func(own int) { err = unix.SetsockoptInt(own, unix.SOL_SOCKET, unix.SO_PASSCRED, 1) })
	return errors.Join(failed, err)
}

func (s *Socket) control(with func(fd int)) error {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { with(int(fd)) })
}

// Duplicate returns a descriptor of the socket, for whoever keeps it. That of an os.File
// would make the socket blocking for all who share it.
func (s *Socket) Duplicate() (fd int, err error) {
	failed := s.control(func(own int) { fd, err = unix.FcntlInt(uintptr(own), unix.F_DUPFD_CLOEXEC, 3) })
	return fd, errors.Join(failed, err)
}

// Close ends Receive. It leaves the file where it is.
func (s *Socket) Close() error { return s.conn.Close() }

// unwrapped is the cause without the name of a Go function or the path once more.
func unwrapped(err error) error {
	var path *fs.PathError
	var op *net.OpError
	var call *os.SyscallError
	if errors.As(err, &path) {
		err = path.Err
	}
	if errors.As(err, &op) {
		err = op.Err
	}
	if errors.As(err, &call) {
		err = call.Err
	}
	return err
}
