package docker

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rlminit/tests/box"
)

// terminal is a person at a container's terminal.
type terminal struct {
	t      *testing.T
	master *os.File

	mu   sync.Mutex
	seen strings.Builder
	read int // how much of seen was looked at
}

// attach sits down at a container's terminal.
func attach(t *testing.T, b *box.Box) *terminal {
	t.Helper()
	return dockerOn(t, "attach", b.Place.(*Place).name)
}

// dockerOn runs the docker client in a session of its own, with a pseudo terminal of ours
// that controls it, pty(7).
func dockerOn(t *testing.T, args ...string) *terminal {
	t.Helper()
	master, slave, err := pseudoTerminal()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("docker", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := slave.Close(); err != nil {
		t.Fatal(err)
	}
	tty := &terminal{t: t, master: master}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			tty.mu.Lock()
			tty.seen.Write(buffer[:n])
			tty.mu.Unlock()
			if err != nil {
				return // EIO: the other side is gone
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		<-done
		if err := master.Close(); err != nil {
			t.Error(err)
		}
	})
	return tty
}

// pseudoTerminal opens a pair, by ptmx(4).
func pseudoTerminal() (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open a terminal: %w", err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, fmt.Errorf("cannot unlock a terminal: %w", err)
	}
	// Without a size of its own docker attach leaves the container's at 1 × 1.
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		return nil, nil, fmt.Errorf("cannot give a terminal its size: %w", err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot name a terminal: %w", err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open a terminal: %w", err)
	}
	return master, slave, nil
}

func (tty *terminal) typed(keys string) {
	tty.t.Helper()
	if _, err := tty.master.WriteString(keys); err != nil {
		tty.t.Fatal(err)
	}
}

// reads waits for a text that was not there at the last call, and returns what
// came up to now.
func (tty *terminal) reads(text string) string {
	tty.t.Helper()
	var since string
	box.Eventually(tty.t, 60*time.Second, fmt.Sprintf("%q on the terminal", text), func() (bool, any) {
		since = tty.all()[tty.read:]
		return strings.Contains(since, text), since
	})
	tty.read += len(since)
	return since
}

func (tty *terminal) all() string {
	tty.mu.Lock()
	defer tty.mu.Unlock()
	return tty.seen.String()
}
