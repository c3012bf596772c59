package process

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"

	"rlminit/supervise/notify"
)

// Notifier is a service's sd_notify(3) socket. It belongs to the slot: a message
// that was sent while nobody listened is read by a successor.
type Notifier struct {
	name   string
	path   string
	socket *notify.Socket
	file   os.FileInfo // at path when it was made; nil: there was none

	run  uint64 // of which so much was said
	said int    // Invariant: counts complaints of run alone
}

// complaintsMax bounds what is said of one run's notifications: no service shall
// fill the container's log.
const complaintsMax = 10

// OpenNotifier takes over a socket that tier 1 held, or makes one at path with
// mode, whatever is there.
func OpenNotifier(name, path string, mode os.FileMode, held []int) (*Notifier, error) {
	var socket *notify.Socket
	var err error
	if len(held) > 0 {
		file := os.NewFile(uintptr(held[0]), path)
		socket, err = notify.FromFile(file) // which duplicates it
		file.Close()
	} else {
		os.Remove(path)
		socket, err = notify.Listen(path, mode)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot make the notify socket: %w", err)
	}
	return NewNotifier(name, path, socket), nil
}

// NewNotifier is the notifier of a service whose socket is open, and lies at path.
func NewNotifier(name, path string, socket *notify.Socket) *Notifier {
	n := &Notifier{name: name, path: path, socket: socket}
	n.file, _ = os.Lstat(path) // without it there is no such file: the next start makes one
	return n
}

// Path is what NOTIFY_SOCKET is to be.
func (n *Notifier) Path() string { return n.path }

// Present tells whether the socket can still be found by its path.
func (n *Notifier) Present() bool {
	info, err := os.Lstat(n.path)
	return err == nil && n.file != nil && os.SameFile(info, n.file)
}

// Receive calls take for each message until the socket is closed. The next is
// read only when take has returned, which is what makes BARRIER=1 true.
func (n *Notifier) Receive(take func(*notify.Message)) {
	if err := n.socket.Receive(take); err != nil {
		slog.Warn("cannot read notifications", "service", n.name, "err", err)
	}
}

// Close closes the socket. What tier 1 holds of it stays.
func (n *Notifier) Close() { n.socket.Close() }

// Complain says what is wrong with the notifications of a run, as long as that
// is news. A nil Notifier says nothing.
func (n *Notifier) Complain(run uint64, what string, args ...any) {
	if n == nil {
		return
	}
	if n.run != run {
		n.run, n.said = run, 0
	}
	if n.said++; n.said > complaintsMax {
		return
	}
	slog.Warn(what, append([]any{"service", n.name}, args...)...)
}

// Duplicate returns a descriptor of the socket. os.File.Fd would make the socket
// blocking for all who share it, and its reader could never be woken again.
func (n *Notifier) Duplicate() (fd int, err error) {
	file, err := n.socket.File()
	if err != nil {
		return -1, err
	}
	defer file.Close()
	raw, err := file.SyscallConn()
	if err != nil {
		return -1, err
	}
	var failure error
	err = raw.Control(func(own uintptr) {
		fd, failure = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 3)
	})
	return fd, errors.Join(err, failure)
}
