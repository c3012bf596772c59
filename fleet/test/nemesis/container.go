package nemesis

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Container is a member's box, or a node of etcd.
type Container struct {
	Name    string // within the fleet
	Address string
	full    string // Docker's name
	volume  string // a directory of this machine: a file system of its own, of bounded size
}

// docker runs the docker command and returns what it printed.
func docker(args ...string) (string, error) { return run("docker", args...) }

func run(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

// start starts a container if it does not run.
func (c *Container) start() error {
	_, err := docker("start", c.full)
	return err
}

// pid is the container's PID 1, as this machine sees it.
func (c *Container) pid() (int, error) {
	text, err := docker("inspect", "--format", "{{.State.Pid}}", c.full)
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(text)
	if err != nil || pid == 0 {
		return 0, fmt.Errorf("%s does not run", c.Name)
	}
	return pid, nil
}

// iptables changes the container's own tables.
func (c *Container) iptables(args ...string) error {
	pid, err := c.pid()
	if err != nil {
		return err
	}
	_, err = run("nsenter", append([]string{"-t", strconv.Itoa(pid), "-n", "iptables", "-w"}, args...)...)
	return err
}

// process is one of a container's, held by a descriptor: a pid may be somebody else's
// by the time that it is signalled.
type process struct {
	fd   int
	argv []string
}

const (
	stop    = unix.SIGSTOP
	proceed = unix.SIGCONT
	die     = unix.SIGKILL
)

// What runs in a member's box.
func agent(p process) bool {
	return filepath.Base(p.argv[0]) == "rlminit-fleet" || len(p.argv) > 2 && p.argv[1] == "fleet" && p.argv[2] == "agent"
}

func supervisor(p process) bool {
	return filepath.Base(p.argv[0]) == "rlminit" && len(p.argv) > 1 && p.argv[1] == "supervise"
}

func gateway(p process) bool { return filepath.Base(p.argv[0]) == "recorder" }

// signal signals a process; one that has ended is let be.
func (p process) signal(s unix.Signal) { _ = unix.PidfdSendSignal(p.fd, s, nil, 0) }

// errNoProcess: a process has just ended and is about to be replaced, or a member has no
// gateway.
var errNoProcess = errors.New("there is no such process now")

// processes finds some of a container's processes, of which there must be one.
func (c *Container) processes(which func(process) bool) ([]process, error) {
	first, err := c.pid()
	if err != nil {
		return nil, err
	}
	var found []process
	seen := []int{first}
	for i := 0; i < len(seen); i++ {
		children, err := childrenOf(seen[i])
		if err != nil {
			return nil, err
		}
		seen = append(seen, children...)
		fd, err := unix.PidfdOpen(seen[i], 0)
		if err != nil {
			continue // it has ended
		}
		p := process{fd: fd, argv: argv(seen[i])}
		if len(p.argv) > 0 && p.argv[0] != "" && which(p) {
			found = append(found, p)
		} else {
			_ = unix.Close(fd)
		}
	}
	if len(found) == 0 {
		return nil, errNoProcess
	}
	return found, nil
}

// childrenOf are the children of all threads of a process.
func childrenOf(pid int) ([]int, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	var all []int
	for _, name := range tasks {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil && !slices.Contains(all, child) {
				all = append(all, child)
			}
		}
	}
	return all, nil
}

func argv(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// ballast is the file that fills a volume.
func (c *Container) ballast() string { return filepath.Join(c.volume, "ballast") }

// fillVolume writes until there is no room.
func (c *Container) fillVolume() error {
	f, err := os.OpenFile(c.ballast(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("cannot fill the volume of %s: %w", c.Name, err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, unix.ENOSPC) {
			size /= 2
		} else if err != nil {
			return fmt.Errorf("cannot fill the volume of %s: %w", c.Name, err)
		}
	}
	return nil
}

func (c *Container) emptyVolume() error {
	if err := os.Remove(c.ballast()); err != nil {
		return fmt.Errorf("cannot empty the volume of %s: %w", c.Name, err)
	}
	return nil
}
