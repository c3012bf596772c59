package pure

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
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

// on starts a command as the leader of a session on a terminal.
func on(t *testing.T, cmd *exec.Cmd) *started {
	t.Helper()
	master, slave := box.OpenTerminal(t)
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

// both returns dumb-init or catatonit as it is installed, and ours.
func both(t *testing.T, name string, args ...string) map[string]*exec.Cmd {
	t.Helper()
	real, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("needs %s to compare with", name)
	}
	theirs := exec.Command(real, args...)
	ours := command(name, args...)
	theirs.Env = ours.Env
	return map[string]*exec.Cmd{"theirs": theirs, "ours": ours}
}

// dumb-init on a terminal: the command leads a session that has it, and does not
// get the HUP that the kernel sends when the terminal changes hands.
func TestDumbInitHandsTheTerminalOver(t *testing.T) {
	for who, cmd := range both(t, "dumb-init", "/bin/sh", "-c",
		`trap "echo hup" HUP; set -- $(ps -o sid=,tpgid= -p $$); echo leader $(($1 == $$)) $(($2 == $$)); exec cat`) {
		s := on(t, cmd)
		s.until("leader 1 1")
		s.stdout.WriteString("one\n")
		s.until("one")
		s.until("one")
		s.stdout.WriteString("\x03")
		if code := s.wait(); code != 130 {
			t.Errorf("%s: exit code %d", who, code)
		}
	}
}

// catatonit puts the command into the foreground of the terminal's session.
func TestCatatonitHandsTheTerminalOver(t *testing.T) {
	for who, cmd := range both(t, "catatonit", "--", "/bin/sh", "-c",
		`set -- $(ps -o pgid=,tpgid= -p $$); echo foreground $(($1 == $$)) $(($2 == $$)); exec cat`) {
		s := on(t, cmd)
		s.until("foreground 1 1")
		s.stdout.WriteString("one\n")
		s.until("one")
		s.until("one")
		s.stdout.WriteString("\x03")
		if code := s.wait(); code != 130 {
			t.Errorf("%s: exit code %d", who, code)
		}
	}
}

// Each signal of job control stops the command, and dumb-init itself, whatever
// the signal is rewritten to; CONT continues both.
func TestDumbInitStops(t *testing.T) {
	for _, flags := range [][]string{nil, {"-r", "20:0"}} {
		for who, cmd := range both(t, "dumb-init", append(flags, "/bin/sh", "-c", "echo $$; exec sleep 1000")...) {
			s := start(t, cmd)
			child := s.line()
			for _, signal := range []unix.Signal{unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU} {
				stopped := len(flags) == 0 || signal != unix.SIGTSTP
				s.Process.Signal(signal)
				awaitState(t, who, fmt.Sprint(s.Process.Pid), true)
				awaitState(t, who, child, stopped)
				s.Process.Signal(unix.SIGCONT)
				awaitState(t, who, fmt.Sprint(s.Process.Pid), false)
				awaitState(t, who, child, false)
			}
			s.Process.Signal(unix.SIGTERM)
			if code := s.wait(); code != 143 {
				t.Errorf("%s: exit code %d", who, code)
			}
		}
	}
}

// awaitState waits until a process is stopped, or runs.
func awaitState(t *testing.T, who, pid string, stopped bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		stat, _ := os.ReadFile("/proc/" + pid + "/stat")
		_, rest, _ := strings.Cut(string(stat), ") ")
		if strings.HasPrefix(rest, "T") == stopped && rest != "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %q, stopped is to be %v", who, stat, stopped)
		}
	}
}

// dumb-init asks what is left of the group to end when the command has ended,
// and catatonit does not.
func TestWhatTheCommandLeaves(t *testing.T) {
	for name, code := range map[string]string{"dumb-init": "term", "catatonit": "none"} {
		release := filepath.Join(t.TempDir(), "release")
		for who, cmd := range both(t, name, "--", "/bin/sh", "-c",
			`(trap "echo term; exit" TERM; echo ready; until [ -e `+release+` ]; do sleep 0.01; done; echo none) & read x`) {
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			s := start(t, cmd)
			if got := s.line(); got != "ready" {
				t.Fatal(got)
			}
			stdin.Close()
			s.wait()
			if err := os.WriteFile(release, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if got := s.line(); got != code {
				t.Errorf("%s, %s: %s, want %s", name, who, got, code)
			}
			if err := os.Remove(release); err != nil {
				t.Fatal(err)
			}
		}
	}
}
