package notify

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// receiver is a socket whose messages arrive in a channel; each is held until the
// test has seen it.
type receiver struct {
	*Socket
	path     string
	messages chan *Message
	done     chan error
}

func listen(t *testing.T) *receiver {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	s, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return receive(t, s, path)
}

func receive(t *testing.T, s *Socket, path string) *receiver {
	r := &receiver{s, path, make(chan *Message), make(chan error, 1)}
	go func() {
		r.done <- s.Receive(func(m *Message) { r.messages <- m; r.messages <- nil })
	}()
	t.Cleanup(func() {
		s.Close()
		for {
			select {
			case <-r.messages:
			case err := <-r.done:
				if err != nil {
					t.Errorf("Receive: %v", err)
				}
				return
			}
		}
	})
	return r
}

// next is the next message; seen by check before its descriptors are closed.
func (r *receiver) next(t *testing.T, check func(m *Message)) {
	t.Helper()
	select {
	case m := <-r.messages:
		check(m)
		<-r.messages
	case <-time.After(10 * time.Second):
		t.Fatal("no message came")
	}
}

func (r *receiver) send(t *testing.T, text string, fds ...int) {
	t.Helper()
	c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(c)
	var control []byte
	if len(fds) > 0 {
		control = unix.UnixRights(fds...)
	}
	if err := unix.Sendmsg(c, []byte(text), control, &unix.SockaddrUnix{Name: r.path}, 0); err != nil {
		t.Fatal(err)
	}
}

// descriptors counts the open ones of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestSenderIsNamedByTheKernel(t *testing.T) {
	r := listen(t)
	r.send(t, "READY=1")
	r.next(t, func(m *Message) {
		if !m.Ready || m.PID != os.Getpid() || int(m.UID) != os.Getuid() {
			t.Errorf("got %+v", m)
		}
	})
}

