package api

import (
	"net/http"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// passed are the descriptors that a client sent along, SCM_RIGHTS of unix(7): the
// stdin of a job, say. Who may not command has no use for any, and few are kept.
type passed struct {
	mu  sync.Mutex
	fds []int
	oob [128]byte // room for more than mostPassed: the kernel drops what does not fit
}

// mostPassed bounds what one connection may have open here.
const mostPassed = 1

// Read reads, and keeps what was passed along.
func (c *counted) Read(b []byte) (int, error) {
	c.passed.mu.Lock()
	oob := c.passed.oob[:] // one reader at a time: net/http's
	c.passed.mu.Unlock()
	n, size, _, _, err := c.UnixConn.ReadMsgUnix(b, oob)
	if size > 0 {
		c.passed.keep(oob[:size])
	}
	return n, err
}

func (p *passed) keep(oob []byte) {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range messages {
		fds, err := syscall.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			if len(p.fds) >= mostPassed {
				unix.Close(fd)
			} else {
				p.fds = append(p.fds, fd)
			}
		}
	}
}

// closeAll closes what nobody has taken.
func (p *passed) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, fd := range p.fds {
		unix.Close(fd)
	}
	p.fds = nil
}

// Descriptor is the first one that came with a request and that nobody has taken:
// the caller's, from now on.
func Descriptor(r *http.Request) (fd int, ok bool) {
	c := r.Context().Value(connectionKey{}).(*counted)
	c.passed.mu.Lock()
	defer c.passed.mu.Unlock()
	if len(c.passed.fds) == 0 {
		return -1, false
	}
	fd = c.passed.fds[0]
	c.passed.fds = c.passed.fds[1:]
	return fd, true
}
