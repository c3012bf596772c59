package process

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/rights"
	"rlminit/service"
)

// The lines of proc_net(5), as a machine prints them.
func TestListenersIn(t *testing.T) {
	text := `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:23F1 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0
   1: 0100007F:23F1 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0000000000000000 20 4 30 10 -1
   2: 00000000:23F2 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0000000000000000 100 0 0 10 0
   3: 00000000000000000000000001000000:23F1 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  7        0 4714 1 0000000000000000 100 0 0 10 0
garbage
`
	got := fmt.Sprint(listenersIn([]byte(text), 0x23f1))
	if want := "[{127.0.0.1:9201 1000 4711} {[::1]:9201 7 4714}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A port is free, or its own, or another process's: that one is named.
func TestCheckPort(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: not tried: %v", address, err)
			continue
		}
		port := l.Addr().(*net.TCPAddr).Port
		if err := CheckPort(port); err != nil {
			t.Errorf("%s, which is our own: %v", l.Addr(), err)
		}
		file, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		other := exec.Command("sh", "-c", "read wait", "--password=hidden")
		other.ExtraFiles = []*os.File{file}
		if _, err := other.StdinPipe(); err != nil { // it waits for what never comes
			t.Fatal(err)
		}
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			other.Process.Signal(unix.SIGKILL)
			other.Wait()
		})
		file.Close()
		l.Close()
		err = CheckPort(port, nil)
		if err == nil || !strings.Contains(err.Error(), `"sh -c read wait --password=`) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d)", other.Process.Pid)) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", l.Addr(), err)
		}
		other.Process.Signal(unix.SIGKILL)
		other.Wait()
		if err := CheckPort(port, nil); err != nil {
			t.Errorf("%s is free again: %v", l.Addr(), err)
		}
	}
}

// Of the listeners on a port, those that are asked at an address.
func TestHearing(t *testing.T) {
	at := func(addresses ...string) (all []listener) {
		for _, a := range addresses {
			all = append(all, listener{address: a})
		}
		return all
	}
	for _, c := range []struct {
		host string
		all  []listener
		want string
	}{
		{"127.0.0.1", at("127.0.0.1:80"), "127.0.0.1:80"},
		{"127.0.0.1", at("127.0.0.2:80", "10.0.0.1:80"), ""},
		{"127.0.0.1", at("0.0.0.0:80"), "0.0.0.0:80"},
		{"127.0.0.1", at("[::]:80"), "[::]:80"},
		{"127.0.0.1", at("[::1]:80"), ""},
		{"127.0.0.1", at("127.0.0.1:80", "[::]:80"), "127.0.0.1:80"},                   // which is of IPv6 only
		{"127.0.0.1", at("0.0.0.0:80", "[::]:80"), "0.0.0.0:80"},                       // likewise
		{"127.0.0.1", at("127.0.0.1:80", "127.0.0.1:80"), "127.0.0.1:80 127.0.0.1:80"}, // they share it
		{"::1", at("0.0.0.0:80", "127.0.0.1:80"), ""},
		{"::1", at("[::]:80"), "[::]:80"},
		{"::1", at("[::]:80", "[::1]:80"), "[::1]:80"},
	} {
		var got []string
		for _, l := range hearing(netip.MustParseAddr(c.host), c.all) {
			got = append(got, l.address)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s of %v: %q, want %q", c.host, c.all, got, c.want)
		}
	}
}

// listening has another process listen at an address, and returns its port; 0: that cannot be
// tried here.
func listening(t *testing.T, address string, option func(fd int) error) int {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if e := c.Control(func(fd uintptr) {
			if option != nil {
				err = option(int(fd))
			}
		}); e != nil {
			return e
		}
		return err
	}}
	l, err := config.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Logf("%s: not tried: %v", address, err)
		return 0
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	other := exec.Command("sh", "-c", "read wait")
	other.ExtraFiles = []*os.File{file}
	if _, err := other.StdinPipe(); err != nil { // it waits for what never comes
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		other.Process.Signal(unix.SIGKILL)
		other.Wait()
	})
	return l.Addr().(*net.TCPAddr).Port
}

// A service waits for who listens where its readiness is asked for, and only where that
// cannot be meant to be so.
func TestCheckReady(t *testing.T) {
	reuse := func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }
	only6 := func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1) }
	both := func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0) }
	ours := Sharer{UID: uint32(os.Geteuid()), Shares: (*rights.User)(nil).Shares}
	another := Sharer{UID: ours.UID + 1, Shares: ours.Shares}
	asked := func(probe string) func(int) *service.Definition {
		return func(port int) *service.Definition {
			at := strings.ReplaceAll(probe, "PORT", fmt.Sprint(port))
			if strings.HasPrefix(at, "http") {
				return &service.Definition{Ready: &service.Probe{HTTP: at}}
			}
			return &service.Definition{Ready: &service.Probe{TCP: at}}
		}
	}
	for _, c := range []struct {
		listens string
		option  func(int) error
		asks    string
		as      Sharer
		taken   bool
	}{
		{"127.0.0.1:0", nil, "127.0.0.1:PORT", ours, true},
		{"127.0.0.1:0", nil, "localhost:PORT", ours, true},
		{"0.0.0.0:0", nil, "127.0.0.1:PORT", ours, true},
		{"[::]:0", both, "127.0.0.1:PORT", ours, true},
		{"[::]:0", both, "[::1]:PORT", ours, true},
		{"[::]:0", only6, "[::1]:PORT", ours, true},
		{"[::]:0", only6, "127.0.0.1:PORT", ours, false},
		{"[::1]:0", nil, "127.0.0.1:PORT", ours, false},
		{"[::1]:0", nil, "localhost:PORT", ours, true},
		{"127.0.0.2:0", nil, "127.0.0.1:PORT", ours, false},
		{"127.0.0.2:0", nil, "localhost:PORT", ours, false},
		{"127.0.0.1:0", nil, "http://127.0.0.1:PORT/app", ours, false},
		{"127.0.0.1:0", reuse, "127.0.0.1:PORT", ours, false},
		{"0.0.0.0:0", reuse, "127.0.0.1:PORT", ours, false},
		{"[::]:0", reuse, "[::1]:PORT", ours, false},
		{"127.0.0.1:0", reuse, "127.0.0.1:PORT", another, true},
		{"127.0.0.1:0", nil, "127.0.0.1:PORT", another, true},
		{"127.0.0.1:0", nil, "127.0.0.1:PORT", Sharer{UID: ours.UID}, false},
		{"127.0.0.1:0", nil, "example.org:PORT", ours, false},
	} {
		port := listening(t, c.listens, c.option)
		if port == 0 {
			continue
		}
		d := asked(c.asks)(port)
		_, taken := errors.AsType[*PortTaken](CheckReady(d, c.as))
		if taken != c.taken {
			t.Errorf("%+v: taken is %t", c, taken)
		}
		if d.Port = port + 1; CheckReady(d, c.as) != nil {
			t.Errorf("%+v: of a service with another port", c)
		}
	}
	if err := CheckReady(&service.Definition{}, ours); err != nil {
		t.Errorf("without a probe: %v", err)
	}
}
