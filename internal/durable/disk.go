package durable

import (
	"fmt"

	"golang.org/x/sys/unix"

	"rlminit/internal/kernel"
)

// disk is where names are put in the place of others, so that they stay there. It
// knows directories by their descriptors.
type disk struct {
	fault func(step string) error // a test's disk that fails; nil: none
}

func (k disk) failing(step string) error {
	if k.fault == nil {
		return nil
	}
	return k.fault(step)
}

// sync makes the names in an open directory durable.
func (k disk) sync(fd int) error {
	if err := k.failing("sync"); err != nil {
		return err
	}
	return syncNames(fd)
}

// syncNames is fsync(2) on a directory. File systems that cannot (some FUSE and
// network ones: EINVAL) have nothing better to offer.
func syncNames(fd int) error {
	_, err := retry(func() (int, error) { return 0, unix.Fsync(fd) })
	if err == unix.EINVAL || err == unix.ENOTSUP {
		return nil
	}
	return kernel.Named("fsync", err)
}

// move renames durably, over what is there, or as renameNew does: that is taken back
// where it cannot be made durable.
func (k disk) move(fromAt int, from string, toAt int, to string, fresh, within bool) error {
	rename := unix.Renameat
	if fresh {
		rename = RenameNewAt
	}
	err := rename(fromAt, from, toAt, to)
	if err == unix.EACCES {
		// A directory that gets another parent must be writable itself,
		// and whoever it belongs to may have taken that away.
		if fd, e := openToEmpty(fromAt, from); e == nil {
			unix.Close(fd)
			err = rename(fromAt, from, toAt, to)
		}
	}
	if err != nil {
		return err
	}
	if err = k.sync(toAt); err == nil && !within {
		err = k.sync(fromAt)
	}
	if err == nil || !fresh {
		return err
	}
	return k.back(err, toAt, to, fromAt, from)
}

// RenameNewAt renames to a name that nothing has, or fails with EEXIST. NFS and some
// FUSE file systems know no RENAME_NOREPLACE. What remains there is a gap between
// the look and the rename, which for directories ends in ENOTEMPTY.
func RenameNewAt(fromAt int, from string, toAt int, to string) error {
	err := unix.Renameat2(fromAt, from, toAt, to, unix.RENAME_NOREPLACE)
	if err != unix.EINVAL && !kernel.Refused(err) {
		return err
	}
	switch _, err := lstatAt(toAt, to); err {
	case unix.ENOENT:
	case nil:
		return unix.EEXIST
	default: // who cannot look does not know that nothing is there
		return err
	}
	err = unix.Renameat(fromAt, from, toAt, to)
	if err == unix.ENOTEMPTY {
		return unix.EEXIST
	}
	return err
}

// back takes a rename back that could not be made durable.
func (k disk) back(why error, at int, name string, toAt int, to string) error {
	err := k.failing("rename")
	if err == nil {
		err = unix.Renameat(at, name, toAt, to)
	}
	if err != nil {
		return fmt.Errorf("%w; %w", why, ErrInDoubt)
	}
	return why
}

// put gives temp the name base, and makes that durable. What was there is
// kept until then, so that a disk that fails changes nothing.
func (k disk) put(at int, temp, base string) error {
	if st, err := lstatAt(at, base); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		_ = unix.Unlinkat(at, temp, 0)
		return unix.EISDIR // as rename(2) has it
	}
	err := unix.Renameat2(at, temp, at, base, unix.RENAME_EXCHANGE)
	kept := err == nil // as temp
	if !kept {         // nothing was there, or the file system cannot
		absent := err == unix.ENOENT
		if err = unix.Renameat(at, temp, at, base); err != nil {
			_ = unix.Unlinkat(at, temp, 0)
			return err
		}
		if err = k.sync(at); err == nil {
			return nil
		}
		if !absent || k.failing("remove") != nil || unix.Unlinkat(at, base, 0) != nil {
			return fmt.Errorf("%w; %w", err, ErrInDoubt)
		}
		return err
	}
	if err = k.sync(at); err != nil {
		return k.back(err, at, temp, at, base)
	}
	_ = unix.Unlinkat(at, temp, 0) // CleanTemps removes it where this fails
	return nil
}
