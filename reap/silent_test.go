package reap

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"rlminit/reap/threads"
	"rlminit/wire"
)

// A file whose flush nobody answers makes close(2) wait, whoever calls it and
// whatever signal comes. PID 1 does not.
func TestFileThatIsNeverFlushed(t *testing.T) {
	b, dir, fuse := startBoxWithDeadMount(t)
	end := serveSilently(fuse)
	defer end() // or PID 1 would be waited for as long as its children wait
	l := b.link
	open := func() int {
		t.Helper()
		fd, err := unix.Open(filepath.Join("/proc", fmt.Sprint(b.cmd.Process.Pid), "root", dir, "file"), unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	for what, give := range map[string]func(fd int){
		"is held, and released": func(fd int) {
			l.send(t, &wire.Hold{Key: "store"}, fd)
			l.send(t, &wire.Release{Key: "store"})
		},
		"is held while others are passed on": func(fd int) {
			l.send(t, &wire.Hold{Key: "kept"}, fd)
			for target := int32(3); target < wire.MaxDescriptors; target++ {
				id := l.next
				l.send(t, &wire.Spawn{ID: id, Name: "x", Path: "/bin/true", Argv: []string{"true"}, NoNewPrivs: true, Targets: []int32{target}}, 0)
				l.next++
				if exit := l.exited(t, id); exit.Code != 0 {
					t.Errorf("with descriptor %d: %+v", target, exit)
				}
			}
		},
		"comes with what takes none": func(fd int) { l.send(t, &wire.Pong{}, fd) },
		"comes with a large message": func(fd int) { _ = unix.Sendmsg(l.socket, []byte{255}, unix.UnixRights(fd), nil, 0) },
		"comes with a refused spawn": func(fd int) { l.send(t, &wire.Spawn{ID: 1}, fd) },
		"is what a process is to have": func(fd int) {
			for range 2 * threads.Most {
				l.send(t, &wire.Spawn{ID: l.next, Name: "x", Path: "/bin/true", Argv: []string{"true"}, NoNewPrivs: true, Targets: []int32{5}}, fd)
				l.next++
			}
		},
	} {
		fd := open()
		give(fd)
		go unix.Close(fd) // which waits, too
		b.answersSoon(t, "a file that "+what)
	}
	id, _ := l.spawn(t, nil, "exit", "3")
	if exit := l.exited(t, id); exit.Code != 3 {
		t.Errorf("exit %+v", exit)
	}
	b.nextIsWell(t)
	end() // as the server does that is in the container
	b.cmd.Process.Signal(unix.SIGTERM)
	want[*wire.Shutdown](t, b.link, nil)
	b.link.send(t, &wire.StopBegun{})
	b.link.send(t, &wire.StopDone{})
	if code := b.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// serveSilently answers for a file system in which every name is a file, but not to
// what comes at close(2), until end is called: then all who wait get an error.
func serveSilently(fuse *os.File) (end func()) {
	over := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer fuse.Close()
		device := int(fuse.Fd())
		for {
			select {
			case <-over:
				return
			default:
			}
			if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(device), Events: unix.POLLIN}}, 50); n > 0 && !serveOne(device) {
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(over); <-ended })
}

// serveOne answers one request, linux/fuse.h; false: there will be no more.
func serveOne(device int) bool {
	const lookup, forget, getattr, open, release, flush, initialise, batchForget = 1, 2, 3, 14, 18, 25, 26, 42
	order := binary.NativeEndian
	attributes := func(b []byte, node uint64) {
		mode := uint32(unix.S_IFREG | 0o666)
		if node == 1 {
			mode = unix.S_IFDIR | 0o777
		}
		order.PutUint64(b, node)
		order.PutUint32(b[60:], mode)
		order.PutUint32(b[64:], 1) // links
	}
	request := make([]byte, 1<<17)
	n, err := unix.Read(device, request)
	if err == unix.EINTR || err == unix.ENOENT {
		return true
	}
	if err != nil || n < 40 {
		return false
	}
	answer := make([]byte, 16, 256)
	copy(answer[8:], request[8:16]) // which one
	switch order.Uint32(request[4:]) {
	case initialise:
		answer = answer[:16+64]
		order.PutUint32(answer[16:], 7)
		order.PutUint32(answer[20:], 31)
		order.PutUint32(answer[16+20:], 4096)
	case lookup:
		answer = answer[:16+128]
		order.PutUint64(answer[16:], 2)
		attributes(answer[16+40:], 2)
	case getattr:
		answer = answer[:16+104]
		attributes(answer[16+16:], order.Uint64(request[16:]))
	case open:
		answer = answer[:16+16]
	case flush, release, forget, batchForget:
		return true
	default:
		order.PutUint32(answer[4:], ^uint32(unix.ENOSYS-1)) // negative
	}
	order.PutUint32(answer, uint32(len(answer)))
	_, _ = unix.Write(device, answer)
	return true
}
