package main

import (
	"fmt"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The forks here are raw system calls, for speed. A child has one thread and no
// scheduler: it may do nothing but raw system calls.

// fork is fork(2). It returns 0 in the child.
//
//go:nosplit
func fork() (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	return pid, errno
}

// pause sleeps for a number of nanoseconds below a second.
//
//go:nosplit
func pause(nanoseconds int64) {
	ts := unix.Timespec{Nsec: nanoseconds}
	syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

//go:nosplit
func exit(code uintptr) {
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, code, 0, 0)
	}
}

// orphans leaves so many double-forked orphans a second for so many seconds,
// and prints how many there were. Its own children it waits for: what is left
// over is the init's.
func orphans(args []string) error {
	rate, err := strconv.Atoi(args[0])
	if err != nil || rate < 1 {
		return fmt.Errorf("bad rate %q", args[0])
	}
	seconds, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("bad duration %q", args[1])
	}
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	for range rate * seconds {
		<-ticker.C
		if err := orphan(); err != nil {
			return err
		}
	}
	fmt.Println("orphans", rate*seconds)
	return nil
}

// orphan forks twice, the way that old daemons do.
func orphan() error {
	middle, errno := fork()
	if errno != 0 {
		return fmt.Errorf("cannot fork: %w", errno)
	}
	if middle == 0 {
		syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0)
		if pid, errno := fork(); errno == 0 && pid == 0 {
			pause(1e6) // outlive the middle
			exit(7)
		} else if errno != 0 {
			exit(1)
		}
		exit(0)
	}
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(int(middle), &status, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || status.ExitStatus() != 0 {
			return fmt.Errorf("cannot fork twice: %v, status %d", err, status)
		}
		return nil
	}
}
