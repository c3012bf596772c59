package process

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What a service may have PID 1 hold, of everything that a descriptor can be.
func TestMayStore(t *testing.T) {
	opened := func(fd int, err error) int {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	named := func(path string, flags int) int {
		t.Helper()
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
		return opened(fd, err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	tcp, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		fd int
		ok bool
	}{
		"a unix socket":     {opened(pair[0], nil), true},
		"its other end":     {opened(pair[1], nil), true},
		"a TCP listener":    {int(tcp.Fd()), true},
		"a pipe":            {opened(pipe[0], nil), true},
		"its writing end":   {opened(pipe[1], nil), true},
		"a named pipe":      {named(fifo, unix.O_RDWR), true},
		"a memfd":           {opened(unix.MemfdCreate("state", unix.MFD_ALLOW_SEALING)), true},
		"a sealable memfd":  {opened(unix.MemfdCreate("state", 0)), true},
		"an eventfd":        {opened(unix.Eventfd(0, 0)), true},
		"a timerfd":         {opened(unix.TimerfdCreate(unix.CLOCK_MONOTONIC, 0)), true},
		"a pidfd":           {opened(unix.PidfdOpen(os.Getpid(), 0)), true},
		"an epoll":          {opened(unix.EpollCreate1(0)), true},
		"an inotify":        {opened(unix.InotifyInit1(0)), true},
		"a file":            {named(filepath.Join(dir, "file"), unix.O_RDWR|unix.O_CREAT), true},
		"a directory":       {named(dir, unix.O_RDONLY|unix.O_DIRECTORY), true},
		"a file of /proc":   {named("/proc/self/status", unix.O_RDONLY), false},
		"a device":          {named("/dev/null", unix.O_RDWR), false},
		"a terminal master": {named("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY), false},
		"a namespace":       {named("/proc/self/ns/net", unix.O_RDONLY), false},
	} {
		if kind, ok := MayStore(c.fd); ok != c.ok {
			t.Errorf("%s, %q: %v", what, kind, ok)
		}
	}
}
