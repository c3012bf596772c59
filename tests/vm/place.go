// Package vm runs rlminit as PID 1 of a virtual machine, whose power can be
// cut: what was acknowledged before must be there after. The machine is QEMU's,
// its kernel Debian's, its root an initramfs of our programs, and its volume an
// ext4 file system on a disk that outlives it.
package vm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"rlminit/tests/box"
	"rlminit/tests/vm/agent"
)

// Place is a virtual machine: a box.Place.
type Place struct {
	dir    string // disk, sockets
	kernel kernel
	initrd string
	memory int // MiB

	qemu  *exec.Cmd
	ended chan struct{}
	lines box.Transcript

	mu      sync.Mutex // one request at a time
	line    net.Conn
	answers *bufio.Reader
	last    int
}

// New makes a disk in a directory and boots a machine.
func New(dir string, k kernel, initrd string, memory int) (*Place, error) {
	p := &Place{dir: dir, kernel: k, initrd: initrd, memory: memory}
	disk, err := os.Create(p.disk())
	if err != nil {
		return nil, fmt.Errorf("cannot make a disk: %w", err)
	}
	if err := disk.Truncate(256 << 20); err != nil {
		return nil, fmt.Errorf("cannot make a disk: %w", err)
	}
	if err := disk.Close(); err != nil {
		return nil, fmt.Errorf("cannot make a disk: %w", err)
	}
	mkfs := exec.Command("mke2fs", "-q", "-t", "ext4", "-E", "root_owner=1000:1000", p.disk())
	mkfs.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if out, err := mkfs.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot make a file system: %w\n%s", err, out)
	}
	return p, p.Start()
}

func (p *Place) disk() string   { return filepath.Join(p.dir, "disk") }
func (p *Place) socket() string { return filepath.Join(p.dir, "agent") }

// Start switches the machine on.
func (p *Place) Start() error {
	listener, err := net.Listen("unix", p.socket())
	if err != nil {
		return fmt.Errorf("cannot start a machine: %w", err)
	}
	defer listener.Close()
	cmd := exec.Command("qemu-system-x86_64",
		// Emulated: it boots in seconds everywhere, where nested KVM may hang.
		"-machine", "pc", "-accel", "tcg", "-m", strconv.Itoa(p.memory), "-smp", "2",
		"-nodefaults", "-display", "none", "-no-reboot",
		"-kernel", p.kernel.image, "-initrd", p.initrd, "-append", "console=ttyS0 quiet panic=-1",
		"-drive", "file="+p.disk()+",format=raw,if=virtio",
		"-serial", "stdio", "-serial", "unix:"+p.socket(),
	)
	cmd.Stdout, cmd.Stderr = &p.lines, &p.lines
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start a machine: %w", err)
	}
	p.qemu, p.ended = cmd, make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait() // a power cut is an error to it
		close(ended)
	}(cmd, p.ended)
	if err := listener.(*net.UnixListener).SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return fmt.Errorf("cannot start a machine: %w", err)
	}
	line, err := listener.Accept()
	if err != nil {
		p.PowerCut()
		return fmt.Errorf("cannot start a machine: %w\n%s", err, p.Printed())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line, p.answers = line, bufio.NewReader(line)
	// What is sent before the agent listens is lost, so it speaks first.
	if _, err := p.answer(0, bootTimeout); err != nil {
		return fmt.Errorf("cannot start a machine: %w\n%s", err, p.Printed())
	}
	return nil
}

// bootTimeout is how long a machine may take until its agent answers.
const bootTimeout = 2 * time.Minute

// answer reads the answer to a request.
func (p *Place) answer(id int, timeout time.Duration) (agent.Answer, error) {
	var a agent.Answer
	if err := p.line.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return a, err
	}
	for {
		line, err := p.answers.ReadBytes('\n')
		if err != nil {
			return a, err
		}
		// What is no answer is the firmware's, or an earlier request's.
		if json.Unmarshal(line, &a) == nil && a.ID == id {
			return a, nil
		}
	}
}

// Exec runs a command by the agent.
func (p *Place) Exec(user box.User, in io.Reader, argv []string) (box.Result, error) {
	request := agent.Request{UID: user.UID, GID: user.GID, Argv: argv}
	if in != nil {
		b, err := io.ReadAll(in)
		if err != nil {
			return box.Result{}, fmt.Errorf("cannot read the input of %q: %w", argv, err)
		}
		request.In = string(b)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	request.ID = p.last
	if err := json.NewEncoder(p.line).Encode(request); err != nil {
		return box.Result{}, fmt.Errorf("cannot run %q: %w", argv, err)
	}
	a, err := p.answer(request.ID, 30*time.Second)
	if err != nil {
		return box.Result{}, fmt.Errorf("cannot run %q: %w", argv, err)
	}
	return box.Result{Code: a.Code, Out: a.Out, Err: a.Err}, nil
}

// Signal sends a signal to PID 1.
func (p *Place) Signal(number int) error {
	r, err := p.Exec(box.Root, nil, []string{"nasty", "kill", strconv.Itoa(number), "1"})
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("cannot signal PID 1: %s", r)
	}
	return err
}

// Stop shuts rlminit down: the machine ends with its PID 1.
func (p *Place) Stop() error {
	if _, err := p.Exec(box.Root, nil, []string{"rlminit", "shutdown"}); err != nil {
		return err
	}
	_, err := p.Ended(20 * time.Second)
	return err
}

// PowerCut switches the machine off between two instructions. What the guest
// has not written out is lost.
func (p *Place) PowerCut() {
	_ = p.qemu.Process.Kill() // it may have ended by itself
	<-p.ended
}

// Ended waits until the machine is off. It has no exit code but 0.
func (p *Place) Ended(timeout time.Duration) (int, error) {
	select {
	case <-p.ended:
		return 0, nil
	case <-time.After(timeout):
		return 0, fmt.Errorf("the machine is not off within %s", timeout)
	}
}

// Printed is what the console showed.
func (p *Place) Printed() string { return p.lines.String() }

// Home is the volume's path inside.
func (p *Place) Home() string { return "/data" }
