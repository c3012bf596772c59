package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// unproc takes /proc away and executes a command in its absence. It takes
// CAP_SYS_ADMIN.
func unproc(argv []string) error {
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	table, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var mounts []string
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 1 && (f[1] == "/proc" || strings.HasPrefix(f[1], "/proc/")) {
			mounts = append(mounts, f[1])
		}
	}
	for _, at := range slices.Backward(mounts) { // what lies on top first
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("cannot unmount %s: %w", at, err)
		}
	}
	return unix.Exec(program, argv, os.Environ())
}
