// Command vminit is the first program of the tests' virtual machine. It loads
// the modules of the disk, mounts what a container would find mounted, starts
// the agent by which tests run commands, and becomes rlminit.
//
// As `vminit agent` it is that agent: it reads requests from the second serial
// port, one JSON object a line, and answers each with another.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"rlminit/tests/vm/agent"
)

func main() {
	run := boot
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		run = serve
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "vminit:", err)
		os.Exit(1)
	}
}

// path is the environment that everything here has.
const path = "PATH=/usr/local/bin"

func boot() error {
	runtime.LockOSThread() // namespaces are a thread's
	for _, m := range []struct{ source, target, kind, data string }{
		{"proc", "/proc", "proc", ""},
		{"sysfs", "/sys", "sysfs", ""},
		{"devtmpfs", "/dev", "devtmpfs", ""},
		{"tmpfs", "/run", "tmpfs", "mode=755"},
		{"tmpfs", "/tmp", "tmpfs", "mode=1777"},
	} {
		if err := mount(m.source, m.target, m.kind, m.data); err != nil {
			return err
		}
	}
	order, err := os.ReadFile("/modules/order")
	if err != nil {
		return fmt.Errorf("cannot load modules: %w", err)
	}
	for _, name := range strings.Fields(string(order)) {
		if err := load("/modules/" + name); err != nil {
			return err
		}
	}
	if err := mount("/dev/vda", "/data", "ext4", ""); err != nil {
		return err
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("cannot bring up the loopback interface: %w", err)
	}
	argv := []string{"rlminit", "init", "--"}
	if _, err := os.Stat("/container"); err == nil {
		// A host, whose containers are an engine's: its init is one and nothing else.
		if err := host(); err != nil {
			return err
		}
		argv = append(argv, "nasty", "sleep")
	} else if err := cgroup(); err != nil {
		return err
	}
	// The machine stands for one container on it, which has the same id when it
	// is started again: the volume is still its own.
	if err := unix.Sethostname([]byte("0123456789ab")); err != nil {
		return fmt.Errorf("cannot set the host's name: %w", err)
	}
	cmd := exec.Command("/proc/self/exe", "agent")
	cmd.Env = []string{path}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start the agent: %w", err)
	}
	return syscall.Exec("/usr/local/bin/rlminit", argv, []string{path})
}

// host makes ready what an engine needs: cgroups, and a root that is a mount on
// another one, for the very first cannot be left by pivot_root(2).
func host() error {
	for _, m := range []struct{ kind, target string }{{"cgroup2", "/sys/fs/cgroup"}, {"tmpfs", "/dev/shm"}, {"devpts", "/dev/pts"}} {
		if err := mount(m.kind, m.target, m.kind, ""); err != nil {
			return err
		}
	}
	if err := os.Remove("/etc/rlminit/rlminit.yaml"); err != nil {
		return fmt.Errorf("cannot be a plain init: %w", err)
	}
	if err := os.MkdirAll("/root", 0o700); err != nil {
		return fmt.Errorf("cannot make a root: %w", err)
	}
	if err := unix.Mount("/", "/root", "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("cannot make a root: %w", err)
	}
	if err := os.Chdir("/root"); err != nil {
		return fmt.Errorf("cannot make a root: %w", err)
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("cannot make a root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("cannot make a root: %w", err)
	}
	return nil
}

// cgroup puts us into a cgroup of our own, which looks like the root of all from
// inside, as an engine does for a container that may write its cgroup.
func cgroup() error {
	const mounted, own = "/sys/fs/cgroup", "/sys/fs/cgroup/container"
	if err := mount("cgroup2", mounted, "cgroup2", ""); err != nil {
		return err
	}
	if err := os.WriteFile(mounted+"/cgroup.subtree_control", []byte("+memory +pids +cpu"), 0); err != nil {
		return fmt.Errorf("cannot pass controllers on: %w", err)
	}
	if err := os.Mkdir(own, 0o755); err != nil {
		return fmt.Errorf("cannot make a cgroup: %w", err)
	}
	if err := os.WriteFile(own+"/pids.max", []byte("256"), 0); err != nil { // as docker run --pids-limit
		return fmt.Errorf("cannot limit a cgroup: %w", err)
	}
	if err := os.WriteFile(own+"/cgroup.procs", []byte("0"), 0); err != nil {
		return fmt.Errorf("cannot enter a cgroup: %w", err)
	}
	// As an earlier start of the container may have left it, whose tags it had.
	if err := os.MkdirAll(own+"/services/59999", 0o755); err != nil {
		return fmt.Errorf("cannot make a cgroup: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("cannot make a cgroup namespace: %w", err)
	}
	if err := unix.Unmount(mounted, 0); err != nil {
		return fmt.Errorf("cannot mount cgroups: %w", err)
	}
	return mount("cgroup2", mounted, "cgroup2", "")
}

func mount(source, target, kind, data string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("cannot mount %s: %w", target, err)
	}
	if err := unix.Mount(source, target, kind, 0, data); err != nil {
		return fmt.Errorf("cannot mount %s: %w", target, err)
	}
	return nil
}

func load(module string) error {
	f, err := os.Open(module)
	if err != nil {
		return fmt.Errorf("cannot load %s: %w", module, err)
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil {
		return fmt.Errorf("cannot load %s: %w", module, err)
	}
	return nil
}

// loopbackUp does what `ip link set lo up` does: netdevice(7).
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// serve answers requests until the machine ends.
func serve() error {
	port, err := os.OpenFile("/dev/ttyS1", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return fmt.Errorf("cannot open the serial port: %w", err)
	}
	if err := raw(int(port.Fd())); err != nil {
		return fmt.Errorf("cannot set up the serial port: %w", err)
	}
	requests := bufio.NewReader(port)
	answers := json.NewEncoder(port)
	if err := answers.Encode(agent.Answer{}); err != nil {
		return fmt.Errorf("cannot write to the serial port: %w", err)
	}
	for {
		line, err := requests.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("cannot read from the serial port: %w", err)
		}
		var request agent.Request
		if err := json.Unmarshal(line, &request); err != nil {
			continue // what was left of a request when the line was opened
		}
		if err := answers.Encode(perform(request)); err != nil {
			return fmt.Errorf("cannot write to the serial port: %w", err)
		}
	}
}

// raw makes a terminal a plain line of bytes, as cfmakeraw(3) does.
func raw(fd int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	t.Cflag = t.Cflag&^unix.CSIZE | unix.CS8
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return unix.IoctlSetTermios(fd, unix.TCSETS, t)
}

// perform runs one command.
func perform(r agent.Request) agent.Answer {
	cmd := exec.Command(r.Argv[0], r.Argv[1:]...)
	cmd.Env = []string{path}
	cmd.Stdin = strings.NewReader(r.In)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(r.UID), Gid: uint32(r.GID)}}
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	a := agent.Answer{ID: r.ID, Out: out.String(), Err: complaint.String()}
	switch status := cmd.ProcessState; {
	case status == nil:
		a.Code, a.Err = 127, err.Error()
	case status.Sys().(syscall.WaitStatus).Signaled():
		a.Code = 128 + int(status.Sys().(syscall.WaitStatus).Signal())
	default:
		a.Code = status.ExitCode()
	}
	return a
}
