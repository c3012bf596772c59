package prepare

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/usage"
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
	for _, child := range usage.Children("/proc", pid) {
		killTree(child)
	}
	_ = unix.Kill(pid, unix.SIGKILL)
}

func children() []int { return usage.Children("/proc", os.Getpid()) }
