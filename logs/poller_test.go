package logs

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A signal of the runtime's is no event: a collector that took it for one would begin
// the watch over the disk, whose end has the runtime send the next.
func TestPollerSleepsThroughSignals(t *testing.T) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(wake)
	var p poller
	if err := p.open(wake); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p.epoll)
	thread, woken := make(chan int), make(chan int)
	go func() {
		runtime.LockOSThread()
		thread <- unix.Gettid()
		p.wait()
		woken <- p.ready
	}()
	tid := <-thread
	slept := func() string { // how often so far; "": it does not wait for events
		call, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", tid))
		if !strings.HasPrefix(string(call), fmt.Sprint(unix.SYS_EPOLL_PWAIT)+" ") {
			return ""
		}
		status, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/status", tid))
		_, times, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
		return times
	}
	before := ""
	eventually(t, "it waits", func() bool { before = slept(); return before != "" })
	if err := unix.Tgkill(os.Getpid(), tid, unix.SIGURG); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has heard the signal", func() bool { return slept() != before })
	if _, err := unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if ready := <-woken; ready != 1 {
		t.Errorf("it woke with %d events", ready)
	}
}
