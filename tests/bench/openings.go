package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openings tells when FIFOs of a directory are opened by others: inotify(7).
// Each is held open for writing, so that who opens it for reading goes on at
// once, and then waits for ever.
type openings struct {
	fd    int
	fifos []int
	seen  map[string]int // how often each was opened since it was last waited for
}

// patience is how long a service may take to start.
const patience = 2 * time.Minute

func watch(dir string, names []string) (*openings, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	o := &openings{fd: -1, seen: map[string]int{}}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := unix.Mkfifo(path, 0o644); err != nil {
			return o, fmt.Errorf("cannot make %s: %w", path, err)
		}
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return o, fmt.Errorf("cannot open %s: %w", path, err)
		}
		o.fifos = append(o.fifos, fd)
	}
	var err error
	if o.fd, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		return o, err
	}
	_, err = unix.InotifyAddWatch(o.fd, dir, unix.IN_OPEN)
	return o, err
}

func (o *openings) close() {
	for _, fd := range append(o.fifos, o.fd) {
		_ = unix.Close(fd)
	}
}

// await returns when each of the names was opened once more.
func (o *openings) await(names ...string) error {
	deadline := time.Now().Add(patience)
	for _, name := range names {
		for o.seen[name] == 0 {
			left := time.Until(deadline)
			if left <= 0 {
				return fmt.Errorf("%s does not run after %s", name, patience)
			}
			if err := o.read(left); err != nil {
				return err
			}
		}
		o.seen[name]--
	}
	return nil
}

// read takes in what has happened, and waits for something to happen.
func (o *openings) read(patience time.Duration) error {
	fds := []unix.PollFd{{Fd: int32(o.fd), Events: unix.POLLIN}}
	if _, err := unix.Poll(fds, int(patience.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
		return err
	}
	var buf [64 << 10]byte
	n, err := unix.Read(o.fd, buf[:])
	if errors.Is(err, unix.EAGAIN) {
		return nil
	}
	if err != nil {
		return err
	}
	for rest := buf[:n]; len(rest) >= unix.SizeofInotifyEvent; {
		event := (*unix.InotifyEvent)(unsafe.Pointer(&rest[0]))
		if event.Mask&unix.IN_Q_OVERFLOW != 0 {
			return errors.New("more happens than inotify can tell")
		}
		end := unix.SizeofInotifyEvent + int(event.Len)
		o.seen[string(bytes.TrimRight(rest[unix.SizeofInotifyEvent:end], "\x00"))]++
		rest = rest[end:]
	}
	return nil
}
