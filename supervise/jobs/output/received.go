package output

import (
	"errors"

	"golang.org/x/sys/unix"

	"rlminit/internal/kernel"
)

// received is the memfd that a pipe is read into where splice(2) is refused, as a
// kernel.Receiver. Invariant: the file ends at its position, but while bytes are expected
// behind that; so a successor knows how many.
type received struct {
	fd int

	at   int64 // the position at which bytes are expected
	mem  []byte
	head int // where in mem they begin, for a mapping begins with a page
}

// Expect is kernel.Receiver's. A kill within it leaves nothing but the pattern behind the
// position.
func (r *received) Expect(n int) ([]byte, error) {
	at, err := unix.Seek(r.fd, 0, unix.SEEK_CUR)
	if err != nil {
		return nil, err
	}
	pattern := make([]byte, n)
	kernel.Pattern(pattern, at)
	for done := 0; done < n; {
		m, err := unix.Pwrite(r.fd, pattern[done:], at+int64(done))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(err, unix.Ftruncate(r.fd, at))
		}
		done += max(m, 0)
	}
	r.at, r.head = at, int(at%pageSize)
	r.mem, err = unix.Mmap(r.fd, at-int64(r.head), r.head+n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(err, unix.Ftruncate(r.fd, at))
	}
	return r.mem[r.head:], nil
}

// Advance is kernel.Receiver's.
func (r *received) Advance(n int) error {
	_, err := unix.Seek(r.fd, r.at+int64(n), unix.SEEK_SET)
	if err == nil && n < len(r.mem)-r.head {
		err = unix.Ftruncate(r.fd, r.at+int64(n))
	}
	return errors.Join(err, unix.Munmap(r.mem))
}

// settle advances behind what a predecessor expected if it has come, and otherwise ends the
// file at its position.
func (r *received) settle() error {
	var st unix.Stat_t
	at, err := unix.Seek(r.fd, 0, unix.SEEK_CUR)
	if err == nil {
		err = unix.Fstat(r.fd, &st)
	}
	if err != nil || st.Size <= at {
		return err
	}
	expected := make([]byte, st.Size-at)
	if n, err := unix.Pread(r.fd, expected, at); err != nil || n < len(expected) {
		return errors.Join(err, errors.New("the memory of an output is damaged"))
	}
	if kernel.Came(expected, at) {
		_, err = unix.Seek(r.fd, st.Size, unix.SEEK_SET)
		return err
	}
	return unix.Ftruncate(r.fd, at)
}
