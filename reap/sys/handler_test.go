package sys_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/reap/sys"
)

func init() {
	if len(os.Args) > 1 && os.Args[1] == "meet-children" {
		meetChildren()
		os.Exit(0)
	}
}

// meetChildren signals children as soon as they are there, most of them before their
// program is: each dies of it, as by default, and we hear of none.
func meetChildren() {
	signals, errno := sys.CatchAll()
	if errno != 0 {
		fmt.Println("cannot catch signals:", unix.Errno(errno))
		return
	}
	for range 300 {
		c := &sys.Command{Session: sys.OwnSession}
		c.Program([]string{"/bin/sleep"}, []string{"sleep", "60"}, nil)
		var done atomic.Bool
		met := make(chan struct{})
		go func() {
			defer close(met)
			for !done.Load() {
				if pid := atomic.LoadInt32(&c.PID); pid != 0 {
					unix.Kill(int(pid), unix.SIGTERM)
					return
				}
				runtime.Gosched()
			}
			unix.Kill(int(c.PID), unix.SIGTERM)
		}()
		c.Start()
		done.Store(true)
		<-met
		var status unix.WaitStatus
		if _, err := unix.Wait4(int(c.PID), &status, 0, nil); err != nil || status.Signal() != unix.SIGTERM {
			fmt.Println("a child ended with", status, err)
			return
		}
	}
	if all := signals.Next(); len(all) > 0 {
		fmt.Println("recorded:", all)
		return
	}
	fmt.Print("as by default")
}

func TestSignalsOfChildrenThatBegin(t *testing.T) {
	out, err := exec.Command("/proc/self/exe", "meet-children").Output()
	if err != nil || !strings.HasSuffix(string(out), "as by default") {
		t.Errorf("%s, %v", out, err)
	}
}
