package process

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"rlminit/internal/redact"
	"rlminit/rights"
	"rlminit/service"
)

// Bounds of the search for the process that has a port: each look is asked of the
// process that has the user's rights.
const (
	mostLooks       = 20_000 // at descriptors
	mostCommandLine = 120    // bytes that are shown of one
)

// PortTaken is why a service is not started: another process listens on its port, or where
// its readiness is asked for.
type PortTaken struct {
	Port   int
	Ready  bool   // it is where its readiness is asked for
	Holder string // in words
}

func (e *PortTaken) Error() string {
	if e.Ready {
		return fmt.Sprintf("%s, where ready asks whether it is up; stop that first, or give it another address", e.Holder)
	}
	return fmt.Sprintf("its port %d is taken: %s; stop that first", e.Port, e.Holder)
}

// CheckPort tells whether a service that is yet to start can listen on its port: the
// error is a *PortTaken otherwise. users are those whose processes can be looked into.
// Where the port is free it costs two system calls. What this process has open itself,
// a listener that is passed or stored, is the service's own.
func CheckPort(port int, users ...*rights.User) error {
	if !inUse(port) {
		return nil
	}
	own := ownSockets()
	for _, l := range listeners(port) {
		if !slices.Contains(own, l.inode) {
			return &PortTaken{port, false, l.holder(users)}
		}
	}
	return nil
}

// Sharer is who a service is, for the question whether it may listen beside a listener.
type Sharer struct {
	UID uint32
	// Shares is rights.User's; nil: nobody can ask in the service's name.
	Shares func(address netip.AddrPort) error
}

// CheckReady is CheckPort for the address at which a service's readiness is asked for: who
// listens there would be taken for it. It is nil wherever the address may be one that the
// service does not open: a URL may be answered through a proxy, a service with a port has that
// one, and services of one user may listen at an address together (SO_REUSEPORT).
func CheckReady(d *service.Definition, as Sharer, users ...*rights.User) error {
	if d.Ready == nil || d.Ready.TCP == "" || d.Port != 0 {
		return nil
	}
	host, port := d.Ready.Local()
	if port == 0 {
		return nil
	}
	hosts := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	if host != "" {
		hosts = []netip.Addr{netip.MustParseAddr(host)}
	}
	var own []string
	for _, host := range hosts {
		if !taken(host, port) {
			continue
		}
		if own == nil {
			own = ownSockets()
		}
		for _, l := range hearing(host, listeners(port)) {
			if !slices.Contains(own, l.inode) && !as.beside(l) {
				return &PortTaken{port, true, l.holder(users)}
			}
		}
	}
	return nil
}

// beside tells whether a service may listen beside a listener, or nobody can tell.
func (s Sharer) beside(l listener) bool {
	at, err := netip.ParseAddrPort(l.address)
	if l.uid != s.UID || err != nil {
		return false // the kernel lets only one user's share
	}
	return s.Shares == nil || !errors.Is(s.Shares(at), unix.EADDRINUSE)
}

// hearing are those of the listeners on a port that take what is sent to an address which is
// in use: who listens at it, else at all of its family, else at all of both.
func hearing(host netip.Addr, all []listener) (who []listener) {
	for _, wanted := range []netip.Addr{host, netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if host.Is6() && wanted.Is4() {
			continue
		}
		for _, l := range all {
			if at, err := netip.ParseAddrPort(l.address); err == nil && at.Addr() == wanted {
				who = append(who, l)
			}
		}
		if len(who) > 0 {
			break
		}
	}
	return who
}

// taken tells whether somebody listens at an address, be it at all of them: only a bind tells
// whether a listener at all of IPv6 has those of IPv4 too. An address that cannot be tried counts as free.
func taken(host netip.Addr, port int) bool {
	if host.Is4() {
		return bind(unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: host.As4()}) == unix.EADDRINUSE
	}
	return bind(unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: host.As16()}) == unix.EADDRINUSE
}

