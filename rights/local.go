package rights

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// openPath opens a path that root's configuration names, following links as the
// system does, or none at all.
func openPath(path string, flags int, links bool) (int, error) {
	flags |= unix.O_CLOEXEC
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NONBLOCK | unix.O_NOCTTY
	}
	if !links {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_SYMLINKS})
		if err != unix.ENOSYS && err != unix.EPERM { // a filter that does not know it
			return fd, err
		}
		flags |= unix.O_NOFOLLOW
	}
	for {
		fd, err := unix.Open(path, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// look asks what a path is, and whether it may be used so by whom the kernel takes
// us for where files are concerned, not by our real ids as access(2) does.
func look(path string, use uint32) (l Look) {
	var st unix.Stat_t
	if l.Err = unix.Stat(path, &st); l.Err == nil {
		l.Mode, l.Denied = st.Mode, unix.Faccessat(unix.AT_FDCWD, path, use, unix.AT_EACCESS)
	}
	return l
}

// lookAlong looks up to the first file that may be used so.
func lookAlong(paths []string, use uint32) (looks []Look) {
	for _, path := range paths {
		l := look(path, use)
		if looks = append(looks, l); l.usable() {
			break
		}
	}
	return looks
}

// mostRead bounds what is read of a file at a time, in bytes.
const mostRead = 1 << 20

func readAt(fd, n int, offset int64) ([]byte, error) {
	b := make([]byte, n)
	for {
		n, err := unix.Pread(fd, b, offset)
		if err != unix.EINTR {
			return b[:max(n, 0)], err
		}
	}
}

// listen opens a listener and returns its descriptor, close-on-exec and
// blocking, as sd_listen_fds(3) has it.
func listen(network, address string) (int, error) {
	if network == shared {
		return share(address)
	}
	var config net.ListenConfig
	var filer interface{ File() (*os.File, error) }
	var closer interface{ Close() error }
	switch network {
	case "tcp", "tcp4", "tcp6", "unix":
		if network == "unix" {
			removeStale(network, address)
		}
		l, err := config.Listen(context.Background(), network, address)
		if err != nil {
			return -1, err
		}
		if u, ok := l.(*net.UnixListener); ok {
			u.SetUnlinkOnClose(false)
		}
		filer, closer = l.(interface{ File() (*os.File, error) }), l
	default:
		if network == "unixgram" {
			removeStale(network, address)
		}
		p, err := config.ListenPacket(context.Background(), network, address)
		if err != nil {
			return -1, err
		}
		filer, closer = p.(interface{ File() (*os.File, error) }), p
	}
	defer closer.Close()
	file, err := filer.File()
	if err != nil {
		return -1, err
	}
	defer file.Close()
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return -1, err
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// shared is the network of share.
const shared = "tcp-shared"

// share binds a socket to an address of TCP beside those that allow it, without listening.
func share(address string) (int, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return -1, unix.EINVAL
	}
	family, to := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()})
	if at.Addr().Is4() {
		family, to = unix.AF_INET, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err == nil {
		err = unix.Bind(fd, to)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// removeStale removes a socket that nobody listens on any more.
func removeStale(network, path string) {
	if strings.HasPrefix(path, "@") || !IsSocket(path) {
		return
	}
	if conn, err := net.Dial(network, path); err == nil {
		conn.Close()
		return
	} else if errors.Is(err, unix.ECONNREFUSED) {
		os.Remove(path)
	}
}

// IsSocket tells whether a socket lies at a path. It is true too where nobody can tell.
func IsSocket(path string) bool {
	info, err := os.Lstat(path)
	return err != nil || info.Mode()&os.ModeSocket != 0
}
