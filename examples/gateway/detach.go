package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// leak leaves behind a process that nobody here waits for: it sleeps for ever
// in its own session, and holds this process's standard output and error. It
// returns its pid.
func leak() (int, error) {
	var out bytes.Buffer
	cmd := exec.Command("/proc/self/exe", "detach", "--", "/proc/self/exe", "sleep")
	cmd.Stdout = &out
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{os.Stdout} // descriptor 3
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("cannot leak a process: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		return 0, fmt.Errorf("cannot leak a process: %w", err)
	}
	return pid, nil
}

// detach is the middle of a double fork: it starts a command in a session of
// its own, prints its pid and ends, so that the command becomes an orphan.
// The command's standard output is descriptor 3 where that is open, else
// standard error, for ours carries the pid.
func detach(args []string) error {
	if len(args) < 2 || args[0] != "--" {
		return fmt.Errorf("usage: gateway detach -- CMD [ARG…]")
	}
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stderr = os.Stderr
	cmd.Stdout = os.Stderr
	if _, err := os.Readlink("/proc/self/fd/3"); err == nil {
		cmd.Stdout = os.NewFile(3, "stdout")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot detach: %w", err)
	}
	fmt.Println(cmd.Process.Pid)
	return cmd.Process.Release()
}
