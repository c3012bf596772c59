package api

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// door is the listening socket, as far as it must be known whether clients are let
// in there.
type door struct {
	listener atomic.Pointer[net.UnixListener] // nil: it is not served yet
	taken    atomic.Uint64                    // clients
	before   uint64                           // of taken, when Open was asked last
	waited   bool                             // somebody waited then
}

// Open returns why no client could make a request, nil if one could: a descriptor
// can be had for him, and whoever waits at the socket is taken in before it is
// asked again. It waits for nothing, and has one caller.
func (s *Server) Open() error {
	d := &s.door
	listener := d.listener.Load()
	if listener == nil {
		return nil
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot have a descriptor for a client: %w", err)
	}
	unix.Close(pair[0])
	unix.Close(pair[1])
	raw, err := listener.SyscallConn()
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	waits := false
	err = raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, _ := unix.Poll(poll, 0)
		waits = n > 0
	})
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	taken := d.taken.Load()
	stuck := waits && d.waited && taken == d.before
	d.before, d.waited = taken, waits
	if stuck {
		return errors.New("a client waits, and is not taken in")
	}
	return nil
}
