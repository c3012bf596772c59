package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// boxed is a command that is to be PID 1 of a namespace of its own, with its own
// /proc and an empty /run.
func boxed(argv ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", append([]string{"inside"}, argv...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	cmd.Env = append(os.Environ(), "RLMINIT_RUNTIME_DIR=/run/rlminit")
	return cmd
}

// inside is the first step of PID 1 in its namespace.
func inside(argv []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot make the mounts private: %w", err)
	}
	for _, m := range []struct{ kind, at string }{{"proc", "/proc"}, {"tmpfs", "/run"}} {
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			return fmt.Errorf("cannot mount %s: %w", m.at, err)
		}
	}
	if from := os.Getenv(filesForRun); from != "" {
		if err := os.CopyFS("/run", os.DirFS(from)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot fill /run: %w", err)
		}
	}
	if err := enterCgroup(os.Getenv(ownCgroup)); err != nil {
		return err
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	return unix.Exec(path, argv, os.Environ())
}

const (
	ownCgroup = "RLMINIT_BENCH_CGROUP" // the variable that names that of a namespace's first process
	cgroups   = "/sys/fs/cgroup"

	filesForRun = "RLMINIT_BENCH_RUN" // the variable that names the directory whose files a namespace has in /run
)

// makeCgroup makes a cgroup of version 2, with the controllers that can be had, and
// returns its name, or "" where there are no such cgroups.
func makeCgroup() (name string) {
	err := withCgroups(func() error {
		for _, controller := range []string{"+memory", "+pids", "+cpu"} { // or they are of version 1 here
			_ = os.WriteFile(cgroups+"/cgroup.subtree_control", []byte(controller), 0)
		}
		dir, err := os.MkdirTemp(cgroups, "rlminit-bench-")
		name = filepath.Base(dir)
		return err
	})
	if err != nil {
		return ""
	}
	return name
}

// removeCgroup removes a cgroup and those in it, whose processes have ended.
func removeCgroup(name string) {
	_ = withCgroups(func() error {
		var dirs []string
		err := filepath.WalkDir(filepath.Join(cgroups, name), func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		for _, dir := range slices.Backward(dirs) {
			_ = unix.Rmdir(dir)
		}
		return err
	})
}

// withCgroups does what it is given where /sys/fs/cgroup is of version 2, whatever
// it is elsewhere: on a thread with mounts of its own, which ends with that.
func withCgroups(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
				return err
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return err
			}
			if err := unix.Mount("cgroup2", cgroups, "cgroup2", 0, ""); err != nil {
				return err
			}
			return do()
		}()
	}()
	return <-done
}

// enterCgroup goes into a cgroup, and has it look like the root of all, as an engine
// does for a container that may write its own.
func enterCgroup(name string) error {
	if name == "" {
		return nil
	}
	runtime.LockOSThread() // namespaces are a thread's
	if err := unix.Mount("cgroup2", cgroups, "cgroup2", 0, ""); err != nil {
		return fmt.Errorf("cannot mount cgroups: %w", err)
	}
	if err := os.WriteFile(filepath.Join(cgroups, name, "cgroup.procs"), []byte("0"), 0); err != nil {
		return fmt.Errorf("cannot enter a cgroup: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("cannot make a cgroup namespace: %w", err)
	}
	if err := unix.Unmount(cgroups, 0); err != nil {
		return fmt.Errorf("cannot mount cgroups: %w", err)
	}
	if err := unix.Mount("cgroup2", cgroups, "cgroup2", 0, ""); err != nil {
		return fmt.Errorf("cannot mount cgroups: %w", err)
	}
	return nil
}

// process is one of those in a namespace.
type process struct {
	pid  int
	argv []string
}

// within lists the processes of the PID namespace that pid is the first of.
func within(pid int) ([]process, error) {
	ours, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []process
	for _, entry := range entries {
		p, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", p)); err != nil || space != ours {
			continue // gone, or somebody else's
		}
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p))
		if err != nil {
			continue
		}
		var argv []string
		for _, arg := range bytes.Split(bytes.TrimSuffix(line, []byte{0}), []byte{0}) {
			argv = append(argv, string(arg))
		}
		all = append(all, process{pid: p, argv: argv})
	}
	return all, nil
}

// rollup is a figure of smaps_rollup in KB: proc(5).
func rollup(pid int, key string) float64 {
	return field(fmt.Sprintf("/proc/%d/smaps_rollup", pid), key+":")
}

// wakeups is how often the threads of a process have gone to sleep so far.
func wakeups(pid int) float64 {
	sum := 0.0
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, status := range tasks {
		sum += field(status, "voluntary_ctxt_switches:")
	}
	return sum
}

// field is the number that follows on a key at the start of a line.
func field(file, key string) float64 {
	content, _ := os.ReadFile(file)
	for line := range bytes.Lines(content) {
		if rest, found := bytes.CutPrefix(line, []byte(key)); found {
			value, _ := strconv.ParseFloat(string(bytes.Fields(rest)[0]), 64)
			return value
		}
	}
	return 0
}
