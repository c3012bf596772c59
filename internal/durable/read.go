package durable

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ReadFile returns the content of the regular file rel, which must not be
// larger than max bytes (an error that is ErrTooBig). It never waits for a
// writer and follows no link.
func (d *Dir) ReadFile(rel string, max int64) ([]byte, error) {
	if d.helper != nil {
		a, _, err := d.ask(Request{Op: OpReadFile, Rel: rel, Max: max})
		if err == nil && a.Data == nil {
			a.Data = []byte{} // an empty file is one
		}
		return a.Data, err
	}
	fd, err := openRegular(d.fd, rel, unix.O_RDONLY, 0)
	if err != nil {
		return nil, d.fail("read", rel, err)
	}
	defer unix.Close(fd)
	data, err := readAll(fd, max)
	if err == ErrTooBig {
		return nil, &Error{
			Do: "read", Path: d.Path(rel), Err: ErrTooBig,
			Why: fmt.Sprintf("larger than %d KB", max>>10), Remedy: "make it smaller, or remove it",
		}
	}
	return data, d.fail("read", rel, err)
}

// readAll reads to the end, but not beyond max bytes: a file may grow, and a
// file of /proc has no size.
func readAll(fd int, max int64) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Size > max {
		return nil, ErrTooBig
	}
	buf := make([]byte, 0, st.Size+512)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := retry(func() (int, error) { return unix.Read(fd, buf[len(buf):cap(buf)]) })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return buf, nil
		}
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > max {
			return nil, ErrTooBig
		}
	}
}

// Same tells whether rel is the very file that f has open.
func (d *Dir) Same(rel string, f *os.File) bool {
	var open unix.Stat_t
	if unix.Fstat(int(f.Fd()), &open) != nil {
		return false
	}
	named, err := d.Lstat(rel)
	return err == nil && named.Dev == open.Dev && named.Ino == open.Ino
}
