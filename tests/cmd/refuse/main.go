// Command refuse executes a command in which some system calls are always refused, as a
// container engine's seccomp profile refuses them:
//
//	refuse splice=EPERM,statx=ENOSYS COMMAND [ARGUMENT…]
//
// The filter holds for the command and all its children. It says so where it is to refuse
// a call that this architecture does not have, and exits 99.
package main

//go:generate ./calls.sh

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "refuse:", err)
		os.Exit(99)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: refuse CALL=EPERM|ENOSYS[,…] COMMAND [ARGUMENT…]")
	}
	filter, err := filterOf(args[0])
	if err != nil {
		return err
	}
	path, err := exec.LookPath(args[1])
	if err != nil {
		return err
	}
	return execute(filter, path, args[1:])
}

// filterOf is the filter that refuses what a list like splice=EPERM,statx=ENOSYS has.
func filterOf(list string) ([]unix.SockFilter, error) {
	// struct seccomp_data begins with the number of the call: seccomp(2).
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}}
	for _, rule := range strings.Split(list, ",") {
		call, errno, _ := strings.Cut(rule, "=")
		number, known := calls[call]
		if !known {
			return nil, fmt.Errorf("there is no system call %q here", call)
		}
		answer := map[string]syscall.Errno{"EPERM": unix.EPERM, "ENOSYS": unix.ENOSYS}[errno]
		if answer == 0 {
			return nil, fmt.Errorf("%q refuses with neither EPERM nor ENOSYS", rule)
		}
		filter = append(filter,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(answer)})
	}
	return append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}), nil
}

// execute installs the filter on this thread and becomes the command. Everything that the
// runtime might ask the kernel for is made before: afterwards there are two bare calls.
func execute(filter []unix.SockFilter, path string, args []string) error {
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	file, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	argv, err := syscall.SlicePtrFromStrings(args)
	if err != nil {
		return err
	}
	environ, err := syscall.SlicePtrFromStrings(os.Environ())
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if os.Geteuid() != 0 {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("cannot give up new privileges: %w", err)
		}
	}
	_, _, failed := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if failed == 0 {
		_, _, failed = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(file)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&environ[0])))
	}
	return fmt.Errorf("cannot execute %s: %w", path, failed)
}
