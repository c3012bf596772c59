// Package ns runs rlminit as PID 1 of a PID namespace of its own, with a
// private /proc, /run and loopback interface: what a container gives it, at a
// fraction of the time. It needs root, or a kernel that lets anyone make user
// namespaces.
package ns

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
)

// stageVariable makes the test binary play Stage.
const stageVariable = "RLMINIT_TEST_STAGE"

// Place is a PID namespace: a box.Place.
type Place struct {
	spec box.Spec
	dir  string // data/ and etc/ in it
	bin  string // where the programs are
	ids  int    // how many uids its user namespace has, from firstID on; 0: it has none of its own

	init  *exec.Cmd
	ended chan struct{} // closed when init was waited for
	lines box.Transcript
}

// New makes the directories of a box and starts it. Remove ends it.
func New(spec box.Spec, bin string) (*Place, error) { return newOf(spec, bin, 0) }

// firstID is whom a box with a user namespace has as root.
const firstID = 100_000

func newOf(spec box.Spec, bin string, ids int) (*Place, error) {
	dir, err := os.MkdirTemp("", "rlminit-ns-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a box: %w", err)
	}
	p := &Place{spec: spec, dir: dir, bin: bin, ids: ids}
	if err := p.lay(); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot make a box: %w", err), os.RemoveAll(dir))
	}
	if err := p.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return p, nil
}

// lay makes the volume and the configuration.
func (p *Place) lay() error {
	if err := os.Chmod(p.dir, 0o755); err != nil {
		return err
	}
	for _, d := range []string{"data", "etc"} {
		if err := os.Mkdir(filepath.Join(p.dir, d), 0o755); err != nil {
			return err
		}
	}
	if Privileged() {
		first := 0
		if p.ids > 0 {
			first = firstID
		}
		if err := os.Chown(p.Home(), first+box.Service.UID, first+box.Service.GID); err != nil {
			return err
		}
	}
	if p.spec.Config == "" {
		return nil
	}
	err := os.WriteFile(p.config(), []byte(p.spec.Config), 0o644)
	if p.ids > 0 { // it must be root's, in there
		err = errors.Join(err, os.Chown(p.config(), firstID, firstID), os.Chown(filepath.Dir(p.config()), firstID, firstID), os.Chown(p.dir, firstID, firstID))
	}
	return err
}

func (p *Place) config() string { return filepath.Join(p.dir, "etc", "rlminit.yaml") }

// Home is the volume's path.
func (p *Place) Home() string { return filepath.Join(p.dir, "data") }

// Privileged tells whether boxes are made as root, so that their PID 1 is root
// and their services are not. Otherwise everything in them is one user.
func Privileged() bool { return os.Geteuid() == 0 }

func (p *Place) environment() []string {
	env := []string{"PATH=" + p.bin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "RLMINIT_HOME=" + p.Home()}
	if p.spec.Config != "" {
		env = append(env, "RLMINIT_CONFIG="+p.config())
	}
	return append(env, p.spec.Env...)
}

// Start starts rlminit by way of Stage.
func (p *Place) Start() error {
	// Not by its path, where only who runs the tests may go.
	argv := slices.Concat(p.spec.Under, []string{filepath.Join(p.bin, "rlminit"), "init", "--"}, p.spec.Main)
	if len(p.spec.Under) > 0 {
		path, err := exec.LookPath(filepath.Join(p.bin, argv[0]))
		if err != nil {
			if path, err = exec.LookPath(argv[0]); err != nil {
				return fmt.Errorf("cannot start a box: %w", err)
			}
		}
		argv[0] = path
	}
	cmd := exec.Command("/proc/self/exe", argv...)
	cmd.Env = append(p.environment(), stageVariable+"=1")
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = &p.lines, &p.lines
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET,
		Setsid:     true,
	}
	switch {
	case p.ids > 0:
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: firstID, Size: p.ids}}
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings, cmd.SysProcAttr.GidMappingsEnableSetgroups = all, all, true
		cmd.SysProcAttr.Credential = &syscall.Credential{}
	case !Privileged():
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN}
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start a box: %w", err)
	}
	p.init, p.ended = cmd, make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		// The error is in ProcessState: Ended looks there.
		_ = cmd.Wait()
		close(ended)
	}(cmd, p.ended)
	return nil
}

