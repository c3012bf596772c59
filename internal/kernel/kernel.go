// Package kernel has the system calls that some places refuse, each with another way to the
// same end. A container engine's seccomp profile answers a call that it does not know with
// EPERM or with ENOSYS, whoever makes it and whatever its arguments are.
package kernel

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// Refused tells whether err is the answer of a place that refuses a system call. EPERM may
// have another cause: the caller asks where none is to be expected, or tries the other way,
// which then fails for that cause.
func Refused(err error) bool { return errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) }

// Named is an error of a system call that has no other way: where the place refuses the
// call, it says so with the call's name, and is no error of the file's any more, for which
// its owner or its mode would be the cause.
func Named(call string, err error) error {
	if !Refused(err) {
		return err
	}
	return fmt.Errorf("this place refuses the system call %s (%v); see the container's seccomp profile", call, err)
}

// Rlimit is a limit of this process, prlimit(2). Where the place refuses the call, nobody can
// be given a limit either, and the error names it.
func Rlimit(resource int) (is unix.Rlimit, err error) {
	err = Named("prlimit64", unix.Prlimit(0, resource, nil, &is))
	return is, err
}

// Punch gives the memory behind a part of a memfd back; the part reads as zeros afterwards.
// at and n are multiples of the size of a page.
func Punch(memfd int, at, n int64) error {
	err := unix.Fallocate(memfd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, n)
	if Refused(err) {
		return punchMapped(memfd, at, n)
	}
	return err
}

// punchMapped is Punch by madvise(2).
func punchMapped(memfd int, at, n int64) error {
	mem, err := unix.Mmap(memfd, at, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	return errors.Join(unix.Madvise(mem, unix.MADV_REMOVE), unix.Munmap(mem))
}

// Append copies up to n bytes of a memfd from an offset to the end of a file whose position
// is there, and returns how many; 0 is the memfd's end.
func Append(file, memfd int, from int64, n int) (int, error) {
	for {
		at := from
		copied, err := unix.Sendfile(file, memfd, &at, n)
		switch {
		case errors.Is(err, unix.EINTR):
		case Refused(err):
			return appendPiece(file, memfd, from, n)
		default:
			return max(copied, 0), err
		}
	}
}

// appendPiece is Append by read and write.
func appendPiece(file, memfd int, from int64, n int) (int, error) {
	buffer := make([]byte, min(n, pieceBytes))
	for {
		got, err := unix.Pread(memfd, buffer, from)
		if err == nil && got > 0 {
			got, err = unix.Write(file, buffer[:got])
		}
		if !errors.Is(err, unix.EINTR) {
			return max(got, 0), err
		}
	}
}

// pieceBytes is the most that is copied at once.
const pieceBytes = 256 << 10

// Splice moves up to n bytes from a pipe behind the position of a memfd, and the position
// with them. The kernel does both in one system call that a signal can shorten, but not
// tear. It does not wait: with nothing there it returns EAGAIN. Where the place refuses
// the call, Receive is the other way.
func Splice(pipe, memfd, n int) (int, error) {
	for {
		moved, err := unix.Splice(pipe, nil, memfd, nil, n, unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return max(int(moved), 0), err
	}
}

// Receiver is memory into which a pipe is read where Splice is refused. A process may be
// killed after a read and before it can note how many bytes came, so the number is fixed
// before, and the memory itself tells afterwards whether they came:
//
//	expect   the memory holds a pattern; a successor knows how much of it is expected
//	read     exactly so much, which the pipe has, for there is no other reader
//	advance  the memfd's position, which says that all before it has come
//
// A successor that finds something expected behind the position looks for the pattern:
// Came. The pattern is none that text can have, in any of its bytes.
type Receiver interface {
	// Expect makes room for n bytes behind the position, filled by Pattern, and notes for a
	// successor that they may come. It returns them.
	Expect(n int) ([]byte, error)
	// Advance moves the position behind n bytes that have come; nothing is expected then.
	Advance(n int) error
}

// Receive reads up to n bytes from a pipe into a receiver, and returns how many. The pipe does
// not block: with nothing there it returns EAGAIN.
func Receive(pipe int, into Receiver, n int) (int, error) {
	there, err := waiting(pipe)
	if there == 0 || err != nil {
		return 0, err
	}
	b, err := into.Expect(min(there, n, pieceBytes))
	if err != nil {
		return 0, err
	}
	for {
		got, err := unix.Read(pipe, b)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && got == 0 {
			err = io.ErrUnexpectedEOF // somebody else reads the pipe
		}
		return max(got, 0), errors.Join(err, into.Advance(max(got, 0)))
	}
}

// waiting is how many bytes a pipe has; 0 is its end, and EAGAIN that none have come.
func waiting(pipe int) (int, error) {
	for {
		n, err := unix.IoctlGetInt(pipe, unix.TIOCINQ)
		if n > 0 || err != nil {
			return n, err
		}
		fds := []unix.PollFd{{Fd: int32(pipe), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, 0); err != nil && !errors.Is(err, unix.EINTR) {
			return 0, err
		}
		switch come := fds[0].Revents; {
		case come&unix.POLLIN != 0: // they have come since
		case come&unix.POLLHUP != 0:
			return 0, nil
		default:
			return 0, unix.EAGAIN
		}
	}
}

// Pattern fills memory that begins at an offset of a memfd with what Came looks for.
func Pattern(b []byte, at int64) {
	for i := range b {
		b[i] = patternAt(at + int64(i))
	}
}

// Came tells whether anything was read into memory that Pattern had filled.
func Came(b []byte, at int64) bool {
	for i := range b {
		if b[i] != patternAt(at+int64(i)) {
			return true
		}
	}
	return false
}

// patternAt is a byte that UTF-8 does not have, and another one at most offsets.
func patternAt(at int64) byte {
	return 0xf8 | byte(uint64(at)*0x9e3779b97f4a7c15>>61)
}
