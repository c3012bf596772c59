package prepare

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sweepFor bounds how long what a step has left is killed again: a fork may slip
// past one look, and what hangs in the kernel goes when it can.
const sweepFor = 2 * time.Second

// sweep kills what a step that had to be ended has left, in whatever session it
// hides: every child of this process, a subreaper, that was not there before, with
// all below, until there is none.
func sweep(before []int) {
	for end := time.Now().Add(sweepFor); ; time.Sleep(time.Millisecond) {
		left := slices.DeleteFunc(children(), func(pid int) bool { return slices.Contains(before, pid) })
		if len(left) == 0 || time.Now().After(end) {
			return
		}
		for _, pid := range left {
			killTree(pid)
			var status unix.WaitStatus
			_, _ = unix.Wait4(pid, &status, unix.WNOHANG, nil) // until it is gone it is looked at again
		}
	}
}

// killTree kills a process and all below it. Each is stopped before its children
// are looked for: one that was killed first would hand them on, which is no harm
// here, but takes another round.
func killTree(pid int) {
	_ = unix.Kill(pid, unix.SIGSTOP)
	for _, child := range childrenOf(pid) {
		killTree(child)
	}
	_ = unix.Kill(pid, unix.SIGKILL)
}

func children() []int { return childrenOf(os.Getpid()) }

// childrenOf reads the children of all threads of a process, proc_pid_task(5);
// where the kernel keeps no such list, the parents of all processes.
func childrenOf(pid int) (found []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				found = append(found, child)
			}
		}
	}
	if len(lists) > 0 {
		return found
	}
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range all {
		text, _ := os.ReadFile(stat)
		_, rest, _ := strings.Cut(string(text[max(0, bytes.LastIndexByte(text, ')')):]), " ") // a name may hold anything
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			if child, err := strconv.Atoi(filepath.Base(filepath.Dir(stat))); err == nil {
				found = append(found, child)
			}
		}
	}
	return found
}
