package wire

import (
	"errors"

	"golang.org/x/sys/unix"

	"rlminit/internal/coder"
)

// Limits of a message.
const (
	inline  = 64 << 10 // longer ones travel in a sealed memfd
	largest = 4 << 20  // bytes of a memfd: twice execve(2)'s limit as a rule

	// MaxDescriptors is how many descriptors may go with one message.
	MaxDescriptors = 64
)

// kindLarge marks a message whose bytes are in a memfd, its first descriptor.
const kindLarge Kind = 255

// seals are those a memfd must bear before its content is believed: nobody can
// change it while, or after, it is read.
const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

var (
	// ErrFull tells that the peer has not read earlier messages: try again
	// when the socket can be written.
	ErrFull = errors.New("socket is full")
	// ErrEmpty tells that there is nothing to read.
	ErrEmpty = errors.New("socket is empty")
	// ErrClosed tells that the peer is gone.
	ErrClosed = errors.New("the other tier is gone")
	// ErrTooLarge is returned for a message, or a number of descriptors, above
	// the limits.
	ErrTooLarge = errors.New("message too large")
)

// Send sends m with descriptors, which stay the caller's. It never blocks.
//
// Any other error than those above is of the moment, and no event tells of its
// end: to be tried again a little later. ENOBUFS and ENOMEM are such, EMFILE of
// the memfd, and ETOOMANYREFS: all processes of this user together have more
// descriptors in flight than RLIMIT_NOFILE allows, unix(7), while the socket can
// be written all the time.
func Send(fd int, m Message, descriptors ...int) error {
	if len(descriptors) > MaxDescriptors {
		return ErrTooLarge
	}
	body := coder.Encode([]byte{byte(m.Kind())}, m.fields)
	if len(body) > inline {
		if len(body) > largest {
			return ErrTooLarge
		}
		memfd, err := Sealed("rlminit-message", body)
		if err != nil {
			return err
		}
		defer unix.Close(memfd)
		body = []byte{byte(kindLarge)}
		descriptors = append([]int{memfd}, descriptors...)
	}
	var rights []byte
	if len(descriptors) > 0 {
		rights = unix.UnixRights(descriptors...)
	}
	for {
		err := unix.Sendmsg(fd, body, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch err {
		case nil:
			return nil
		case unix.EINTR:
		case unix.EAGAIN:
			return ErrFull
		case unix.EPIPE, unix.ECONNRESET, unix.ENOTCONN:
			return ErrClosed
		default:
			return err
		}
	}
}

// Receiver reads messages from one socket into one buffer.
type Receiver struct {
	// Close closes the descriptors of bytes that are no message. nil: CloseAll does.
	Close func([]int)

	buf [inline + 16]byte
	oob [4 * (MaxDescriptors + 8) * 2]byte
}

// Receive reads one message and its descriptors, which are close-on-exec and
// the caller's to close. It never blocks. After any error but ErrEmpty and
// ErrClosed the message is lost and the socket still good.
func (r *Receiver) Receive(fd int) (Message, []int, error) {
	var n, oobn, flags int
	var err error
	for {
		n, oobn, flags, _, err = unix.Recvmsg(fd, r.buf[:], r.oob[:], unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			break
		}
	}
	switch {
	case err == unix.EAGAIN:
		return nil, nil, ErrEmpty
	case err == unix.ECONNRESET || err == nil && n == 0 && oobn == 0:
		return nil, nil, ErrClosed
	case err != nil:
		return nil, nil, err
	}
	descriptors := rights(r.oob[:oobn])
	m, rest, err := assemble(r.buf[:n], descriptors, flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0)
	if err != nil {
		if r.Close != nil {
			r.Close(descriptors)
		} else {
			CloseAll(descriptors)
		}
		return nil, nil, err
	}
	CloseAll(descriptors[:len(descriptors)-len(rest)])
	return m, rest, nil
}

// assemble turns received bytes into a message and those of the descriptors
// that go with it. It closes none.
func assemble(body []byte, descriptors []int, truncated bool) (Message, []int, error) {
	if truncated || len(body) == 0 {
		return nil, nil, coder.ErrMalformed
	}
	if Kind(body[0]) == kindLarge {
		if len(body) != 1 || len(descriptors) == 0 {
			return nil, nil, coder.ErrMalformed
		}
		content, err := ReadSealed(descriptors[0], largest)
		if err != nil {
			return nil, nil, err
		}
		if len(content) == 0 || Kind(content[0]) == kindLarge {
			return nil, nil, coder.ErrMalformed
		}
		body = content
		descriptors = descriptors[1:]
	}
	m := blank(Kind(body[0]))
	if m == nil {
		return nil, nil, coder.ErrMalformed
	}
	if err := coder.Decode(body[1:], m.fields); err != nil {
		return nil, nil, err
	}
	if many, is := m.(*Many); is {
		sum := 0
		for _, p := range many.Parts {
			sum += int(p.Descriptors)
		}
		if sum != len(descriptors) {
			return nil, nil, coder.ErrMalformed
		}
	}
	return m, descriptors, nil
}

// rights takes the descriptors out of the control messages.
func rights(oob []byte) []int {
	if len(oob) == 0 {
		return nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var all []int
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil {
			all = append(all, fds...)
		}
	}
	return all
}

// CloseAll closes descriptors.
func CloseAll(descriptors []int) {
	for _, fd := range descriptors {
		unix.Close(fd)
	}
}

// Memfd asks for a memfd, memfd_create(2), that can be sealed and never be executed. Kernels
// from 6.3 may insist on that (vm.memfd_noexec), and older ones do not know it.
func Memfd(name string) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if err == unix.EINVAL {
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	return fd, err
}

// Sealed returns a memfd, memfd_create(2), with content that nobody can change.
func Sealed(name string, content []byte) (int, error) {
	fd, err := Memfd(name)
	if err != nil {
		return -1, err
	}
	for off := 0; off < len(content); {
		n, err := unix.Pwrite(fd, content[off:], int64(off))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			unix.Close(fd)
			return -1, err
		}
		off += n
	}
	if err := Seal(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Seal makes the content of a memfd final.
func Seal(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	return err
}

// ReadSealed reads the content of a sealed memfd of at most limit bytes, and
// refuses any other descriptor.
func ReadSealed(fd, limit int) ([]byte, error) {
	have, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || have&seals != seals {
		return nil, errors.New("not a sealed memfd")
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Size > int64(limit) {
		return nil, ErrTooLarge
	}
	content := make([]byte, st.Size)
	for off := 0; off < len(content); {
		n, err := unix.Pread(fd, content[off:], int64(off))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, coder.ErrMalformed
		}
		off += n
	}
	return content, nil
}
