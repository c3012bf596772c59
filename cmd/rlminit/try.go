package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"rlminit/control"
)

func tryVerb(t *terminal) *cobra.Command {
	profiles := 3
	cmd := &cobra.Command{
		Use:   "try [--profiles N]",
		Short: "try it all on this machine, without Docker and without root",
		Long: `Starts rlminit as PID 1 of a throw-away PID namespace, with a few profiles and a
small built-in gateway for each, and gives you a shell in it. When the shell
ends, or at ^C where there is no terminal, everything is gone.`,
		Example: `  rlminit try
  rlminit try --profiles 10`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if profiles < 0 || profiles > 500 {
				return misused(cmd, "--profiles takes 0 to 500, not %d", profiles)
			}
			return try(t, profiles)
		},
	}
	cmd.Flags().IntVar(&profiles, "profiles", profiles, "how many profiles, `N`, there are at first (default 3)")
	return cmd
}

// try makes the stage, plays on it, and clears it away.
func try(t *terminal, profiles int) error {
	self, err := os.Executable()
	if err != nil {
		return control.Failed("cannot try rlminit: %v", err)
	}
	stage, err := newStage(self, profiles)
	if err != nil {
		return err
	}
	code, err := stage.play(t)
	if cleared := stage.clear(); err == nil {
		err = cleared
	}
	if err != nil {
		return err
	}
	return status(code)
}

// clear removes the stage's files.
func (s *stage) clear() error {
	// Directories without the x bit would keep their content.
	filepath.WalkDir(s.dir, func(path string, entry os.DirEntry, _ error) error {
		if entry != nil && entry.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	if err := os.RemoveAll(s.dir); err != nil {
		return control.Failed("cannot remove %s: %v; remove it yourself", s.dir, reason(err))
	}
	return nil
}

// play runs rlminit in namespaces of its own until it ends.
func (s *stage) play(t *terminal) (code int, err error) {
	// Pdeathsig goes with the thread that starts the child, not the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	// ^C belongs to the shell while there is one; without, it ends the play.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	restore := keepTerminal()
	defer restore()

	ready, greeted, err := os.Pipe()
	if err != nil {
		return 0, control.Failed("cannot try rlminit: %v", err)
	}
	defer greeted.Close()
	messages := os.Stderr
	if s.shell {
		messages, err = os.OpenFile(s.messages(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return 0, control.Failed("cannot try rlminit: %v", err)
		}
		defer messages.Close()
	}
	child, err := s.start(ready, messages)
	ready.Close()
	if err != nil {
		return 0, err
	}
	s.greet(t, child.Process.Pid)
	greeted.Write([]byte{0}) // else its end is told by Wait
	over := make(chan error, 1)
	go func() { over <- child.Wait() }()
	for {
		select {
		case sig := <-signals:
			if !s.shell || sig != syscall.SIGINT {
				child.Process.Signal(syscall.SIGTERM)
			}
		case err := <-over:
			code, err := endOf(child, err)
			if text, e := os.ReadFile(s.messages()); code != 0 && e == nil {
				os.Stderr.Write(text) // which nobody has seen
			}
			return code, err
		}
	}
}

// start starts the child: in a user namespace if there may be one, and as root
// without one.
func (s *stage) start(ready, messages *os.File) (*exec.Cmd, error) {
	child := s.command(true, ready, messages)
	err := child.Start()
	if err == nil {
		return child, nil
	}
	if !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EACCES) {
		return nil, control.Failed("cannot try rlminit: %v", err)
	}
	if os.Geteuid() != 0 {
		return nil, control.Failed("cannot try rlminit: this machine refuses user namespaces (%v); as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0 user.max_user_namespaces=10000, or run rlminit try as root", reason(err))
	}
	if err := s.giveAway(); err != nil {
		return nil, err
	}
	child = s.command(false, ready, messages)
	if err := child.Start(); err != nil {
		return nil, control.Failed("cannot try rlminit: this machine refuses PID and mount namespaces even to root (%v); inside a container, add --cap-add SYS_ADMIN", reason(err))
	}
	return child, nil
}

// command is rlminit again, as PID 1 of new namespaces. In the user namespace
// the caller is an ordinary user, the only one that there is, with just the
// capability to mount, which tryInside gives up. It begins when it can read from
// ready, so that the shell's prompt comes after the greeting.
func (s *stage) command(userNamespace bool, ready, messages *os.File) *exec.Cmd {
	child := exec.Command("/proc/self/exe", "try-inside", s.dir, s.self, strconv.FormatBool(s.shell))
	child.Args[0] = "rlminit"
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, messages
	child.ExtraFiles = []*os.File{ready}
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if userNamespace {
		child.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		child.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: s.uid, HostID: os.Geteuid(), Size: 1}}
		child.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: s.gid, HostID: os.Getegid(), Size: 1}}
		child.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	return child
}

// endOf gives the exit code of the play. That of the shell is not handed on:
// whatever the last command in it did, the play went well.
func endOf(child *exec.Cmd, err error) (int, error) {
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, control.Failed("cannot wait for rlminit: %v", err)
	}
	if child.ProcessState.ExitCode() == exitConfiguration {
		return control.ExitFailed, nil // it said why
	}
	return 0, nil
}

// keepTerminal remembers how the terminal is, and returns what puts that back.
func keepTerminal() func() {
	const fd = 0
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return func() {}
	}
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err != nil {
		return func() {}
	}
	return func() {
		// We may be in the background now, where changing the terminal would
		// stop us. Not earlier: what is ignored is inherited.
		signal.Ignore(syscall.SIGTTOU)
		unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, group)
		unix.IoctlSetTermios(fd, unix.TCSETSW, before)
		signal.Reset(syscall.SIGTTOU)
	}
}

// greet says what there is and what to try next.
func (s *stage) greet(t *terminal, pid int) {
	names := "no profile yet"
	if n := len(s.profiles); n > 0 {
		names = fmt.Sprintf("%d profiles: %s", n, abridged(s.profiles))
	}
	t.printf("rlminit runs as PID 1 of a namespace of its own, with %s. Try:\n\n", names)
	prefix := ""
	if !s.shell {
		prefix = fmt.Sprintf("RLMINIT_RUNTIME_DIR=/proc/%d/root%s ", pid, control.DefaultRuntimeDir)
	}
	for _, line := range s.suggestions() {
		t.printf("  %s%s\n", prefix, line)
	}
	if s.shell {
		t.printf("\nWhat docker logs would have is in %s. exit ends it all, and\nnothing is left behind.\n\n", s.messages())
	} else {
		t.printf("\nfrom another terminal. ^C ends it all, and nothing is left behind.\n\n")
	}
}
