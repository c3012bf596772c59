package process

import (
	"bytes"
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
	return checkPort("", port, false, users)
}

// CheckReady is CheckPort for the address at which the service's readiness is asked for: who
// listens there would be taken for it. It is nil where that is not on this machine.
func CheckReady(p *service.Probe, users ...*rights.User) error {
	if p == nil {
		return nil
	}
	host, port := p.Local()
	if port == 0 {
		return nil
	}
	return checkPort(host, port, true, users)
}

// checkPort looks for a listener at an address, "" for any, of a port.
func checkPort(host string, port int, ready bool, users []*rights.User) error {
	if !inUse(port) {
		return nil
	}
	own := ownSockets()
	for _, l := range listeners(port) {
		if !slices.Contains(own, l.inode) && l.hears(host) {
			return &PortTaken{port, ready, l.holder(users)}
		}
	}
	return nil
}

// hears tells whether a listener takes what is sent to an address; "" is any.
func (l listener) hears(host string) bool {
	at, err := netip.ParseAddrPort(l.address)
	return host == "" || err != nil || at.Addr().IsUnspecified() || at.Addr().String() == host
}

// inUse tells whether a bind to all addresses of a port fails as it does where one of
// them is listened on; where it fails otherwise that is not known, and may be so.
func inUse(port int) bool {
	bind := func(family int, address unix.Sockaddr) error {
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
	err := bind(unix.AF_INET6, &unix.SockaddrInet6{Port: port}) // of both families
	if err == unix.EAFNOSUPPORT || err == unix.EADDRNOTAVAIL {
		err = bind(unix.AF_INET, &unix.SockaddrInet4{Port: port})
	}
	return err == unix.EADDRINUSE || err == unix.EACCES
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
