package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/examples/gateway/process"
)

// trace kills the supervisor, which has the same user, again and again, and
// tries to get at the memory of the next one from its first moment on. It
// prints what came of it: how often it killed, and whether it got there.
func trace(seconds int) error {
	deadline := time.Now().Add(time.Duration(seconds) * time.Second)
	pid, err := supervisor()
	if err != nil {
		return err
	}
	kills := 0
	for ; time.Now().Before(deadline); kills++ {
		err := unix.Kill(pid, unix.SIGKILL)
		if errors.Is(err, unix.EPERM) {
			if kills == 0 {
				fmt.Println("it may not be killed") // by us: somebody else does
			}
			for time.Now().Before(deadline) && !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			}
			err = nil
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
		next := 0
		for next == 0 && time.Now().Before(deadline) {
			newest, err := newestProcess()
			if err != nil {
				return err
			}
			for candidate := newest + 1; candidate > newest-4 && candidate > pid; candidate-- {
				if seen(candidate) {
					fmt.Println("traced", candidate)
					return nil
				}
				if supervises(candidate) && asleep(candidate) {
					next = candidate // it is up, and has been looked at all the while
				}
			}
		}
		pid = next
		if pid == 0 {
			break
		}
	}
	fmt.Println("not traced in", kills)
	return nil
}

// newestProcess returns the pid that was given out last, proc_loadavg(5).
func newestProcess() (int, error) {
	line, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(line))
	return strconv.Atoi(fields[len(fields)-1])
}

// supervisor returns the pid of tier 2, 0 for none.
func supervisor() (int, error) {
	all, err := process.All()
	if err != nil {
		return 0, err
	}
	for _, p := range all {
		if p.Parent == 1 && supervises(p.PID) {
			return p.PID, nil
		}
	}
	return 0, nil
}

func supervises(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && bytes.HasSuffix(line, []byte("\x00supervise\x00"))
}

// seen tells whether the memory of a supervisor can be had.
func seen(pid int) bool {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return supervises(pid)
}

// asleep tells whether a process has come to rest.
func asleep(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(stat, []byte(") S "))
}
