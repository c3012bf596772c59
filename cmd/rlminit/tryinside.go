package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// tryInside is PID 1 of the play's namespaces: it mounts what a container has
// and becomes rlminit init. Its arguments are the stage's directory, the path
// of the binary, and whether there is a shell.
func tryInside(args []string) int {
	if len(args) != 5 || os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "rlminit: cannot start try-inside: it is a part of rlminit try; run that")
		return 2
	}
	dir, self, shell := args[2], args[3], args[4] == "true"
	if err := awaitGreeting(); err != nil {
		return 1 // the reader of the reason is gone
	}
	if err := mountStage(dir); err != nil {
		fmt.Fprintf(os.Stderr, "rlminit: cannot try rlminit: %v\n", err)
		return 1
	}
	// Only mounting took a privilege; an init as an ordinary user has none.
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		fmt.Fprintf(os.Stderr, "rlminit: cannot give up the capability to mount: %v\n", err)
		return 1
	}
	argv := []string{"rlminit", "init", "--config", filepath.Join(dir, "etc/rlminit.yaml"), "--"}
	if shell {
		argv = append(argv, self, "try-shell", shellOf(os.Environ()))
	}
	err := syscall.Exec(self, argv, tryEnvironment(dir, os.Environ()))
	fmt.Fprintf(os.Stderr, "rlminit: cannot run %s: %v\n", self, err)
	return 126
}

// tryShell becomes the shell of a play. What PID 1 has for its errors is a file;
// the shell's are for the terminal.
func tryShell(args []string) int {
	if len(args) != 3 {
		fmt.Fprintln(os.Stderr, "rlminit: cannot start try-shell: it is a part of rlminit try; run that")
		return 2
	}
	if err := unix.Dup3(0, 2, 0); err != nil {
		fmt.Fprintf(os.Stderr, "rlminit: cannot give the shell its terminal: %v\n", err)
		return 1
	}
	err := syscall.Exec(args[2], args[2:], os.Environ())
	fmt.Fprintf(os.Stderr, "rlminit: cannot run %s: %v\n", args[2], err)
	return 126
}

// awaitGreeting waits until try has said all it had to say.
func awaitGreeting() error {
	ready := os.NewFile(3, "ready")
	defer ready.Close()
	_, err := io.ReadFull(ready, make([]byte, 1))
	return err
}

// mountStage gives the namespace its own /proc, an empty /run, and a
// configuration that nobody can write: what rlminit believes must be root's or
// lie on a read-only mount, and here there may be no root.
func mountStage(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("cannot keep mounts to ourselves: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("cannot mount /proc: %w; where /proc is masked, as in a container, use docker run --security-opt systempaths=unconfined", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("cannot mount a tmpfs on /run: %w", err)
	}
	for _, file := range []string{"passwd", "group"} {
		ours := filepath.Join(dir, "etc", file)
		if _, err := os.Stat(ours); err != nil {
			continue // the user has a name
		}
		if err := unix.Mount(ours, filepath.Join("/etc", file), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("cannot mount %s over /etc/%s: %w", ours, file, err)
		}
	}
	etc := filepath.Join(dir, "etc")
	if err := unix.Mount(etc, etc, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("cannot mount %s: %w", etc, err)
	}
	// What else is set on the mount below must be set here too, or a user
	// namespace may not change it, mount_namespaces(7).
	var held unix.Statfs_t
	if err := unix.Statfs(etc, &held); err != nil {
		return fmt.Errorf("cannot look at %s: %w", etc, err)
	}
	kept := uintptr(held.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME)
	if err := unix.Mount("", etc, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|kept, ""); err != nil {
		return fmt.Errorf("cannot make %s read-only: %w", etc, err)
	}
	return nil
}
