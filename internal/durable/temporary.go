package durable

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// Temporary tells whether what the kernel refused with err may work later: memory,
// descriptors, processes, a disk or a program's file that is being written.
func Temporary(err error) bool {
	for _, errno := range []syscall.Errno{
		unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ETXTBSY, unix.EINTR, unix.EIO, unix.EBUSY, unix.ENOSPC,
		unix.EDQUOT, unix.ENOBUFS, unix.ETOOMANYREFS, unix.ETIMEDOUT,
	} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
