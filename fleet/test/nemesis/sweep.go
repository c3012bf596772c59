package nemesis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Dir makes the directory of a run.
func Dir() (string, error) {
	dir, err := os.MkdirTemp("", fmt.Sprintf("rlminit-fleet-%d-", os.Getpid()))
	if err == nil {
		err = os.Chmod(dir, 0o755) // the gateways write below it
	}
	if err != nil {
		return "", fmt.Errorf("cannot make a directory for the fleet: %w", err)
	}
	return dir, nil
}

// Sweep removes what runs left that were killed. Of several runs at once one does.
func Sweep() error {
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "rlminit-fleet.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("cannot lock what earlier runs left: %w", err)
	}
	defer lock.Close() // and the lock with it
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("cannot lock what earlier runs left: %w", err)
	}
	var errs []error
	for _, what := range [][2]string{{"container", "{{.ID}} {{.Label \"" + label + "\"}}"}, {"network", "{{.ID}} {{.Label \"" + label + "\"}}"}} {
		args := []string{what[0], "ls", "--filter", "label=" + label, "--format", what[1]}
		remove := []string{what[0], "rm"}
		if what[0] == "container" {
			args, remove = append(args, "-a"), append(remove, "-f", "-v")
		}
		list, err := docker(args...)
		errs = append(errs, err)
		for line := range strings.SplitSeq(list, "\n") {
			if id, pid, ok := strings.Cut(line, " "); ok && gone(pid) {
				_, err := docker(append(remove, id)...)
				errs = append(errs, err)
			}
		}
	}
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), "rlminit-fleet-*-*"))
	errs = append(errs, err)
	for _, dir := range dirs {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), "rlminit-fleet-"), "-")
		if !gone(pid) {
			continue
		}
		volumes, err := filepath.Glob(filepath.Join(dir, "*"))
		errs = append(errs, err)
		for _, volume := range volumes {
			_ = unix.Unmount(volume, 0) // most are no mount
		}
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// gone says that a run has ended; a name that is no pid is somebody else's.
func gone(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err == nil && errors.Is(unix.Kill(n, 0), unix.ESRCH)
}
