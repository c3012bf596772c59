package process

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
