package pure

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// playShell is a shell with job control: it runs an init in the foreground,
// takes the terminal back when that is stopped, and continues it.
func playShell() {
	signal.Ignore(unix.SIGTTOU)
	cmd := command("init", "--", "/bin/cat")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Foreground: true}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	pid := cmd.Process.Pid
	var status unix.WaitStatus
	wait := func() {
		for {
			if _, err := unix.Wait4(pid, &status, unix.WUNTRACED, nil); err != unix.EINTR {
				return
			}
		}
	}
	if wait(); !status.Stopped() {
		fmt.Println("not stopped")
		os.Exit(1)
	}
	mine := unix.Getpgrp()
	unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, mine)
	fmt.Println("stopped")
	unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, pid)
	unix.Kill(-pid, unix.SIGCONT)
	wait()
	foreground, _ := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, mine)
	fmt.Println("code", status.ExitStatus(), foreground == pid)
	os.Exit(0)
}

func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("needs /dev/ptmx: %v", err)
	}
	master = os.NewFile(uintptr(fd), "master")
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skipf("needs /dev/pts: %v", err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// on starts a command as the leader of a session on a terminal.
func on(t *testing.T, cmd *exec.Cmd) *started {
	t.Helper()
	master, slave := openTerminal(t)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	t.Cleanup(func() { cmd.Process.Kill() })
	return &started{cmd, t, master}
}

// until reads lines up to one that holds a text.
func (s *started) until(text string) {
	s.t.Helper()
	for !strings.Contains(s.line(), text) {
	}
}

// docker run -it: the command has the terminal. ^Z stops it, but with no shell
// there it goes on at once; ^C reaches it as it would without us.
func TestTerminalWithoutShell(t *testing.T) {
	for _, name := range []string{"init", "tini"} {
		s := on(t, command(name, "--", "/bin/cat"))
		if name == "tini" {
			s.until("PID 1.") // the warning
		}
		s.stdout.WriteString("one\n")
		s.until("one") // echoed
		s.until("one") // by cat
		s.stdout.WriteString("\x1atwo\n")
		s.until("two")
		s.until("two")
		s.stdout.WriteString("\x03")
		if code := s.wait(); code != 130 {
			t.Errorf("%s: exit code %d", name, code)
		}
	}
}

// From a shell with job control: ^Z stops the init too, so that the shell
// notices, and fg continues both.
func TestTerminalWithShell(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "play", "shell")
	cmd.Env = command("init").Env
	s := on(t, cmd)
	s.stdout.WriteString("one\n")
	s.until("one")
	s.until("one")
	s.stdout.WriteString("\x1a")
	s.until("stopped")
	s.stdout.WriteString("two\n")
	s.until("two")
	s.until("two")
	s.stdout.WriteString("\x04") // end of input
	s.until("code 0 true")
	late := time.AfterFunc(10*time.Second, func() { s.Process.Kill() })
	defer late.Stop()
	s.Wait()
}