func TestGoSystemdClient(t *testing.T) {
	r := listen(t)
	t.Setenv("NOTIFY_SOCKET", r.path)
	for _, text := range []string{daemon.SdNotifyReady, daemon.SdNotifyWatchdog, daemon.SdNotifyStopping} {
		if ok, err := daemon.SdNotify(false, text); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	r.next(t, func(m *Message) {
		if !m.Ready {
			t.Errorf("got %+v", m)
		}
	})
	r.next(t, func(m *Message) {
		if !m.Watchdog {
			t.Errorf("got %+v", m)
		}
	})
	r.next(t, func(m *Message) {
		if !m.Stopping {
			t.Errorf("got %+v", m)
		}
	})
}

// systemd-notify sends READY=1, then waits for its barrier to be closed.
func TestSystemdNotify(t *testing.T) {
	program, err := exec.LookPath("systemd-notify")
	if err != nil {
		t.Skip("systemd-notify is not installed")
	}
	r := listen(t)
	cmd := exec.Command(program, "--ready", "--status=warm")
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+r.path)
	ended := make(chan error, 1)
	go func() {
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		ended <- err
	}()
	r.next(t, func(m *Message) {
		if !m.Ready || m.Status == nil || *m.Status != "warm" {
			t.Errorf("got %+v", m)
		}
	})
	r.next(t, func(m *Message) {
		if !m.Barrier {
			t.Fatalf("got %+v", m)
		}
		select {
		case err := <-ended:
			t.Errorf("systemd-notify did not wait for the barrier: %v", err)
		default:
		}
	})
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A barrier's descriptor is closed when the handler returns, and no earlier.
func TestBarrier(t *testing.T) {
	r := listen(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	r.send(t, "BARRIER=1", int(write.Fd()))
	write.Close()
	r.next(t, func(m *Message) {
		if !m.Barrier || len(m.Files()) != 1 {
			t.Errorf("got %+v", m)
		}
		read.SetReadDeadline(time.Now().Add(-time.Second))
		if _, err := read.Read(make([]byte, 1)); !os.IsTimeout(err) {
			t.Errorf("closed too early: %v", err)
		}
	})
	read.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := read.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("not closed: %v", err)
	}
}

func TestFDStore(t *testing.T) {
	r := listen(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	r.send(t, "FDSTORE=1\nFDNAME=mine", int(write.Fd()))
	write.Close()
	r.next(t, func(m *Message) {
		if !m.FDStore || m.FDName != "mine" {
			t.Errorf("got %+v", m)
		}
		kept := m.Files()
		if len(kept) != 1 {
			t.Fatalf("%d descriptors", len(kept))
		}
		if flags, err := unix.FcntlInt(kept[0].Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("the descriptor would leak into a child: flags %x, %v", flags, err)
		}
		if _, err := kept[0].WriteString("x"); err != nil {
			t.Error(err)
		}
	})
	b := make([]byte, 1)
	if _, err := read.Read(b); err != nil || b[0] != 'x' {
		t.Errorf("read %q, %v", b, err)
	}
}

// No descriptor outlives a message that has no use for it.
func TestHostileMessagesLeaveNoDescriptor(t *testing.T) {
	r := listen(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = int(null.Fd())
	}
	most := make([]int, scmMaxFD)
	for i := range most {
		most[i] = int(null.Fd())
	}
	long := strings.Repeat("X", maxDatagram)
	cases := []struct {
		text  string
		fds   []int
		fault string
	}{
		{"READY=1", hundred[:3], "descriptors without FDSTORE=1"},
		{"FDSTORE=1", hundred, "a message with more than 64 descriptors"},
		{"FDSTORE=1", most, "a message with more than 64 descriptors"},
		{"FDSTORE=1\n" + long, hundred[:1], "a message of more than 4096 bytes"},
		{strings.Repeat("READY=1\n", 20_000), nil, "a message of more than 4096 bytes"},
		{"BARRIER=1", hundred[:2], "BARRIER=1 with 2 descriptors"},
		{"BARRIER=1", nil, "BARRIER=1 with 0 descriptors"},
		{"FDSTORE=1", nil, "FDSTORE=1 without a descriptor"},
		{"FDSTORE=1\x00\nREADY=1", hundred[:1], "the message holds a zero byte"},
		{"FDSTORE=1\nFDNAME=x", hundred[:64], ""}, // taken by nobody
		{"", hundred[:1], "descriptors without FDSTORE=1"},
		{"", nil, ""},
	}
	before := descriptors(t)
	for _, c := range cases {
		r.send(t, c.text, c.fds...)
		r.next(t, func(m *Message) {
			if got := strings.Join(m.Faults, "; "); !strings.HasPrefix(got, c.fault) || c.fault == "" && got != "" {
				t.Errorf("%.20q with %d descriptors: faults %q, want %q", c.text, len(c.fds), got, c.fault)
			}
			if c.fault != "" && len(m.Files()) != 0 {
				t.Errorf("%.20q: %d descriptors kept", c.text, len(m.Files()))
			}
		})
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// What was sent while nobody listened is not lost: the socket was held elsewhere.
func TestAdoptedSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	first, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := first.Duplicate()
	if err != nil {
		t.Fatal(err)
	}
	held := os.NewFile(uintptr(fd), path)
	defer held.Close()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	(&receiver{path: path}).send(t, "READY=1")
	second, err := FromFile(held)
	if err != nil {
		t.Fatal(err)
	}
	r := receive(t, second, path)
	r.next(t, func(m *Message) {
		if !m.Ready || m.PID != os.Getpid() {
			t.Errorf("got %+v", m)
		}
	})
}

func TestAdoptRefusesOtherDescriptors(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	other, err := udp.(*net.UDPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, f := range []*os.File{null, other} {
		if _, err := FromFile(f); err == nil {
			t.Errorf("adopted %s", f.Name())
		}
	}
}

func TestListen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "notify")
	for range 2 { // also in place of the one before
		s, err := Listen(path, 0o620)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o620 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, strings.Repeat("x", 108)): "a socket's path has at most 107 bytes",
		file:                                 "it is there, and is no socket",
		filepath.Join(dir, "none", "notify"): "no such file or directory",
	} {
		if _, err := Listen(path, 0o600); err == nil || !strings.HasPrefix(err.Error(), "cannot listen on "+path+": ") || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "precious" {
		t.Errorf("%q, %v", text, err)
	}
}
