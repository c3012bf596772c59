package api

import (
	"context"
	"fmt"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peer is who is at the other end of a control connection, as the kernel saw
// it at connect(2).
type peer struct {
	uid uint32
	tag uint32 // the tag among its supplementary groups; 0: none
}

// peerKey is the key of a connection's peer in a request's context.
type peerKey struct{}

// connectionKey is the key of the connection itself.
type connectionKey struct{}

// withPeer puts a connection and its peer into the context of its requests.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	c := conn.(*counted)
	return context.WithValue(context.WithValue(ctx, connectionKey{}, c), peerKey{}, c.peer)
}

// peerOf asks the kernel who is at the other end.
func (s *Server) peerOf(conn net.Conn) (p peer, pid int32, err error) {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		return p, 0, fmt.Errorf("not a unix connection: %T", conn)
	}
	raw, err := local.SyscallConn()
	if err != nil {
		return p, 0, err
	}
	var failure error
	err = raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, failure = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); failure != nil {
			return
		}
		p.uid, pid = cred.Uid, cred.Pid
		var groups []uint32
		if groups, failure = peerGroups(int(fd)); failure != nil {
			return
		}
		for _, gid := range append(groups, cred.Gid) {
			if s.low != 0 && gid >= s.low && gid <= s.high {
				p.tag = gid
			}
		}
	})
	if err == nil {
		err = failure
	}
	return p, pid, err
}

// peerGroups returns the supplementary groups of a peer: SO_PEERGROUPS,
// unix(7), Linux 4.13.
func peerGroups(fd int) ([]uint32, error) {
	groups := make([]uint32, 64)
	for {
		size := uint32(len(groups) * 4)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch errno {
		case 0:
			return groups[:size/4], nil
		case unix.ERANGE: // size now says how much is needed
			groups = make([]uint32, size/4+1)
		default:
			return nil, errno
		}
	}
}
