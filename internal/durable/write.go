package durable

import (
	"fmt"

	"golang.org/x/sys/unix"

	"rlminit/internal/kernel"
)

// Write says how a file is written.
type Write struct {
	Mode uint32 // exactly; the umask does not matter
	Max  int64  // bytes; more is refused. 0: 1 MB
	// Names: the new name is durable too when the call returns (fsync of the
	// directory), or the old content is there again. Without it a power cut may
	// bring the old content back, whole.
	Names bool
	// Loose: nothing is made durable. A power cut may leave the old content, the
	// new one, or an empty file.
	Loose bool
}

const defaultMax = 1 << 20

func (how Write) request(rel string, data []byte) Request {
	return Request{Op: OpWriteFile, Rel: rel, Data: data, Mode: how.Mode, Max: how.Max, Names: how.Names, Loose: how.Loose}
}

// WriteFile puts data in the place of rel: it appears whole or not at all, and
// what was there (a file, a link, a FIFO; not a directory) is replaced, not
// written to. The content is on the disk before the name is.
func (d *Dir) WriteFile(rel string, data []byte, how Write) error {
	if d.helper != nil {
		return d.order(how.request(rel, data))
	}
	limit := how.Max
	if limit == 0 {
		limit = defaultMax
	}
	if int64(len(data)) > limit {
		return &Error{
			Do: "write", Path: d.Path(rel), Err: ErrTooBig,
			Why: fmt.Sprintf("%d KB, at most %d KB are allowed", len(data)>>10, limit>>10),
		}
	}
	err := inParent(d.fd, rel, func(at int, base string) error {
		if err := d.disk.failing("write"); err != nil {
			return err
		}
		temp := TempName()
		if err := writeNew(at, temp, data, how.Mode, how.Loose); err != nil {
			return err
		}
		if !how.Names || how.Loose {
			err := unix.Renameat(at, temp, at, base)
			if err != nil {
				_ = unix.Unlinkat(at, temp, 0) // the rename's error is the one to tell
			}
			return err
		}
		return d.disk.put(at, temp, base)
	})
	return d.fail("write", rel, err)
}

// writeNew makes the file name, which must not exist, with data on the disk unless
// that is not needed.
// Where that fails, nothing is left.
func writeNew(at int, name string, data []byte, mode uint32, loose bool) error {
	fd, err := openat(at, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	err = finish(fd, writeAll(fd, data), mode, loose)
	if err != nil {
		_ = unix.Unlinkat(at, name, 0)
	}
	return err
}

// finish closes a new file. If all was written (err) it has its mode before, and is on
// the disk unless that is not needed.
func finish(fd int, err error, mode uint32, loose bool) error {
	if err == nil {
		err = unix.Fchmod(fd, mode)
	}
	if err == nil && !loose {
		_, err = retry(func() (int, error) { return 0, unix.Fsync(fd) })
		err = kernel.Named("fsync", err)
	}
	// close(2) is where NFS reports a full disk.
	if e := unix.Close(fd); err == nil && e != unix.EINTR {
		err = e
	}
	return err
}

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := retry(func() (int, error) { return unix.Write(fd, data) })
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// Append adds data to the end of the regular file rel in one write, and makes
// it if need be. A file that holds max bytes or more is first renamed to
// rel + ".1", over what is there.
func (d *Dir) Append(rel string, data []byte, mode uint32, max int64) error {
	if d.helper != nil {
		return d.order(Request{Op: OpAppend, Rel: rel, Data: data, Mode: mode, Max: max})
	}
	if st, err := lstatBeneath(d.fd, rel); err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size >= max {
		if err := d.Rename(rel, rel+".1"); err != nil {
			return err
		}
	}
	fd, err := openRegular(d.fd, rel, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT, mode)
	if err != nil {
		return d.fail("write", rel, err)
	}
	err = writeAll(fd, data)
	if e := unix.Close(fd); err == nil && e != unix.EINTR {
		err = e
	}
	return d.fail("write", rel, err)
}