// inUse tells whether a bind to all addresses of a port fails as it does where one of
// them is listened on; where it fails otherwise that is not known, and may be so.
func inUse(port int) bool {
	err := bind(unix.AF_INET6, &unix.SockaddrInet6{Port: port}) // of both families
	if err == unix.EAFNOSUPPORT || err == unix.EADDRNOTAVAIL {
		err = bind(unix.AF_INET, &unix.SockaddrInet4{Port: port})
	}
	return err == unix.EADDRINUSE || err == unix.EACCES
}

// bind tries an address.
func bind(family int, address unix.Sockaddr) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// Connections of an earlier run that are not over yet are in nobody's way.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	return unix.Bind(fd, address)
}

// listener is a line of /proc/net/tcp or tcp6, proc_net(5).
type listener struct {
	address string
	uid     uint32
	inode   string
}

// listeners are those on a port.
func listeners(port int) (all []listener) {
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(file) // without the family there is none
		all = append(all, listenersIn(text, port)...)
	}
	return all
}

// listenersIn reads the lines of one of the files.
func listenersIn(text []byte, port int) (all []listener) {
	const listening = "0A" // TCP_LISTEN
	suffix := fmt.Sprintf(":%04X", port)
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) < 10 || f[3] != listening || !strings.HasSuffix(f[1], suffix) {
			continue
		}
		uid, err := strconv.ParseUint(f[7], 10, 32)
		if err != nil {
			continue
		}
		all = append(all, listener{addressOf(strings.TrimSuffix(f[1], suffix), port), uint32(uid), f[9]})
	}
	return all
}

// addressOf reads an address as the kernel prints it: words of 32 bits, each in the
// order of the machine's bytes, which is little endian on all that rlminit runs on.
func addressOf(digits string, port int) string {
	var raw []byte
	for i := 0; i+8 <= len(digits); i += 8 {
		word, err := strconv.ParseUint(digits[i:i+8], 16, 32)
		if err != nil {
			return strconv.Itoa(port)
		}
		raw = append(raw, byte(word), byte(word>>8), byte(word>>16), byte(word>>24))
	}
	ip, ok := netip.AddrFromSlice(raw)
	if !ok {
		return strconv.Itoa(port)
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(port)).String()
}

// ownSockets are the inodes of the sockets that this process has open.
func ownSockets() (inodes []string) {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		target, _ := os.Readlink("/proc/self/fd/" + e.Name())
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			inodes = append(inodes, strings.TrimSuffix(inode, "]"))
		}
	}
	return inodes
}

// holder says who listens, as far as that can be seen.
func (l listener) holder(users []*rights.User) string {
	looks := mostLooks
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, user := range users {
		for _, process := range processes {
			if looks <= 0 {
				break
			}
			if l.heldBy(process, user, &looks) {
				return fmt.Sprintf("%s (uid %d, pid %s) listens on %s", commandOf(process), l.uid, filepath.Base(process), l.address)
			}
		}
	}
	return fmt.Sprintf("a process of uid %d listens on %s", l.uid, l.address)
}

// heldBy tells whether a process has the socket open, by a user's rights.
func (l listener) heldBy(process string, user *rights.User, looks *int) bool {
	dir, err := user.Open(process + "/fd")
	if err != nil {
		return false // of another user
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if *looks--; *looks < 0 {
			return false
		}
		fd, err := user.Handle(process+"/fd/"+name, true)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		unix.Close(fd)
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK && strconv.FormatUint(st.Ino, 10) == l.inode {
			return true
		}
	}
	return false
}

// commandOf is the command line of a process on one line, without secrets.
func commandOf(process string) string {
	text, _ := os.ReadFile(process + "/cmdline")
	argv := redact.Command(strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"))
	line := strings.ToValidUTF8(strings.Join(argv, " "), "\ufffd")
	if len(line) > mostCommandLine {
		line = strings.ToValidUTF8(line[:mostCommandLine], "") + "…"
	}
	return strconv.Quote(line)
}
