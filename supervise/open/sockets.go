package open

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"

	"rlminit/rights"
	"rlminit/service"
	"rlminit/wire"
)

// socketKey names a listener of a service among what tier 1 holds.
func socketKey(name string, socket service.Socket) string {
	return "socket/" + name + "/" + socket.Network + ":" + socket.Address
}

// listen returns the descriptors of a service's sockets in their order, opening for user
// what is not open yet.
func (d *Driver) listen(e *endpoints, user *rights.User) ([]int, error) {
	var fds []int
	for _, socket := range e.Definition.Sockets {
		fd, open := e.sockets[socket]
		if !open {
			var err error
			if fd, err = user.Listen(socket.Network, socket.Address); err != nil {
				return nil, explainListen(socket, err)
			}
			e.sockets[socket] = fd
			d.Send(&wire.Hold{Key: socketKey(e.Name, socket)}, []int{fd}, nil)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// closeSockets closes those of a service that are not among keep.
func (d *Driver) closeSockets(e *endpoints, keep []service.Socket) {
	for socket, fd := range e.sockets {
		if !slices.Contains(keep, socket) {
			delete(e.sockets, socket)
			// Tier 1 may still have to be sent it: the link closes it in its turn.
			d.Send(&wire.Release{Key: socketKey(e.Name, socket)}, nil, []int{fd})
		}
	}
}

// InUse is why a listener cannot be had: somebody listens on its address.
type InUse struct{ Socket service.Socket }

func (e *InUse) Error() string {
	return fmt.Sprintf("cannot listen on %s:%s: the address is in use by another process", e.Socket.Network, e.Socket.Address)
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
