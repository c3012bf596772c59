package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"rlminit/control"
)

// A command of another user that has a terminal in common with root's shell could
// put characters into that terminal's input, TIOCSTI of ioctl_tty(2), which the
// shell would read. So where there may be such a shell, the command is given a
// pseudo-terminal of its own, in a session of its own.

// sharesTerminal tells whether this process has a terminal that it was not given
// for itself alone, as the leader of a session is (docker exec -t).
func sharesTerminal() bool {
	if sid, err := unix.Getsid(0); err != nil || sid == os.Getpid() {
		return false
	}
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false // it has no controlling terminal
	}
	unix.Close(fd)
	return true
}

// giveTerminal makes the terminal of a session's leader the user's who it will
// run as, as login(1) does: to open it by its name takes that.
func giveTerminal(uid uint32) {
	if sid, err := unix.Getsid(0); err != nil || sid != os.Getpid() || !term.IsTerminal(0) {
		return
	}
	// In a container that may not change owners its name cannot be opened: all
	// else works.
	_ = unix.Fchown(0, int(uid), -1)
}

// leftOpen is how long what the command has written may take to be shown, where
// something that it has left behind keeps its terminal open.
const leftOpen = 200 * time.Millisecond

// onOwnTerminal runs this very command again, on a terminal of its own, and
// returns its exit code as an error.
func onOwnTerminal() error {
	self, err := os.Executable()
	if err != nil {
		return control.Failed("cannot find the binary of rlminit: %v", err)
	}
	master, slave, err := pty.Open()
	if err != nil {
		return control.Failed("cannot have a terminal for the command, which must not share yours: %v; use docker exec -it", err)
	}
	defer master.Close()
	_ = pty.InheritSize(os.Stdout, master) // one that has no size is 80 by 24 to most programs
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	ctty := -1
	for fd, own := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		stream := own // a pipe or a file stays what it is
		if term.IsTerminal(fd) {
			stream, ctty = slave, fd
		}
		switch fd {
		case 0:
			cmd.Stdin = stream
		case 1:
			cmd.Stdout = stream
		case 2:
			cmd.Stderr = stream
		}
	}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if ctty >= 0 {
		cmd.SysProcAttr.Setctty, cmd.SysProcAttr.Ctty = true, ctty
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGWINCH, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP)
	if err := cmd.Start(); err != nil {
		return control.Failed("cannot run %s again: %v", self, err)
	}
	slave.Close()
	if term.IsTerminal(0) {
		// Keys are for the command's terminal to interpret.
		if was, err := term.MakeRaw(0); err == nil {
			defer func() { _ = term.Restore(0, was) }()
		}
		go func() { _, _ = io.Copy(master, os.Stdin) }()
	}
	shown := make(chan struct{})
	go func() {
		_, _ = io.Copy(terminalOf(), master) // until nobody has the other end open: EIO
		close(shown)
	}()
	go func() {
		for s := range signals {
			if s == unix.SIGWINCH {
				_ = pty.InheritSize(os.Stdout, master)
			} else {
				_ = unix.Kill(-cmd.Process.Pid, s.(unix.Signal))
			}
		}
	}()
	err = cmd.Wait()
	select {
	case <-shown:
	case <-time.After(leftOpen):
	}
	return commandStatus(err)
}

// terminalOf is the stream on which the command's terminal is shown.
func terminalOf() *os.File {
	if !term.IsTerminal(1) && term.IsTerminal(2) {
		return os.Stderr
	}
	return os.Stdout
}

// commandStatus is the exit code of a command that has ended, as a shell gives it.
func commandStatus(err error) error {
	var ended *exec.ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &ended):
		return control.Failed("cannot wait for the command: %v", err)
	}
	if status := ended.Sys().(syscall.WaitStatus); status.Signaled() {
		return exitStatus(128 + int(status.Signal()))
	}
	return exitStatus(ended.ExitCode())
}