// Stage runs between fork and exec of rlminit, as PID 1 of the new namespaces:
// it mounts what must be private, and becomes rlminit. It is what TestMain
// calls first; it does nothing in an ordinary test process.
func Stage() {
	if os.Getenv(stageVariable) == "" {
		return
	}
	if err := stage(); err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
		os.Exit(99)
	}
}

func stage() error {
	if err := os.Unsetenv(stageVariable); err != nil {
		return err
	}
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""},
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
		{"tmpfs", "/tmp", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
	} {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("cannot mount %s: %w", m.target, err)
		}
		if m.target == "/" {
			if err := ownEtc(); err != nil {
				return fmt.Errorf("cannot keep the machine's /etc as it is: %w", err)
			}
		}
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("cannot bring up the loopback interface: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot drop ambient capabilities: %w", err)
	}
	return syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
}

// ownEtc lets rlminit write into /etc, as root in a container may, and none of it
// come to the machine: what is written goes to a tmpfs that nobody else sees. Where
// the kernel has no overlay for us, /etc is read-only.
func ownEtc() error {
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, dir := range []string{"/run/upper", "/run/work"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	err := unix.Mount("overlay", "/etc", "overlay", 0, "lowerdir=/etc,upperdir=/run/upper,workdir=/run/work")
	if err != nil {
		err = errors.Join(unix.Mount("/etc", "/etc", "", unix.MS_BIND|unix.MS_REC, ""), unix.Mount("", "/etc", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	}
	return errors.Join(err, unix.Unmount("/run", unix.MNT_DETACH))
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

// Enter is a command in the namespaces of PID 1, by nsenter(1), with its environment.
func (p *Place) Enter(user box.User, argv ...string) *exec.Cmd {
	options := []string{"-t", strconv.Itoa(p.init.Process.Pid), "-p", "-m", "-n"}
	if p.ids > 0 {
		options = append(options, "-U")
	}
	if Privileged() {
		options = append(options, "-S", strconv.Itoa(user.UID), "-G", strconv.Itoa(user.GID))
	} else {
		options = append(options, "-U", "--preserve-credentials")
	}
	cmd := exec.Command("nsenter", append(append(options, "--"), argv...)...)
	cmd.Env = p.environment()
	cmd.Dir = "/"
	return cmd
}

// Exec runs a command in the namespaces of PID 1.
func (p *Place) Exec(user box.User, in io.Reader, argv []string) (box.Result, error) {
	cmd := p.Enter(user, argv...)
	cmd.Stdin = in
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return box.Result{}, fmt.Errorf("cannot run %q in the box: %w", argv, err)
	}
	return box.Result{Code: exitCode(cmd.ProcessState), Out: out.String(), Err: complaint.String()}, nil
}

func exitCode(s *os.ProcessState) int {
	status := s.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// Signal sends a signal to PID 1.
func (p *Place) Signal(number int) error {
	if err := p.init.Process.Signal(syscall.Signal(number)); err != nil {
		return fmt.Errorf("cannot signal the box: %w", err)
	}
	return nil
}

// Stop asks PID 1 to end, and kills it after 10 s.
func (p *Place) Stop() error {
	if err := p.Signal(int(unix.SIGTERM)); err != nil {
		return err
	}
	if _, err := p.Ended(10 * time.Second); err == nil {
		return nil
	}
	if err := p.Signal(int(unix.SIGKILL)); err != nil {
		return err
	}
	_, err := p.Ended(10 * time.Second)
	return err
}

// Ended waits for the end of PID 1.
func (p *Place) Ended(timeout time.Duration) (int, error) {
	select {
	case <-p.ended:
		return exitCode(p.init.ProcessState), nil
	case <-time.After(timeout):
		return 0, fmt.Errorf("the box has not ended within %s", timeout)
	}
}

// Printed is what PID 1 and its children wrote so far.
func (p *Place) Printed() string { return p.lines.String() }

// PID is the process id of PID 1 outside of the box.
func (p *Place) PID() int { return p.init.Process.Pid }

// Remove ends the box and removes its directories.
func (p *Place) Remove() error {
	select {
	case <-p.ended:
	default:
		// It may end by itself meanwhile: then there is nobody to kill.
		_ = p.init.Process.Kill()
		if _, err := p.Ended(10 * time.Second); err != nil {
			return err
		}
	}
	return os.RemoveAll(p.dir)
}
