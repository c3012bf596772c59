package durable

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"
)

// putOver gives temp, which has data, the name base, if that is was. The two names
// are exchanged, so that what somebody else puts there at the same moment is not
// lost, but comes out under the name temp, and goes back to its place.
func (d *Dir) putOver(at int, temp, base string, data, was []byte) error {
	err := d.failing("put")
	switch {
	case err != nil:
	case len(was) == 0:
		err = putNew(at, temp, base)
	default:
		err = d.exchange(at, temp, base, data, was)
	}
	if !errors.Is(err, ErrInDoubt) {
		_ = unix.Unlinkat(at, temp, 0) // there is none where it has its name
	}
	return err
}

// putNew is putOver where nothing is to be there.
func putNew(at int, temp, base string) error {
	err := unix.Renameat2(at, temp, at, base, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL || err == unix.ENOSYS { // NFS, some FUSE
		if _, err = lstatAt(at, base); err == unix.ENOENT {
			return unix.Renameat(at, temp, at, base)
		}
		err = unix.EEXIST
	}
	if err == unix.EEXIST {
		return ErrChanged
	}
	return err
}

// exchange leaves under the name temp what nobody needs any more.
func (d *Dir) exchange(at int, temp, base string, data, was []byte) error {
	err := unix.Renameat2(at, temp, at, base, unix.RENAME_EXCHANGE)
	switch {
	case err == unix.ENOENT:
		return ErrChanged // it is gone
	case err == unix.EINVAL, err == unix.ENOSYS: // NFS, some FUSE: a look has to do
		if !holds(at, base, was) {
			return ErrChanged
		}
		return unix.Renameat(at, temp, at, base)
	case err != nil:
		return err
	}
	failed := d.failing("look")
	if failed == nil && holds(at, temp, was) {
		return nil
	}
	// Back with it, until what comes out is what went in: or it is newer still.
	for went := data; ; {
		back, _ := content(at, temp)
		err := unix.Renameat2(at, temp, at, base, unix.RENAME_EXCHANGE)
		if err == unix.ENOENT { // ours was taken away, and what comes back with it
			return errors.Join(failed, ErrChanged)
		}
		if err != nil { // what somebody has put there stays, as temp
			return errors.Join(failed, err, ErrInDoubt)
		}
		if holds(at, temp, went) {
			return errors.Join(failed, ErrChanged)
		}
		went = back
	}
}

// holds tells whether a name is a regular file with this content.
func holds(at int, name string, want []byte) bool {
	is, ok := content(at, name)
	return ok && bytes.Equal(is, want)
}

func content(at int, name string) ([]byte, bool) {
	fd, err := openat(at, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
	data, err := readAll(fd, defaultMax)
	return data, err == nil
}
