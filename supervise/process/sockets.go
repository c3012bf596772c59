package process

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"

	"rlminit/rights"
	"rlminit/service"
)

// Sockets are the listeners of a service: opened once, held by tier 1 over
// restarts of the service and of the supervisor, closed when it is stopped. The
// zero value has none open.
type Sockets struct {
	open map[service.Socket]int
}

// Key names a listener of a service among what tier 1 holds.
func (s *Sockets) Key(name string, socket service.Socket) string {
	return "socket/" + name + "/" + socket.Network + ":" + socket.Address
}

// Adopt takes a listener that is open already.
func (s *Sockets) Adopt(socket service.Socket, fd int) {
	if s.open == nil {
		s.open = map[service.Socket]int{}
	}
	s.open[socket] = fd
}

// Listen returns the descriptors of sockets in their order, opening what is not
// open yet for user, of which opened is told.
func (s *Sockets) Listen(user *rights.User, sockets []service.Socket, opened func(service.Socket, int)) ([]int, error) {
	var fds []int
	for _, socket := range sockets {
		fd, ok := s.open[socket]
		if !ok {
			var err error
			if fd, err = user.Listen(socket.Network, socket.Address); err != nil {
				return nil, explainListen(socket, err)
			}
			s.Adopt(socket, fd)
			opened(socket, fd)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// Drop forgets what is open but for what keep lists. The descriptors are
// dropped's to close.
func (s *Sockets) Drop(keep []service.Socket, dropped func(service.Socket, int)) {
	for socket, fd := range s.open {
		if slices.Contains(keep, socket) {
			continue
		}
		delete(s.open, socket)
		dropped(socket, fd)
	}
}

// InUse is why a listener cannot be had: somebody listens on its address.
type InUse struct{ Socket service.Socket }

func (e *InUse) Error() string {
	return fmt.Sprintf("cannot listen on %s:%s: the address is in use by another process", e.Socket.Network, e.Socket.Address)
}

// Occupy tells whether a listener that is open keeps others from an address.
func (s *Sockets) Occupy(address service.Socket) bool {
	for socket := range s.open {
		if Collide(socket, address) {
			return true
		}
	}
	return false
}

// Collide tells whether two listeners cannot be open at the same time.
func Collide(a, b service.Socket) bool {
	kind := func(s service.Socket) string { return strings.TrimRight(s.Network, "46") }
	if strings.HasPrefix(a.Network, "unix") || strings.HasPrefix(b.Network, "unix") {
		return a.Address == b.Address // a path is one socket's, of whatever kind
	}
	if kind(a) != kind(b) {
		return false
	}
	hostA, portA, errA := net.SplitHostPort(a.Address)
	hostB, portB, errB := net.SplitHostPort(b.Address)
	if errA != nil || errB != nil || portA != portB {
		return false
	}
	return hostA == hostB || everywhere(hostA) || everywhere(hostB) || loopback(hostA) && loopback(hostB)
}

// everywhere is true of a host that stands for all addresses.
func everywhere(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

func loopback(host string) bool { return host == "localhost" || host == "127.0.0.1" }

func explainListen(s service.Socket, err error) error {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return fmt.Errorf("cannot listen on %s:%s: %w", s.Network, s.Address, err)
	}
	switch {
	case errno == syscall.EACCES && s.Network != "unix" && s.Network != "unixgram":
		return fmt.Errorf("cannot listen on %s:%s: the port is below what an unprivileged user may use; run the container with --sysctl net.ipv4.ip_unprivileged_port_start=0, or use a higher port", s.Network, s.Address)
	case errno == syscall.EADDRINUSE && strings.HasPrefix(s.Network, "unix") && !rights.IsSocket(s.Address):
		return fmt.Errorf("cannot listen on %s:%s: what is there is no socket; remove it, or use another path", s.Network, s.Address)
	case errno == syscall.EADDRINUSE:
		return &InUse{s}
	}
	return fmt.Errorf("cannot listen on %s:%s: %w", s.Network, s.Address, errno)
}
